// Functions on integers, and those common to all arithmetic types (specification, sections 6.1 to 6.4).
#pragma once

namespace metal {

template <class T, class = enable_if_t<is_scalar_v<T>>> constexpr T min(T a, T b) {
    if constexpr (is_floating_point_v<T>) return b != b || a < b ? a : b;
    return b < a ? b : a;
}
template <class T, class = enable_if_t<is_scalar_v<T>>> constexpr T max(T a, T b) {
    if constexpr (is_floating_point_v<T>) return b != b || b < a ? a : b;
    return a < b ? b : a;
}
template <class T, class = enable_if_t<is_scalar_v<T>>> constexpr T clamp(T x, T lowest, T highest) {
    return min(max(x, lowest), highest);
}
template <class T, class = enable_if_t<is_floating_point_v<T>>> constexpr T saturate(T x) {
    return clamp(x, T(0), T(1));
}
template <class T, class = enable_if_t<is_scalar_v<T>>> constexpr T abs(T x) {
    if constexpr (is_floating_point_v<T>) return T(__builtin_fabsf(float(x)));
    return x < T(0) ? T(-x) : x;
}
template <class T, class = enable_if_t<is_scalar_v<T>>> constexpr T select(T a, T b, bool c) {
    return c ? b : a;
}

#define SOFTMETAL_ELEMENTWISE(expression)                                                          \
    vec<T, N> r{};                                                                                 \
    for (int i = 0; i < N; i++) r[i] = expression;                                                 \
    return r;
template <class T, int N> constexpr vec<T, N> min(vec<T, N> a, vec<T, N> b) {
    SOFTMETAL_ELEMENTWISE(min(a[i], b[i]))
}
template <class T, int N> constexpr vec<T, N> min(vec<T, N> a, T b) { return min(a, vec<T, N>(b)); }
template <class T, int N> constexpr vec<T, N> max(vec<T, N> a, vec<T, N> b) {
    SOFTMETAL_ELEMENTWISE(max(a[i], b[i]))
}
template <class T, int N> constexpr vec<T, N> max(vec<T, N> a, T b) { return max(a, vec<T, N>(b)); }
template <class T, int N> constexpr vec<T, N> clamp(vec<T, N> x, vec<T, N> low, vec<T, N> high) {
    return min(max(x, low), high);
}
template <class T, int N> constexpr vec<T, N> clamp(vec<T, N> x, T low, T high) {
    return min(max(x, low), high);
}
template <class T, int N> constexpr vec<T, N> saturate(vec<T, N> x) {
    return clamp(x, T(0), T(1));
}
template <class T, int N> constexpr vec<T, N> abs(vec<T, N> x) {
    SOFTMETAL_ELEMENTWISE(abs(x[i]))
}
template <class T, int N> constexpr vec<T, N> select(vec<T, N> a, vec<T, N> b, vec<bool, N> c) {
    SOFTMETAL_ELEMENTWISE(c[i] ? b[i] : a[i])
}
#undef SOFTMETAL_ELEMENTWISE

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

template <class T, class = enable_if_t<is_integral_v<T>>> constexpr T popcount(T x) {
    unsigned long bits = static_cast<unsigned long>(x);
    if constexpr (sizeof(T) < 8) bits &= (1ul << (8 * sizeof(T) % 64)) - 1;
    return T(__builtin_popcountl(bits));
}
template <class T, class = enable_if_t<is_integral_v<T>>> constexpr T clz(T x) {
    unsigned long bits = static_cast<unsigned long>(x);
    if constexpr (sizeof(T) < 8) bits &= (1ul << (8 * sizeof(T) % 64)) - 1;
    return bits == 0 ? T(8 * sizeof(T)) : T(__builtin_clzl(bits) - (64 - 8 * int(sizeof(T))));
}
template <class T, class = enable_if_t<is_integral_v<T>>> constexpr T ctz(T x) {
    return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzl(static_cast<unsigned long>(x)));
}
inline uint mulhi(uint a, uint b) { return uint((ulong(a) * b) >> 32); }
inline int mulhi(int a, int b) { return int((long(a) * b) >> 32); }
inline int mul24(int a, int b) { return a * b; }
inline uint mul24(uint a, uint b) { return a * b; }
inline int mad24(int a, int b, int c) { return a * b + c; }
inline uint mad24(uint a, uint b, uint c) { return a * b + c; }
inline uint rotate(uint x, uint n) { return __builtin_rotateleft32(x, n); }
inline uint reverse_bits(uint x) { return __builtin_bitreverse32(x); }
inline uint extract_bits(uint x, uint offset, uint bits) {
    return bits == 0 ? 0 : bits >= 32 ? x >> offset : (x >> offset) & ((1u << bits) - 1);
}

} // namespace metal
