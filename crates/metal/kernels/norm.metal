// RMS normalization of rows, or of heads within rows.
//
// One threadgroup per head; its threads stride over the features.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

/// Sum over a threadgroup of up to 32 simdgroups, the same in every thread.
float threadgroup_sum(float value, threadgroup float* partial, uint lane, uint simdgroup,
                      uint simdgroups) {
    value = simd_sum(value);
    if (lane == 0) {
        partial[simdgroup] = value;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
}

/// `y = x / sqrt(mean(x^2) + eps) * gain`; `y` may be `x`.
kernel void rms_norm(constant Norm& args [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const float* gain [[buffer(3)]],
                     uint2 group [[threadgroup_position_in_grid]],
                     uint2 threads [[threads_per_threadgroup]],
                     uint thread_index [[thread_index_in_threadgroup]],
                     uint lane [[thread_index_in_simdgroup]],
                     uint simdgroup [[simdgroup_index_in_threadgroup]],
                     uint simdgroups [[simdgroups_per_threadgroup]]) {
    threadgroup float partial[32];
    const ulong head = group.x * args.width;
    x += ulong(group.y) * args.x_stride + head;
    y += ulong(group.y) * args.y_stride + head;

    float squares = 0.0f;
    for (uint i = thread_index; i < args.width; i += threads.x) {
        squares += x[i] * x[i];
    }
    squares = threadgroup_sum(squares, partial, lane, simdgroup, simdgroups);
    // The order of the sum is the device's own, and makes a larger difference than the quotient and root.
    const float factor = precise::rsqrt(squares / float(args.width) + args.eps);
    for (uint i = thread_index; i < args.width; i += threads.x) {
        y[i] = x[i] * factor * gain[i];
    }
}
