// Rotary position embedding. A thread turns one pair of features, or copies two that are not rotated.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

constant bool interleaved [[function_constant(0)]];
constant bool has_factors [[function_constant(1)]];

/// Pair `i` turns by `position * freq_scale * base^(-2i / n_rot) / factors[i]`; `y` may be `x`.
kernel void rope(constant Rope& args [[buffer(0)]],
                 device float* y [[buffer(1)]],
                 device const float* x [[buffer(2)]],
                 device const int* positions [[buffer(3)]],
                 device const float* factors [[buffer(4)]],
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
    // An angle's error is that of the result, and angles grow with positions: the fast functions are off by a
    // fixed amount even for small ones.
    const float power = precise::divide(-2.0f * float(pair), float(args.n_rot));
    float angle = float(positions[row]) * args.freq_scale * precise::exp2(power * args.log2_base);
    if (has_factors) {
        angle = precise::divide(angle, factors[pair]);
    }
    const float c = precise::cos(angle);
    const float s = precise::sin(angle);
    const uint first = interleaved ? 2 * pair : pair;
    const uint second = interleaved ? first + 1 : first + args.n_rot / 2;
    const float a = x[first];
    const float b = x[second];
    y[first] = a * c - b * s;
    y[second] = a * s + b * c;
}
