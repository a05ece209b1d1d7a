// Rows of an activation by index. A thread copies four features; the host has checked the indices.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

constant bool vectorized [[function_constant(0)]];

/// `y[r] = x[indices[r]]`
kernel void get_rows(constant GetRows& args [[buffer(0)]],
                     device float* y [[buffer(1)]],
                     device const float* x [[buffer(2)]],
                     device const int* indices [[buffer(3)]],
                     uint2 position [[thread_position_in_grid]]) {
    const uint first = 4 * position.x;
    if (first >= args.width) {
        return;
    }
    device const float* from = x + ulong(indices[position.y]) * args.x_stride + first;
    device float* to = y + ulong(position.y) * args.y_stride + first;
    const uint count = args.width - first;
    if (vectorized && count >= 4) {
        *(device float4*)to = *(device const float4*)from;
        return;
    }
    for (uint i = 0; i < min(count, 4u); i++) {
        to[i] = from[i];
    }
}
