// Floating-point functions (Metal Shading Language specification, sections 6.2 to 6.5).
//
// `fast::` and `precise::` compute the same here; Apple GPUs differ within the errors of section 8.
#pragma once

namespace metal {

#define SOFTMETAL_UNARY(name, builtin)                                                             \
    inline float name(float x) { return builtin(x); }                                              \
    inline half name(half x) { return half(builtin(float(x))); }                                   \
    inline bfloat name(bfloat x) { return bfloat(builtin(float(x))); }                             \
    template <class T, int N> inline vec<T, N> name(vec<T, N> x) {                                 \
        vec<T, N> r;                                                                               \
        for (int i = 0; i < N; i++) r[i] = name(x[i]);                                             \
        return r;                                                                                  \
    }
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
    M(exp, __builtin_expf)                                                                         \
    M(exp2, __builtin_exp2f)                                                                       \
    M(exp10, softmetal_math::exp10)                                                                \
    M(fabs, __builtin_fabsf)                                                                       \
    M(floor, __builtin_floorf)                                                                     \
    M(fract, softmetal_math::fract)                                                                \
    M(log, __builtin_logf)                                                                         \
    M(log2, __builtin_log2f)                                                                       \
    M(log10, __builtin_log10f)                                                                     \
    M(rint, __builtin_rintf)                                                                       \
    M(round, __builtin_roundf)                                                                     \
    M(rsqrt, softmetal_math::rsqrt)                                                                \
    M(sign, softmetal_math::sign)                                                                  \
    M(sin, __builtin_sinf)                                                                         \
    M(sinh, __builtin_sinhf)                                                                       \
    M(sqrt, __builtin_sqrtf)                                                                       \
    M(tan, __builtin_tanf)                                                                         \
    M(tanh, __builtin_tanhf)                                                                       \
    M(trunc, __builtin_truncf)

#define SOFTMETAL_BINARY(name, builtin)                                                            \
    inline float name(float x, float y) { return builtin(x, y); }                                  \
    inline half name(half x, half y) { return half(builtin(float(x), float(y))); }                 \
    inline bfloat name(bfloat x, bfloat y) { return bfloat(builtin(float(x), float(y))); }         \
    template <class T, int N> inline vec<T, N> name(vec<T, N> x, vec<T, N> y) {                    \
        vec<T, N> r;                                                                               \
        for (int i = 0; i < N; i++) r[i] = name(x[i], y[i]);                                       \
        return r;                                                                                  \
    }
#define SOFTMETAL_FUNCTIONS_OF_TWO(M)                                                              \
    M(atan2, __builtin_atan2f)                                                                     \
    M(copysign, __builtin_copysignf)                                                               \
    M(divide, softmetal_math::divide)                                                              \
    M(fdim, __builtin_fdimf)                                                                       \
    M(fmax, __builtin_fmaxf)                                                                       \
    M(fmin, __builtin_fminf)                                                                       \
    M(fmod, __builtin_fmodf)                                                                       \
    M(nextafter, __builtin_nextafterf)                                                             \
    M(pow, __builtin_powf)                                                                         \
    M(powr, __builtin_powf)                                                                        \
    M(step, softmetal_math::step)

namespace softmetal_math {
inline float exp10(float x) { return float(__builtin_pow(10.0, double(x))); }
inline float fract(float x) { return __builtin_fminf(x - __builtin_floorf(x), 0x1.fffffep-1f); }
inline float divide(float x, float y) { return x / y; }
inline float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? x : 0.0f; }
inline float step(float edge, float x) { return x < edge ? 0.0f : 1.0f; }
} // namespace softmetal_math

SOFTMETAL_FUNCTIONS(SOFTMETAL_UNARY)
SOFTMETAL_FUNCTIONS_OF_TWO(SOFTMETAL_BINARY)

#define SOFTMETAL_REUSE(name, builtin) using metal::name;
namespace fast {
SOFTMETAL_FUNCTIONS(SOFTMETAL_REUSE)
SOFTMETAL_FUNCTIONS_OF_TWO(SOFTMETAL_REUSE)
} // namespace fast
namespace precise {
SOFTMETAL_FUNCTIONS(SOFTMETAL_REUSE)
SOFTMETAL_FUNCTIONS_OF_TWO(SOFTMETAL_REUSE)
} // namespace precise

#undef SOFTMETAL_UNARY
#undef SOFTMETAL_BINARY
#undef SOFTMETAL_REUSE
#undef SOFTMETAL_FUNCTIONS
#undef SOFTMETAL_FUNCTIONS_OF_TWO

inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline half fma(half a, half b, half c) {
    return half(__builtin_fma(double(a), double(b), double(c)));
}
template <class T, int N> inline vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
    vec<T, N> r;
    for (int i = 0; i < N; i++) r[i] = fma(a[i], b[i], c[i]);
    return r;
}
inline float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }

#define SOFTMETAL_PREDICATE(name, builtin)                                                         \
    inline bool name(float x) { return builtin(x); }                                               \
    template <class T, int N> inline vec<bool, N> name(vec<T, N> x) {                              \
        vec<bool, N> r;                                                                            \
        for (int i = 0; i < N; i++) r[i] = name(float(x[i]));                                      \
        return r;                                                                                  \
    }
SOFTMETAL_PREDICATE(isnan, __builtin_isnan)
SOFTMETAL_PREDICATE(isinf, __builtin_isinf)
SOFTMETAL_PREDICATE(isfinite, __builtin_isfinite)
SOFTMETAL_PREDICATE(isnormal, __builtin_isnormal)
SOFTMETAL_PREDICATE(signbit, __builtin_signbit)
#undef SOFTMETAL_PREDICATE

template <class T, class = enable_if_t<is_floating_point_v<T>>> T mix(T x, T y, T a) {
    return x + (y - x) * a;
}
template <class T, int N> vec<T, N> mix(vec<T, N> x, vec<T, N> y, vec<T, N> a) {
    return x + (y - x) * a;
}
template <class T, int N> T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a[0] * b[0];
    for (int i = 1; i < N; i++) sum += a[i] * b[i];
    return sum;
}
template <class T, int N> T length_squared(vec<T, N> a) { return dot(a, a); }
template <class T, int N> T length(vec<T, N> a) { return sqrt(dot(a, a)); }
template <class T, int N> T distance(vec<T, N> a, vec<T, N> b) { return length(a - b); }
template <class T, int N> vec<T, N> normalize(vec<T, N> a) { return a * rsqrt(dot(a, a)); }
template <class T> vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
    return a.yzx * b.zxy - a.zxy * b.yzx;
}

} // namespace metal
