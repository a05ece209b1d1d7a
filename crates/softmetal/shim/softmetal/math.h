// Floating-point functions (Metal Shading Language specification, section 6.5).
//
// Those of half are computed in float and rounded once more. `fast::` and `precise::` compute the same
// here; Apple GPUs differ within the errors of section 8.
#pragma once

#define SOFTMETAL_FUNCTIONS(M)                                                                     \
    M(acos, __builtin_acosf)                                                                       \
    M(acosh, __builtin_acoshf)                                                                     \
    M(asin, __builtin_asinf)                                                                       \
    M(asinh, __builtin_asinhf)                                                                     \
    M(atan, __builtin_atanf)                                                                       \
    M(atanh, __builtin_atanhf)                                                                     \
    M(ceil, __builtin_ceilf)                                                                       \
    M(cos, __builtin_cosf)                                                                         \
    M(cosh, __builtin_coshf)                                                                       \
    M(cospi, softmetal::cospi)                                                                     \
    M(exp, __builtin_expf)                                                                         \
    M(exp2, __builtin_exp2f)                                                                       \
    M(exp10, softmetal::exp10)                                                                     \
    M(fabs, __builtin_fabsf)                                                                       \
    M(floor, __builtin_floorf)                                                                     \
    M(log, __builtin_logf)                                                                         \
    M(log2, __builtin_log2f)                                                                       \
    M(log10, __builtin_log10f)                                                                     \
    M(rint, __builtin_rintf)                                                                       \
    M(round, __builtin_roundf)                                                                     \
    M(rsqrt, softmetal::rsqrt)                                                                     \
    M(sin, __builtin_sinf)                                                                         \
    M(sinh, __builtin_sinhf)                                                                       \
    M(sinpi, softmetal::sinpi)                                                                     \
    M(sqrt, __builtin_sqrtf)                                                                       \
    M(tan, __builtin_tanf)                                                                         \
    M(tanh, __builtin_tanhf)                                                                       \
    M(tanpi, softmetal::tanpi)                                                                     \
    M(trunc, __builtin_truncf)
#define SOFTMETAL_FUNCTIONS_OF_TWO(M)                                                              \
    M(atan2, __builtin_atan2f)                                                                     \
    M(copysign, __builtin_copysignf)                                                               \
    M(divide, softmetal::divide)                                                                   \
    M(fdim, __builtin_fdimf)                                                                       \
    M(fmax, __builtin_fmaxf)                                                                       \
    M(fmin, __builtin_fminf)                                                                       \
    M(fmod, __builtin_fmodf)                                                                       \
    M(pow, __builtin_powf)                                                                         \
    M(powr, softmetal::powr)

namespace softmetal {

inline float exp10(float x) { return float(__builtin_pow(10.0, double(x))); }
inline float divide(float x, float y) { return x / y; }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
/// As pow where that is `exp2(y * log2(x))`.
inline float powr(float x, float y) {
    const bool is_indefinite = (x == 0.0f && y == 0.0f) || (__builtin_isinf(x) && y == 0.0f) ||
                               (x == 1.0f && __builtin_isinf(y)) || x != x || y != y;
    return x < 0.0f || is_indefinite ? NAN : __builtin_powf(x, y);
}

/// Sine of pi * (x + shift / 2): the multiples of a half are exact.
inline double sine_of_halves(float x, int shift) {
    const float quarter = __builtin_rintf(2.0f * x);
    const double rest = 3.14159265358979323846 * (double(x) - 0.5 * double(quarter));
    // Floats beyond are multiples of four.
    const int turn = (__builtin_fabsf(quarter) < 0x1p30f ? int(quarter) : 0) + shift;
    const double value = turn & 1 ? __builtin_cos(rest) : __builtin_sin(rest);
    return turn & 2 ? -value : value;
}
inline float sinpi(float x) {
    return __builtin_isinf(x) ? NAN : __builtin_truncf(x) == x ? __builtin_copysignf(0.0f, x)
                                                               : float(sine_of_halves(x, 0));
}
inline float cospi(float x) { return __builtin_isinf(x) ? NAN : float(sine_of_halves(x, 1)) + 0.0f; }
inline float tanpi(float x) { return sinpi(x) / cospi(x); }

} // namespace softmetal

namespace metal {

// C++ would convert a bfloat by itself.
#define SOFTMETAL_NOT_OF_BFLOAT(name, ...)                                                         \
    template <class T, class = enable_if_t<is_same_v<T, bfloat>>>                                  \
    __attribute__((unavailable("bfloat has no functions: convert to float"))) T name(__VA_ARGS__);
#define SOFTMETAL_FUNCTION(name, builtin)                                                          \
    inline float name(float x) { return builtin(x); }                                              \
    inline half name(half x) { return half(builtin(float(x))); }                                   \
    SOFTMETAL_NOT_OF_BFLOAT(name, T)                                                               \
    SOFTMETAL_LIFT1(name)
SOFTMETAL_FUNCTIONS(SOFTMETAL_FUNCTION)
#undef SOFTMETAL_FUNCTION
#define SOFTMETAL_FUNCTION(name, builtin)                                                          \
    inline float name(float x, float y) { return builtin(x, y); }                                  \
    inline half name(half x, half y) { return half(builtin(float(x), float(y))); }                 \
    SOFTMETAL_NOT_OF_BFLOAT(name, T, T)                                                            \
    SOFTMETAL_LIFT2(name)
SOFTMETAL_FUNCTIONS_OF_TWO(SOFTMETAL_FUNCTION)
#undef SOFTMETAL_FUNCTION
#undef SOFTMETAL_NOT_OF_BFLOAT

/// Less than 1, even where the difference rounds to it.
template <class T, class = softmetal::if_float<T>> inline T fract(T x) {
    const T difference = x - floor(x);
    return difference == T(1) ? T(1) - numeric_limits<T>::epsilon() / T(2) : difference;
}
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/// Exact in double, where the product has 22 bits, up to what is too small to matter.
inline half fma(half a, half b, half c) { return half(double(a) * double(b) + double(c)); }
inline float fmin3(float x, float y, float z) { return fmin(x, fmin(y, z)); }
inline half fmin3(half x, half y, half z) { return fmin(x, fmin(y, z)); }
inline float fmax3(float x, float y, float z) { return fmax(x, fmax(y, z)); }
inline half fmax3(half x, half y, half z) { return fmax(x, fmax(y, z)); }
inline float fmedian3(float x, float y, float z) { return median3(x, y, z); }
inline half fmedian3(half x, half y, half z) { return median3(x, y, z); }
SOFTMETAL_LIFT1(fract)
SOFTMETAL_LIFT3(fma)
SOFTMETAL_LIFT3(fmin3)
SOFTMETAL_LIFT3(fmax3)
SOFTMETAL_LIFT3(fmedian3)

/// The next number of T in the direction of `y`.
template <class T, class = softmetal::if_float<T>> inline T nextafter(T x, T y) {
    typedef conditional_t<is_same_v<T, half>, ushort, uint> bits;
    if (x != x || y != y) return T(NAN);
    if (x == y) return y;
    if (x == T(0)) return y < x ? -numeric_limits<T>::denorm_min() : numeric_limits<T>::denorm_min();
    return as_type<T>(bits(as_type<bits>(x) + ((x < y) == (x > T(0)) ? 1 : -1)));
}
SOFTMETAL_LIFT2(nextafter)

#define SOFTMETAL_REUSE(name, builtin) using metal::name;
#define SOFTMETAL_VARIANT                                                                          \
    SOFTMETAL_FUNCTIONS(SOFTMETAL_REUSE)                                                           \
    SOFTMETAL_FUNCTIONS_OF_TWO(SOFTMETAL_REUSE)                                                    \
    using metal::abs; using metal::clamp; using metal::max; using metal::max3;                     \
    using metal::median3; using metal::min; using metal::min3; using metal::mix;                   \
    using metal::saturate; using metal::sign; using metal::smoothstep; using metal::step;          \
    using metal::fma; using metal::fmax3; using metal::fmedian3; using metal::fmin3;               \
    using metal::fract; using metal::nextafter;
namespace fast {
SOFTMETAL_VARIANT
} // namespace fast
namespace precise {
SOFTMETAL_VARIANT
} // namespace precise
#undef SOFTMETAL_REUSE
#undef SOFTMETAL_VARIANT
#undef SOFTMETAL_FUNCTIONS
#undef SOFTMETAL_FUNCTIONS_OF_TWO

} // namespace metal
