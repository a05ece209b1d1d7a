// RMS normalization of rows, or of heads within rows.
//
// One threadgroup per head.

#include <metal_stdlib>
#include "arguments.h"
#include "norms.h"

using namespace metal;

/// `y = x / sqrt(mean(x^2) + eps) * gain`; `y` may be `x`: a lane reads and writes the same features.
kernel void rms_norm(constant Norm& args [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const float* gain [[buffer(3)]],
                     uint2 group [[threadgroup_position_in_grid]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float squares[norm_parts];
    const ulong head = group.x * args.width;
    x += ulong(group.y) * args.x_stride + head;
    y += ulong(group.y) * args.y_stride + head;

    for (uint part = simdgroup; part < norm_parts; part += simdgroups) {
        const float sum = squares_of(x, args.width, part, lane);
        if (lane == 0) {
            squares[part] = sum;
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const float factor = norm_factor(squares, args.width, args.eps, lane);
    for (uint part = simdgroup; part < norm_parts; part += simdgroups) {
        for (uint i = 32 * part + lane; i < args.width; i += norm_step) {
            y[i] = normalized_by(factor, x[i], gain[i]);
        }
    }
}
