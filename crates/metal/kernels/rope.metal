// Rotary position embedding. A thread turns one pair of features, or copies two that are not rotated.

#include <metal_stdlib>
#include "arguments.h"
#include "rotations.h"

using namespace metal;

constant bool interleaved [[function_constant(0)]];

/// Pair `i` turns by `position * turns[i]` revolutions; `y` may be `x`.
kernel void rope(constant Rope& args [[buffer(0)]],
                 device float* y [[buffer(1)]],
                 device const float* x [[buffer(2)]],
                 device const int* positions [[buffer(3)]],
                 constant float2* turns [[buffer(4)]],
                 uint3 place [[thread_position_in_grid]]) {
    const uint pair = place.x;
    if (2 * pair >= args.head_dim) {
        return;
    }
    const ulong row = place.z;
    const ulong head = place.y * args.head_dim;
    x += row * args.x_stride + head;
    y += row * args.y_stride + head;
    if (2 * pair >= args.n_rot) {
        y[2 * pair] = x[2 * pair];
        y[2 * pair + 1] = x[2 * pair + 1];
        return;
    }
    const float2 turn = rotation(positions[row], turns[pair]);
    const uint first = interleaved ? 2 * pair : pair;
    const uint second = interleaved ? first + 1 : first + args.n_rot / 2;
    const float a = x[first];
    const float b = x[second];
    y[first] = turned_first(a, b, turn);
    y[second] = turned_second(a, b, turn);
}
