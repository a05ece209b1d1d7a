// Rotary position embedding. A thread turns one pair of features, or copies two that are not rotated.

#include <metal_stdlib>
#include "arguments.h"

using namespace metal;

constant bool interleaved [[function_constant(0)]];

/// 2 pi as a sum of two floats.
constant constexpr float tau = 6.28318548f;
constant constexpr float tau_rest = -1.74845553e-7f;

/// Cosine and sine of `position` times a part of a revolution, which is a sum of two floats.
///
/// A product of floats far from zero would be a large angle, off by many units of a small one's last place. So whole
/// revolutions are dropped before anything is rounded, and what the angle's rounding leaves out turns the result further.
/// Whether a compiler contracts products changes nothing.
float2 rotation(int position, float2 turn) {
    const float p = float(position);
    const float fraction = fma(p, turn.x, -rint(p * turn.x));
    const float revolutions = fma(p, turn.y, fraction);
    const float angle = revolutions * tau;
    const float rest = fma(revolutions, tau_rest, fma(revolutions, tau, -angle));
    const float c = precise::cos(angle);
    const float s = precise::sin(angle);
    return float2(fma(-s, rest, c), fma(c, rest, s));
}

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
    const float2 turned = rotation(positions[row], turns[pair]);
    const uint first = interleaved ? 2 * pair : pair;
    const uint second = interleaved ? first + 1 : first + args.n_rot / 2;
    const float a = x[first];
    const float b = x[second];
    y[first] = a * turned.x - b * turned.y;
    y[second] = a * turned.y + b * turned.x;
}
