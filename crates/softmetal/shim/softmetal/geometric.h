// Geometric functions (Metal Shading Language specification, section 6.8).
#pragma once

namespace metal {

#define SOFTMETAL_OF_ONE                                                                           \
    template <class A, class V = softmetal::vector<A>, class T = typename V::element_type>
#define SOFTMETAL_OF_TWO                                                                           \
    template <class A, class B, class V = softmetal::vector<softmetal::joint<A, B>>,               \
              class T = typename V::element_type>

SOFTMETAL_OF_TWO T dot(A a, B b) {
    const V x = a, y = b;
    T sum = x[0] * y[0];
    for (int i = 1; i < V::N; i++) sum += x[i] * y[i];
    return sum;
}
template <class T> vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
    return a.yzx * b.zxy - a.zxy * b.yzx;
}
SOFTMETAL_OF_ONE T length_squared(A a) { return dot(a, a); }
SOFTMETAL_OF_ONE T length(A a) { return sqrt(dot(a, a)); }
SOFTMETAL_OF_TWO T distance_squared(A a, B b) { return length_squared(V(a) - V(b)); }
SOFTMETAL_OF_TWO T distance(A a, B b) { return length(V(a) - V(b)); }
SOFTMETAL_OF_ONE V normalize(A a) { return V(a) * rsqrt(dot(a, a)); }
/// `n`, turned against the incident vector `i`.
template <class T, int N> vec<T, N> faceforward(vec<T, N> n, vec<T, N> i, vec<T, N> reference) {
    return dot(reference, i) < T(0) ? n : -n;
}
template <class T, int N> vec<T, N> reflect(vec<T, N> i, vec<T, N> n) {
    return i - T(2) * dot(n, i) * n;
}
/// 0 where nothing passes.
template <class T, int N> vec<T, N> refract(vec<T, N> i, vec<T, N> n, T eta) {
    const T cosine = dot(n, i);
    const T k = T(1) - eta * eta * (T(1) - cosine * cosine);
    return k < T(0) ? vec<T, N>(T(0)) : eta * i - (eta * cosine + sqrt(k)) * n;
}
#undef SOFTMETAL_OF_ONE
#undef SOFTMETAL_OF_TWO

#define SOFTMETAL_VARIANT                                                                          \
    using metal::cross; using metal::distance; using metal::distance_squared; using metal::dot;    \
    using metal::faceforward; using metal::length; using metal::length_squared;                    \
    using metal::normalize; using metal::reflect; using metal::refract;
namespace fast {
SOFTMETAL_VARIANT
} // namespace fast
namespace precise {
SOFTMETAL_VARIANT
} // namespace precise
#undef SOFTMETAL_VARIANT

} // namespace metal
