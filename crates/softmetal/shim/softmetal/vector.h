// Vector types with swizzles (Metal Shading Language specification, section 2.2).
//
// A vector is a class, so that `float4(a, b.xy, c)` works for template parameters too. Its storage
// is a real vector, copied as such: a load or store of the whole is one access, as it is on the
// hardware. Components are reached through a pointer: a store to a swizzle touches only those it
// names.
#pragma once

#include <softmetal/swizzle.h>

namespace metal {

template <class T, int N> struct vec;

template <class T> struct vector_storage { typedef T element; };
// Vectors of bool are bit fields in clang; Metal's have a byte per component.
template <> struct vector_storage<bool> { typedef unsigned char element; };

template <class T, int N>
using native_vector = typename vector_storage<T>::element __attribute__((ext_vector_type(N)));

// Operators are friends: found by argument-dependent lookup, they convert a scalar on either side.
#define SOFTMETAL_BINARY(N, op)                                                                    \
    friend vec operator op(vec a, vec b) {                                                         \
        a.v = a.v op b.v;                                                                          \
        return a;                                                                                  \
    }                                                                                              \
    friend vec& operator op##=(vec& a, vec b) { return a = a op b; }
#define SOFTMETAL_COMPARE(N, op)                                                                   \
    friend vec<bool, N> operator op(vec a, vec b) {                                                \
        vec<bool, N> r;                                                                            \
        for (int i = 0; i < N; i++) r[i] = a[i] op b[i];                                           \
        return r;                                                                                  \
    }
#define SOFTMETAL_OPERATORS(N)                                                                     \
    SOFTMETAL_BINARY(N, +)                                                                         \
    SOFTMETAL_BINARY(N, -)                                                                         \
    SOFTMETAL_BINARY(N, *)                                                                         \
    SOFTMETAL_BINARY(N, /)                                                                         \
    SOFTMETAL_BINARY(N, %)                                                                         \
    SOFTMETAL_BINARY(N, &)                                                                         \
    SOFTMETAL_BINARY(N, |)                                                                         \
    SOFTMETAL_BINARY(N, ^)                                                                         \
    SOFTMETAL_BINARY(N, <<)                                                                        \
    SOFTMETAL_BINARY(N, >>)                                                                        \
    SOFTMETAL_COMPARE(N, ==)                                                                       \
    SOFTMETAL_COMPARE(N, !=)                                                                       \
    SOFTMETAL_COMPARE(N, <)                                                                        \
    SOFTMETAL_COMPARE(N, <=)                                                                       \
    SOFTMETAL_COMPARE(N, >)                                                                        \
    SOFTMETAL_COMPARE(N, >=)                                                                       \
    SOFTMETAL_COMPARE(N, &&)                                                                       \
    SOFTMETAL_COMPARE(N, ||)                                                                       \
    friend vec operator-(vec a) {                                                                  \
        a.v = -a.v;                                                                                \
        return a;                                                                                  \
    }                                                                                              \
    friend vec operator+(vec a) { return a; }                                                      \
    friend vec operator~(vec a) {                                                                  \
        a.v = ~a.v;                                                                                \
        return a;                                                                                  \
    }                                                                                              \
    vec<bool, N> operator!() const {                                                               \
        vec<bool, N> r;                                                                            \
        for (int i = 0; i < N; i++) r[i] = !(*this)[i];                                            \
        return r;                                                                                  \
    }                                                                                              \
    T& operator[](int i) { return reinterpret_cast<T*>(&v)[i]; }                                   \
    const T& operator[](int i) const { return reinterpret_cast<const T*>(&v)[i]; }                 \
    friend vec& operator++(vec& a) { return a += vec(T(1)); }                                      \
    friend vec& operator--(vec& a) { return a -= vec(T(1)); }

#define SOFTMETAL_COMMON(N)                                                                        \
    typedef T element_type;                                                                        \
    native_vector<T, N> v;                                                                         \
    constexpr vec() = default;                                                                     \
    constexpr vec(const vec& other) : v(other.v) {}                                                \
    constexpr vec& operator=(const vec& other) {                                                   \
        v = other.v;                                                                               \
        return *this;                                                                              \
    }                                                                                              \
    template <class U> explicit vec(vec<U, N> other) {                                             \
        for (int i = 0; i < N; i++) (*this)[i] = T(other[i]);                                      \
    }                                                                                              \
    SOFTMETAL_OPERATORS(N)

template <class T> struct vec<T, 2> {
    SOFTMETAL_COMMON(2)
    constexpr vec(T s) : v{s, s} {}
    constexpr vec(T x, T y) : v{x, y} {}
    SOFTMETAL_SWIZZLES_OF_2
};

template <class T> struct vec<T, 3> {
    SOFTMETAL_COMMON(3)
    constexpr vec(T s) : v{s, s, s} {}
    constexpr vec(T x, T y, T z) : v{x, y, z} {}
    vec(vec<T, 2> xy, T z) : v{xy[0], xy[1], z} {}
    vec(T x, vec<T, 2> yz) : v{x, yz[0], yz[1]} {}
    SOFTMETAL_SWIZZLES_OF_3
};

template <class T> struct vec<T, 4> {
    SOFTMETAL_COMMON(4)
    constexpr vec(T s) : v{s, s, s, s} {}
    constexpr vec(T x, T y, T z, T w) : v{x, y, z, w} {}
    vec(vec<T, 2> xy, T z, T w) : v{xy[0], xy[1], z, w} {}
    vec(T x, vec<T, 2> yz, T w) : v{x, yz[0], yz[1], w} {}
    vec(T x, T y, vec<T, 2> zw) : v{x, y, zw[0], zw[1]} {}
    vec(vec<T, 2> xy, vec<T, 2> zw) : v{xy[0], xy[1], zw[0], zw[1]} {}
    vec(vec<T, 3> xyz, T w) : v{xyz[0], xyz[1], xyz[2], w} {}
    vec(T x, vec<T, 3> yzw) : v{x, yzw[0], yzw[1], yzw[2]} {}
    SOFTMETAL_SWIZZLES_OF_4
};

#undef SOFTMETAL_BINARY
#undef SOFTMETAL_COMPARE
#undef SOFTMETAL_OPERATORS
#undef SOFTMETAL_COMMON

} // namespace metal

#define SOFTMETAL_VECTORS(T)                                                                       \
    typedef metal::vec<T, 2> T##2;                                                                 \
    typedef metal::vec<T, 3> T##3;                                                                 \
    typedef metal::vec<T, 4> T##4;
SOFTMETAL_VECTORS(bool)
SOFTMETAL_VECTORS(char)
SOFTMETAL_VECTORS(uchar)
SOFTMETAL_VECTORS(short)
SOFTMETAL_VECTORS(ushort)
SOFTMETAL_VECTORS(int)
SOFTMETAL_VECTORS(uint)
SOFTMETAL_VECTORS(long)
SOFTMETAL_VECTORS(ulong)
SOFTMETAL_VECTORS(half)
SOFTMETAL_VECTORS(bfloat)
SOFTMETAL_VECTORS(float)
#undef SOFTMETAL_VECTORS
