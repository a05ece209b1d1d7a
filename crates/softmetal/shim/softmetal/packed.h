// Packed vectors: elements without padding or alignment beyond their own (specification, section 2.2.3).
#pragma once

namespace metal {

/// A packed vector is accessed element by element, as its alignment demands.
template <class T, int N> struct packed_vec {
    T e[N];

    constexpr packed_vec() = default;
    constexpr packed_vec(vec<T, N> a) : e{} {
        for (int i = 0; i < N; i++) e[i] = a[i];
    }
    template <class... S, class = enable_if_t<sizeof...(S) == N>>
    constexpr packed_vec(S... s) : e{T(s)...} {}
    constexpr operator vec<T, N>() const {
        vec<T, N> r{};
        for (int i = 0; i < N; i++) r[i] = e[i];
        return r;
    }
    constexpr T& operator[](int i) { return e[i]; }
    constexpr const T& operator[](int i) const { return e[i]; }

#define SOFTMETAL_PACKED(op)                                                                       \
    friend constexpr vec<T, N> operator op(packed_vec a, packed_vec b) {                           \
        return vec<T, N>(a) op vec<T, N>(b);                                                       \
    }                                                                                              \
    friend constexpr vec<T, N> operator op(packed_vec a, T b) { return vec<T, N>(a) op b; }        \
    friend constexpr vec<T, N> operator op(T a, packed_vec b) { return a op vec<T, N>(b); }
    SOFTMETAL_PACKED(+)
    SOFTMETAL_PACKED(-)
    SOFTMETAL_PACKED(*)
    SOFTMETAL_PACKED(/)
#undef SOFTMETAL_PACKED
#define SOFTMETAL_COMPONENT(name, i)                                                               \
    constexpr T get_##name() const {                                                               \
        static_assert(i < N, "no such component");                                                 \
        return e[i];                                                                               \
    }                                                                                              \
    constexpr void put_##name(T s) { e[i] = s; }                                                   \
    __declspec(property(get = get_##name, put = put_##name)) T name;
    SOFTMETAL_COMPONENT(x, 0)
    SOFTMETAL_COMPONENT(y, 1)
    SOFTMETAL_COMPONENT(z, 2)
    SOFTMETAL_COMPONENT(w, 3)
#undef SOFTMETAL_COMPONENT
};

} // namespace metal

#define SOFTMETAL_PACKED_VECTORS(T)                                                                \
    typedef metal::packed_vec<T, 2> packed_##T##2;                                                 \
    typedef metal::packed_vec<T, 3> packed_##T##3;                                                 \
    typedef metal::packed_vec<T, 4> packed_##T##4;
SOFTMETAL_PACKED_VECTORS(char)
SOFTMETAL_PACKED_VECTORS(uchar)
SOFTMETAL_PACKED_VECTORS(short)
SOFTMETAL_PACKED_VECTORS(ushort)
SOFTMETAL_PACKED_VECTORS(int)
SOFTMETAL_PACKED_VECTORS(uint)
SOFTMETAL_PACKED_VECTORS(half)
SOFTMETAL_PACKED_VECTORS(bfloat)
SOFTMETAL_PACKED_VECTORS(float)
#undef SOFTMETAL_PACKED_VECTORS
