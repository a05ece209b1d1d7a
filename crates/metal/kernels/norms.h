// The factor of an RMS normalization, with the same bits from every kernel and any number of threads.
//
// A row is the work of 256 lanes in eight parts of 32: lane `i` has features `i`, `i + 256` and so on, and the lanes of
// a part are summed before the parts are. A threadgroup's simdgroups take the parts in turns, however many they are.
#pragma once

/// Parts of a row.
static constant constexpr uint norm_parts = 8;
/// Features from one of a lane to its next.
static constant constexpr uint norm_step = 32 * norm_parts;

/// Sum of the squares of a part of a row, in all lanes.
template <typename Row>
inline float squares_of(Row x, uint width, uint part, uint lane) {
    float squares = 0.0f;
    for (uint i = 32 * part + lane; i < width; i += norm_step) {
        squares += x[i] * x[i];
    }
    return metal::simd_sum(squares);
}

/// `1 / sqrt(mean(x^2) + eps)` of a row, from the squares of its parts.
inline float norm_factor(threadgroup const float* squares, uint width, float eps, uint lane) {
    const float sum = metal::simd_sum(lane < norm_parts ? squares[lane] : 0.0f);
    // The order of the sum is the device's own, and makes a larger difference than the quotient and root.
    return metal::precise::rsqrt(sum / float(width) + eps);
}

/// A feature, or several, after the normalization.
template <typename T>
inline T normalized_by(float factor, T x, T gain) {
    return x * factor * gain;
}
