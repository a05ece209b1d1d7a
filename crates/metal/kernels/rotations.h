// Angles of rotary position embedding.
#pragma once

/// 2 pi as a sum of two floats.
constant constexpr float tau = 6.28318548f;
constant constexpr float tau_rest = -1.74845553e-7f;

/// Cosine and sine of `position` times a part of a revolution, which is a sum of two floats.
///
/// A product of floats far from zero would be a large angle, off by many units of a small one's last place. So whole
/// revolutions are dropped before anything is rounded, and what the angle's rounding leaves out turns the result further.
/// Whether a compiler contracts products changes nothing.
inline float2 rotation(int position, float2 turn) {
    const float p = float(position);
    const float fraction = metal::fma(p, turn.x, -metal::rint(p * turn.x));
    const float revolutions = metal::fma(p, turn.y, fraction);
    const float angle = revolutions * tau;
    const float rest = metal::fma(revolutions, tau_rest, metal::fma(revolutions, tau, -angle));
    const float c = metal::precise::cos(angle);
    const float s = metal::precise::sin(angle);
    return float2(metal::fma(-s, rest, c), metal::fma(c, rest, s));
}

/// First and second feature of a pair, after it was turned.
inline float turned_first(float a, float b, float2 turn) { return a * turn.x - b * turn.y; }
inline float turned_second(float a, float b, float2 turn) { return a * turn.y + b * turn.x; }
