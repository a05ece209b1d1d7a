// Vectors of normalized integers (Metal Shading Language specification, section 6.14).
#pragma once

namespace softmetal {

/// The integer of `width` bits for a number from 0 (or -1) to 1, rounded to nearest even.
inline uint to_unorm(float x, uint width) {
    return uint(__builtin_rintf(metal::saturate(x) * float((1u << width) - 1)));
}
inline uint to_snorm(float x, uint width) {
    const float largest = float((1u << (width - 1)) - 1);
    const float scaled = x == x ? metal::clamp(x, -1.0f, 1.0f) * largest : 0.0f;
    return uint(int(__builtin_rintf(scaled))) & ((1u << width) - 1);
}
inline float from_unorm(uint bits, uint width) {
    const uint largest = (1u << width) - 1;
    return float(bits & largest) / float(largest);
}
inline float from_snorm(uint bits, uint width) {
    const int value = int(bits << (32 - width)) >> (32 - width);
    return metal::max(float(value) / float((1u << (width - 1)) - 1), -1.0f);
}
/// The transfer function of sRGB, IEC 61966-2-1.
inline float to_srgb(float linear) {
    const float x = metal::saturate(linear);
    return x <= 0.0031308f ? 12.92f * x : 1.055f * __builtin_powf(x, 1.0f / 2.4f) - 0.055f;
}
inline float from_srgb(float x) {
    return x <= 0.04045f ? x / 12.92f : __builtin_powf((x + 0.055f) / 1.055f, 2.4f);
}

} // namespace softmetal

namespace metal {

// Packs components of a width into an integer, the first in the lowest bits.
#define SOFTMETAL_PACK(P, T, format, N, width, norm)                                               \
    inline P pack_##T##_to_##format(vec<T, N> x) {                                                 \
        uint bits = 0;                                                                             \
        for (int i = 0; i < N; i++) bits |= softmetal::to_##norm(float(x[i]), width) << width * i; \
        return P(bits);                                                                            \
    }                                                                                              \
    inline vec<T, N> unpack_##format##_to_##T(P bits) {                                            \
        vec<T, N> x;                                                                               \
        for (int i = 0; i < N; i++) x[i] = T(softmetal::from_##norm(bits >> width * i, width));    \
        return x;                                                                                  \
    }
// The last component is linear.
#define SOFTMETAL_PACK_SRGB(T)                                                                     \
    inline uint pack_##T##_to_srgb_unorm4x8(vec<T, 4> x) {                                         \
        uint bits = softmetal::to_unorm(float(x[3]), 8) << 24;                                     \
        for (int i = 0; i < 3; i++)                                                                \
            bits |= softmetal::to_unorm(softmetal::to_srgb(float(x[i])), 8) << 8 * i;              \
        return bits;                                                                               \
    }                                                                                              \
    inline vec<T, 4> unpack_unorm4x8_srgb_to_##T(uint bits) {                                      \
        vec<T, 4> x;                                                                               \
        for (int i = 0; i < 3; i++)                                                                \
            x[i] = T(softmetal::from_srgb(softmetal::from_unorm(bits >> 8 * i, 8)));               \
        x[3] = T(softmetal::from_unorm(bits >> 24, 8));                                            \
        return x;                                                                                  \
    }
#define SOFTMETAL_PACK_10A2(T)                                                                     \
    inline uint pack_##T##_to_unorm10a2(vec<T, 4> x) {                                             \
        uint bits = softmetal::to_unorm(float(x[3]), 2) << 30;                                     \
        for (int i = 0; i < 3; i++) bits |= softmetal::to_unorm(float(x[i]), 10) << 10 * i;        \
        return bits;                                                                               \
    }                                                                                              \
    inline vec<T, 4> unpack_unorm10a2_to_##T(uint bits) {                                          \
        vec<T, 4> x;                                                                               \
        for (int i = 0; i < 3; i++) x[i] = T(softmetal::from_unorm(bits >> 10 * i, 10));           \
        x[3] = T(softmetal::from_unorm(bits >> 30, 2));                                            \
        return x;                                                                                  \
    }
#define SOFTMETAL_PACKS(T)                                                                         \
    SOFTMETAL_PACK(uint, T, unorm4x8, 4, 8, unorm)                                                 \
    SOFTMETAL_PACK(uint, T, snorm4x8, 4, 8, snorm)                                                 \
    SOFTMETAL_PACK(uint, T, unorm2x16, 2, 16, unorm)                                               \
    SOFTMETAL_PACK(uint, T, snorm2x16, 2, 16, snorm)                                               \
    SOFTMETAL_PACK_SRGB(T)                                                                         \
    SOFTMETAL_PACK_10A2(T)
SOFTMETAL_PACKS(float)
SOFTMETAL_PACKS(half)
#undef SOFTMETAL_PACK
#undef SOFTMETAL_PACK_SRGB
#undef SOFTMETAL_PACK_10A2
#undef SOFTMETAL_PACKS

} // namespace metal
