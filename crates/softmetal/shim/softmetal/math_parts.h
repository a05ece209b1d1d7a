// Floating-point functions that take numbers apart or have a second result (specification, section 6.5).
#pragma once

namespace softmetal {

template <class V> struct integers { typedef int type; };
template <class T, int N> struct integers<metal::vec<T, N>> { typedef metal::vec<int, N> type; };
template <class V> using integers_of = typename integers<V>::type;

} // namespace softmetal

namespace metal {

template <class T, class = softmetal::if_float<T>> inline T ldexp(T x, int exponent) {
    return T(__builtin_ldexpf(float(x), exponent));
}
template <class T, class = softmetal::if_float<T>> inline int ilogb(T x) {
    if (x != x) return FP_ILOGBNAN;
    return x == T(0) ? FP_ILOGB0 : isinf(x) ? INT_MAX : __builtin_ilogbf(float(x));
}
/// Mantissa in [0.5, 1).
template <class T, class = softmetal::if_float<T>> inline T frexp(T x, int& exponent) {
    int e = 0;
    const T mantissa = T(__builtin_frexpf(float(x), &e));
    exponent = isfinite(x) ? e : 0;
    return mantissa;
}
/// The fraction, with the sign of `x`.
template <class T, class = softmetal::if_float<T>> inline T modf(T x, T& whole) {
    whole = trunc(x);
    return isinf(x) ? copysign(T(0), x) : copysign(T(x - trunc(x)), x);
}
template <class T, class = softmetal::if_float<T>> inline T sincos(T x, T& cosine) {
    cosine = cos(x);
    return sin(x);
}

template <class A, class B, class V = softmetal::vector<A>> inline V ldexp(A a, B b) {
    const V x = a;
    const softmetal::integers_of<V> exponent = b;
    SOFTMETAL_EACH(V, ldexp(x[i], exponent[i]))
}
template <class A, class V = softmetal::vector<A>> inline softmetal::integers_of<V> ilogb(A a) {
    const V x = a;
    SOFTMETAL_EACH(softmetal::integers_of<V>, ilogb(x[i]))
}
template <class T, int N> inline vec<T, N> frexp(vec<T, N> x, vec<int, N>& exponent) {
    typedef vec<T, N> V;
    V r;
    vec<int, N> exponents;
    for (int i = 0; i < N; i++) r[i] = frexp(x[i], exponents[i]);
    exponent = exponents;
    return r;
}
#define SOFTMETAL_SECOND_RESULT(name)                                                              \
    template <class T, int N> inline vec<T, N> name(vec<T, N> x, vec<T, N>& second) {              \
        vec<T, N> first, others;                                                                   \
        for (int i = 0; i < N; i++) first[i] = name(x[i], others[i]);                              \
        second = others;                                                                           \
        return first;                                                                              \
    }
SOFTMETAL_SECOND_RESULT(modf)
SOFTMETAL_SECOND_RESULT(sincos)
#undef SOFTMETAL_SECOND_RESULT

#define SOFTMETAL_VARIANT                                                                          \
    using metal::frexp; using metal::ilogb; using metal::ldexp; using metal::modf;                 \
    using metal::sincos;
namespace fast {
SOFTMETAL_VARIANT
} // namespace fast
namespace precise {
SOFTMETAL_VARIANT
} // namespace precise
#undef SOFTMETAL_VARIANT

} // namespace metal
