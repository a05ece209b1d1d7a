// Packed vectors: elements without padding or alignment beyond their own (specification, section 2.2.3).
#pragma once

namespace metal {

/// A packed vector of two or four is read at once, at the alignment of its elements; one of three by elements.
template <class T, int N> struct packed_vec : softmetal::selections<packed_vec<T, N>, T, N> {
    typedef T element_type;
    T e[N];

    constexpr packed_vec() = default;
    constexpr packed_vec(vec<T, N> a) : e{} {
        for (int i = 0; i < N; i++) e[i] = a[i];
    }
    constexpr packed_vec(T s) : e{} {
        for (int i = 0; i < N; i++) e[i] = s;
    }
    template <class... S, class = enable_if_t<(sizeof...(S) == N) && (__is_arithmetic(S) && ...)>>
    constexpr packed_vec(S... s) : e{T(s)...} {}
    template <class... A, class = enable_if_t<(sizeof...(A) > 1 && sizeof...(A) < N) &&
                                              (softmetal::share<T, A>::count + ...) == N>, class = void>
    packed_vec(A... a) : packed_vec(vec<T, N>(a...)) {}
    constexpr operator vec<T, N>() const {
        vec<T, N> r{};
        if (N == 3 || __builtin_is_constant_evaluated())
            for (int i = 0; i < N; i++) r[i] = e[i];
        else {
            typedef T whole __attribute__((ext_vector_type(N), aligned(alignof(T))));
            r.v = *reinterpret_cast<const whole*>(e);
        }
        return r;
    }
    template <class U> explicit operator vec<U, N>() const { return vec<U, N>(vec<T, N>(*this)); }
    constexpr T& operator[](int i) { return e[i]; }
    constexpr const T& operator[](int i) const { return e[i]; }

// The operands become vectors.
#define SOFTMETAL_PACKED(op)                                                                       \
    friend auto operator op(packed_vec a, packed_vec b) { return vec<T, N>(a) op vec<T, N>(b); }   \
    friend auto operator op(packed_vec a, vec<T, N> b) { return vec<T, N>(a) op b; }               \
    friend auto operator op(vec<T, N> a, packed_vec b) { return a op vec<T, N>(b); }               \
    friend auto operator op(packed_vec a, T b) { return vec<T, N>(a) op b; }                       \
    friend auto operator op(T a, packed_vec b) { return a op vec<T, N>(b); }
#define SOFTMETAL_PACKED_ASSIGN(op)                                                                \
    SOFTMETAL_PACKED(op)                                                                           \
    friend packed_vec& operator op##=(packed_vec& a, vec<T, N> b) {                                \
        return a = packed_vec(vec<T, N>(a) op b);                                                  \
    }
    SOFTMETAL_PACKED_ASSIGN(+)
    SOFTMETAL_PACKED_ASSIGN(-)
    SOFTMETAL_PACKED_ASSIGN(*)
    SOFTMETAL_PACKED_ASSIGN(/)
    SOFTMETAL_PACKED_ASSIGN(%)
    SOFTMETAL_PACKED_ASSIGN(&)
    SOFTMETAL_PACKED_ASSIGN(|)
    SOFTMETAL_PACKED_ASSIGN(^)
    SOFTMETAL_PACKED_ASSIGN(<<)
    SOFTMETAL_PACKED_ASSIGN(>>)
    SOFTMETAL_PACKED(==)
    SOFTMETAL_PACKED(!=)
    SOFTMETAL_PACKED(<)
    SOFTMETAL_PACKED(<=)
    SOFTMETAL_PACKED(>)
    SOFTMETAL_PACKED(>=)
#undef SOFTMETAL_PACKED
#undef SOFTMETAL_PACKED_ASSIGN
    friend vec<T, N> operator-(packed_vec a) { return -vec<T, N>(a); }
    friend vec<T, N> operator~(packed_vec a) { return ~vec<T, N>(a); }
};

#define SOFTMETAL_PACKED_NAMES(T)                                                                  \
    typedef packed_vec<T, 2> packed_##T##2;                                                        \
    typedef packed_vec<T, 3> packed_##T##3;                                                        \
    typedef packed_vec<T, 4> packed_##T##4;
#define SOFTMETAL_PACKED_VECTORS(M)                                                                \
    M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong) M(half) M(bfloat) M(float)
SOFTMETAL_PACKED_VECTORS(SOFTMETAL_PACKED_NAMES)

} // namespace metal

#define SOFTMETAL_GLOBAL(T)                                                                        \
    using metal::packed_##T##2;                                                                    \
    using metal::packed_##T##3;                                                                    \
    using metal::packed_##T##4;
SOFTMETAL_PACKED_VECTORS(SOFTMETAL_GLOBAL)
#undef SOFTMETAL_PACKED_NAMES
#undef SOFTMETAL_PACKED_VECTORS
#undef SOFTMETAL_GLOBAL
