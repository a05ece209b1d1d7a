// Relational functions (Metal Shading Language specification, section 6.4).
#pragma once

namespace metal {

template <int N> constexpr bool any(vec<bool, N> x) {
    for (int i = 0; i < N; i++)
        if (x[i]) return true;
    return false;
}
template <int N> constexpr bool all(vec<bool, N> x) {
    for (int i = 0; i < N; i++)
        if (!x[i]) return false;
    return true;
}

/// `b` where `c` is true, else `a`.
template <class T, class = enable_if_t<is_arithmetic_v<T>>> constexpr T select(T a, T b, bool c) {
    return c ? b : a;
}
template <class A, class B, int N, class V = softmetal::vector<softmetal::joint<A, B>>>
V select(A a, B b, vec<bool, N> c) {
    static_assert(V::N == N, "select needs a condition for every component");
    const V x = a, y = b;
    SOFTMETAL_EACH(V, c[i] ? y[i] : x[i])
}

#define SOFTMETAL_PREDICATE(name, value)                                                           \
    template <class T, class = softmetal::if_float<T>> inline bool name(T x) { return value; }     \
    template <class A, class V = softmetal::vector<A>> inline vec<bool, V::N> name(A a) {          \
        typedef vec<bool, V::N> R;                                                                 \
        const V x = a;                                                                             \
        SOFTMETAL_EACH(R, name(x[i]))                                                              \
    }
SOFTMETAL_PREDICATE(isnan, __builtin_isnan(float(x)))
SOFTMETAL_PREDICATE(isinf, __builtin_isinf(float(x)))
SOFTMETAL_PREDICATE(isfinite, __builtin_isfinite(float(x)))
SOFTMETAL_PREDICATE(signbit, __builtin_signbit(float(x)))
SOFTMETAL_PREDICATE(isnormal, __builtin_isfinite(float(x)) && abs(x) >= numeric_limits<T>::min())
#undef SOFTMETAL_PREDICATE

#define SOFTMETAL_RELATION(name, value)                                                            \
    template <class T, class = softmetal::if_float<T>> inline bool name(T x, T y) { return value; }\
    template <class A, class B, class V = softmetal::vector<softmetal::joint<A, B>>>               \
    inline vec<bool, V::N> name(A a, B b) {                                                        \
        typedef vec<bool, V::N> R;                                                                 \
        const V x = a, y = b;                                                                      \
        SOFTMETAL_EACH(R, name(x[i], y[i]))                                                        \
    }
SOFTMETAL_RELATION(isordered, x == x && y == y)
SOFTMETAL_RELATION(isunordered, x != x || y != y)
#undef SOFTMETAL_RELATION

} // namespace metal
