// Vector types (Metal Shading Language specification, section 2.2).
//
// A vector is a class, so that `float4(a, b.xy, c)` works for template parameters too. Its storage
// is a real vector, copied as such: a load or store of the whole is one access, as it is on the
// hardware. Components are reached through a pointer: a store to a swizzle touches only those it
// names.
#pragma once

namespace metal {

template <class T, int N> struct packed_vec;

} // namespace metal

namespace std {

/// Scalars in braces, as the compiler passes them: of fewer than a vector has, the rest is zero.
template <class E> class initializer_list {
    const E* elements;
    size_t count;

  public:
    constexpr E operator[](size_t i) const { return i < count ? elements[i] : E(0); }
};

} // namespace std

namespace softmetal {

template <class T> struct vector_storage { typedef T element; };
// Vectors of bool are bit fields in clang; Metal's have a byte per component.
template <> struct vector_storage<bool> { typedef unsigned char element; };

template <class T, int N>
using native_vector = typename vector_storage<T>::element __attribute__((ext_vector_type(N)));

/// Copies a vector. The instrumentation does not know accesses of 32 bytes: two of 16 stand for them,
/// volatile so that they stay two.
template <class T, class V> constexpr void assign(V& to, const V& from) {
    if constexpr (sizeof(V) <= 16) to = from;
    else for (int i = 0; i < 2; i++)
            reinterpret_cast<volatile native_vector<T, 2>*>(&to)[i] =
                reinterpret_cast<const volatile native_vector<T, 2>*>(&from)[i];
}
template <class T, class V> constexpr V copy(const V& from) {
    V to{};
    assign<T>(to, from);
    return to;
}

/// Components that an argument of type A brings to a vector of T; none if it cannot be part of one.
template <class T, class A> struct share {
    static constexpr int count = __is_arithmetic(A) || __is_enum(A) ? 1 : -99;
};
template <class T, int N> struct share<T, metal::vec<T, N>> { static constexpr int count = N; };
template <class T, int N> struct share<T, metal::packed_vec<T, N>> { static constexpr int count = N; };

/// Writes an argument's components behind those that are there.
template <class V, class A> void append(V& v, int& at, const A& a) {
    typedef typename V::element_type T;
    if constexpr (share<T, A>::count == 1) v[at++] = T(a);
    else for (int i = 0; i < share<T, A>::count; i++) v[at++] = a[i];
}

} // namespace softmetal

namespace metal {

// Operators are friends: found by argument-dependent lookup, they convert a scalar on either side.
#define SOFTMETAL_BINARY(op, result)                                                               \
    friend vec operator op(vec a, vec b) {                                                         \
        result                                                                                     \
        return a;                                                                                  \
    }                                                                                              \
    friend vec& operator op##=(vec& a, vec b) { return a = a op b; }
#define SOFTMETAL_ARITHMETIC(op) SOFTMETAL_BINARY(op, a.v = a.v op b.v;)
// Scalar division, which is checked for zero.
#define SOFTMETAL_DIVISION(op)                                                                     \
    SOFTMETAL_BINARY(op, for (int i = 0; i < N; i++) a[i] = T(a[i] op b[i]);)
// Of the count, only as many bits matter as it takes to number those of the element.
#define SOFTMETAL_SHIFT(op) SOFTMETAL_BINARY(op, a.v = a.v op (b.v & T(8 * sizeof(T) - 1));)
#define SOFTMETAL_COMPARE(op)                                                                      \
    friend vec<bool, N> operator op(vec a, vec b) {                                                \
        vec<bool, N> r;                                                                            \
        for (int i = 0; i < N; i++) r[i] = a[i] op b[i];                                           \
        return r;                                                                                  \
    }
#define SOFTMETAL_STEP(op, by)                                                                     \
    friend vec& operator op(vec& a) { return a by vec(T(1)); }                                     \
    friend vec operator op(vec& a, int) {                                                          \
        const vec before = a;                                                                      \
        a by vec(T(1));                                                                            \
        return before;                                                                             \
    }
#define SOFTMETAL_OPERATORS                                                                        \
    SOFTMETAL_ARITHMETIC(+)                                                                        \
    SOFTMETAL_ARITHMETIC(-)                                                                        \
    SOFTMETAL_ARITHMETIC(*)                                                                        \
    SOFTMETAL_DIVISION(/)                                                                          \
    SOFTMETAL_DIVISION(%)                                                                          \
    SOFTMETAL_ARITHMETIC(&)                                                                        \
    SOFTMETAL_ARITHMETIC(|)                                                                        \
    SOFTMETAL_ARITHMETIC(^)                                                                        \
    SOFTMETAL_SHIFT(<<)                                                                            \
    SOFTMETAL_SHIFT(>>)                                                                            \
    SOFTMETAL_COMPARE(==)                                                                          \
    SOFTMETAL_COMPARE(!=)                                                                          \
    SOFTMETAL_COMPARE(<)                                                                           \
    SOFTMETAL_COMPARE(<=)                                                                          \
    SOFTMETAL_COMPARE(>)                                                                           \
    SOFTMETAL_COMPARE(>=)                                                                          \
    SOFTMETAL_COMPARE(&&)                                                                          \
    SOFTMETAL_COMPARE(||)                                                                          \
    SOFTMETAL_STEP(++, +=)                                                                         \
    SOFTMETAL_STEP(--, -=)                                                                         \
    friend vec operator-(vec a) {                                                                  \
        a.v = -a.v;                                                                                \
        return a;                                                                                  \
    }                                                                                              \
    friend vec operator+(vec a) { return a; }                                                      \
    friend vec operator~(vec a) {                                                                  \
        static_assert(!__is_same(T, bool), "~ is not defined for vectors of bool");                \
        a.v = ~a.v;                                                                                \
        return a;                                                                                  \
    }                                                                                              \
    vec<bool, N> operator!() const {                                                               \
        vec<bool, N> r;                                                                            \
        for (int i = 0; i < N; i++) r[i] = !(*this)[i];                                            \
        return r;                                                                                  \
    }

#define SOFTMETAL_VECTOR(size)                                                                     \
    typedef T element_type;                                                                        \
    static constexpr int N = size;                                                                 \
    softmetal::native_vector<T, N> v;                                                              \
    constexpr vec() = default;                                                                     \
    constexpr vec(const vec& other) : v(softmetal::copy<T>(other.v)) {}                            \
    constexpr vec& operator=(const vec& other) {                                                   \
        softmetal::assign<T>(v, other.v);                                                          \
        return *this;                                                                              \
    }                                                                                              \
    template <class U> explicit vec(vec<U, N> other) {                                             \
        for (int i = 0; i < N; i++) (*this)[i] = T(other[i]);                                      \
    }                                                                                              \
    template <class... A, class = enable_if_t<(sizeof...(A) > 1 && sizeof...(A) < N) &&            \
                                              (softmetal::share<T, A>::count + ...) == N>>         \
    vec(A... a) {                                                                                  \
        int at = 0;                                                                                \
        (softmetal::append(*this, at, a), ...);                                                    \
    }                                                                                              \
    T& operator[](int i) { return reinterpret_cast<T*>(&v)[i]; }                                   \
    const T& operator[](int i) const { return reinterpret_cast<const T*>(&v)[i]; }                 \
    SOFTMETAL_OPERATORS

template <class T> struct vec<T, 2> : softmetal::selections<vec<T, 2>, T, 2> {
    SOFTMETAL_VECTOR(2)
    constexpr vec(T s) : v{s, s} {}
    constexpr vec(std::initializer_list<T> l) : v{l[0], l[1]} {}
    constexpr vec(T x, T y) : v{x, y} {}
};
template <class T> struct vec<T, 3> : softmetal::selections<vec<T, 3>, T, 3> {
    SOFTMETAL_VECTOR(3)
    constexpr vec(T s) : v{s, s, s} {}
    constexpr vec(std::initializer_list<T> l) : v{l[0], l[1], l[2]} {}
    constexpr vec(T x, T y, T z) : v{x, y, z} {}
};
template <class T> struct vec<T, 4> : softmetal::selections<vec<T, 4>, T, 4> {
    SOFTMETAL_VECTOR(4)
    constexpr vec(T s) : v{s, s, s, s} {}
    constexpr vec(std::initializer_list<T> l) : v{l[0], l[1], l[2], l[3]} {}
    constexpr vec(T x, T y, T z, T w) : v{x, y, z, w} {}
};

#undef SOFTMETAL_BINARY
#undef SOFTMETAL_ARITHMETIC
#undef SOFTMETAL_DIVISION
#undef SOFTMETAL_SHIFT
#undef SOFTMETAL_COMPARE
#undef SOFTMETAL_STEP
#undef SOFTMETAL_OPERATORS
#undef SOFTMETAL_VECTOR

} // namespace metal

#define SOFTMETAL_VECTOR_NAMES(T)                                                                  \
    typedef vec<T, 2> T##2;                                                                        \
    typedef vec<T, 3> T##3;                                                                        \
    typedef vec<T, 4> T##4;
#define SOFTMETAL_VECTORS(M)                                                                       \
    M(bool) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong) M(half) M(bfloat)  \
    M(float)
#define SOFTMETAL_GLOBAL(T)                                                                        \
    using metal::T##2;                                                                             \
    using metal::T##3;                                                                             \
    using metal::T##4;

namespace metal {
SOFTMETAL_VECTORS(SOFTMETAL_VECTOR_NAMES)
} // namespace metal
SOFTMETAL_VECTORS(SOFTMETAL_GLOBAL)
#undef SOFTMETAL_VECTOR_NAMES
#undef SOFTMETAL_VECTORS
#undef SOFTMETAL_GLOBAL
