// Common functions (Metal Shading Language specification, section 6.2), and those that floating-point
// numbers share with integers (sections 6.3 and 6.5).
#pragma once

namespace metal {

// A NaN loses against a number.
template <class T, class = softmetal::if_number<T>> constexpr T min(T a, T b) {
    if constexpr (is_floating_point_v<T>) return b != b || a < b ? a : b;
    return b < a ? b : a;
}
template <class T, class = softmetal::if_number<T>> constexpr T max(T a, T b) {
    if constexpr (is_floating_point_v<T>) return b != b || b < a ? a : b;
    return a < b ? b : a;
}
template <class T, class = softmetal::if_number<T>> constexpr T min3(T a, T b, T c) {
    return min(a, min(b, c));
}
template <class T, class = softmetal::if_number<T>> constexpr T max3(T a, T b, T c) {
    return max(a, max(b, c));
}
template <class T, class = softmetal::if_number<T>> constexpr T median3(T a, T b, T c) {
    return max(min(a, b), min(max(a, b), c));
}
template <class T, class = softmetal::if_number<T>> constexpr T clamp(T x, T lowest, T highest) {
    return min(max(x, lowest), highest);
}
template <class T, class = softmetal::if_number<T>> constexpr T abs(T x) {
    if constexpr (is_floating_point_v<T>) return T(__builtin_fabsf(float(x)));
    return x < T(0) ? T(-x) : x;
}

template <class T, class = softmetal::if_float<T>> constexpr T saturate(T x) {
    return clamp(x, T(0), T(1));
}
template <class T, class = softmetal::if_float<T>> constexpr T mix(T x, T y, T a) {
    return x + (y - x) * a;
}
/// Of NaN, 0; of -0, -0.
template <class T, class = softmetal::if_float<T>> constexpr T sign(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? x : T(0);
}
template <class T, class = softmetal::if_float<T>> constexpr T step(T edge, T x) {
    return x < edge ? T(0) : T(1);
}
template <class T, class = softmetal::if_float<T>> constexpr T smoothstep(T from, T to, T x) {
    const T t = saturate((x - from) / (to - from));
    return t * t * (T(3) - T(2) * t);
}

SOFTMETAL_LIFT1(abs)
SOFTMETAL_LIFT1(saturate)
SOFTMETAL_LIFT1(sign)
SOFTMETAL_LIFT2(min)
SOFTMETAL_LIFT2(max)
SOFTMETAL_LIFT2(step)
SOFTMETAL_LIFT3(min3)
SOFTMETAL_LIFT3(max3)
SOFTMETAL_LIFT3(median3)
SOFTMETAL_LIFT3(clamp)
SOFTMETAL_LIFT3(mix)
SOFTMETAL_LIFT3(smoothstep)

} // namespace metal
