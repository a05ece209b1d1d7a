// Component names of vectors: every selection of one to four of `xyzw` or `rgba`.
//
// A property reads components into a new vector and writes exactly the components named, so the
// checker sees the bytes that the kernel touches. `v.zx` calls `get_20` and `put_20`; a selection with
// a component twice has no `put`, since nothing can be assigned to it.
#pragma once

namespace metal {
template <class T, int N> struct vec;
} // namespace metal

// SOFTMETAL_Mk_n applies `S` to the selection given, after appending k more of n components.
#define SOFTMETAL_M1_2(S, x, y, ...) S(__VA_ARGS__, x, 0) S(__VA_ARGS__, y, 1)
#define SOFTMETAL_M2_2(S, x, y, ...)                                                               \
    SOFTMETAL_M1_2(S, x, y, __VA_ARGS__, x, 0) SOFTMETAL_M1_2(S, x, y, __VA_ARGS__, y, 1)
#define SOFTMETAL_M3_2(S, x, y, ...)                                                               \
    SOFTMETAL_M2_2(S, x, y, __VA_ARGS__, x, 0) SOFTMETAL_M2_2(S, x, y, __VA_ARGS__, y, 1)
#define SOFTMETAL_ALL_2(S, x, y)                                                                   \
    S##1(x, 0) S##1(y, 1)                                                                          \
    SOFTMETAL_M1_2(S##2, x, y, x, 0) SOFTMETAL_M1_2(S##2, x, y, y, 1)                              \
    SOFTMETAL_M2_2(S##3, x, y, x, 0) SOFTMETAL_M2_2(S##3, x, y, y, 1)                              \
    SOFTMETAL_M3_2(S##4, x, y, x, 0) SOFTMETAL_M3_2(S##4, x, y, y, 1)

#define SOFTMETAL_M1_3(S, x, y, z, ...) SOFTMETAL_M1_2(S, x, y, __VA_ARGS__) S(__VA_ARGS__, z, 2)
#define SOFTMETAL_M2_3(S, x, y, z, ...)                                                            \
    SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, x, 0) SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, y, 1)    \
    SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, z, 2)
#define SOFTMETAL_M3_3(S, x, y, z, ...)                                                            \
    SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, x, 0) SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, y, 1)    \
    SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, z, 2)
#define SOFTMETAL_ALL_3(S, x, y, z)                                                                \
    S##1(x, 0) S##1(y, 1) S##1(z, 2) SOFTMETAL_M1_3(S##2, x, y, z, x, 0)                           \
    SOFTMETAL_M1_3(S##2, x, y, z, y, 1) SOFTMETAL_M1_3(S##2, x, y, z, z, 2)                        \
    SOFTMETAL_M2_3(S##3, x, y, z, x, 0) SOFTMETAL_M2_3(S##3, x, y, z, y, 1)                        \
    SOFTMETAL_M2_3(S##3, x, y, z, z, 2) SOFTMETAL_M3_3(S##4, x, y, z, x, 0)                        \
    SOFTMETAL_M3_3(S##4, x, y, z, y, 1) SOFTMETAL_M3_3(S##4, x, y, z, z, 2)

#define SOFTMETAL_M1_4(S, x, y, z, w, ...)                                                         \
    SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__) S(__VA_ARGS__, w, 3)
#define SOFTMETAL_M2_4(S, x, y, z, w, ...)                                                         \
    SOFTMETAL_M1_4(S, x, y, z, w, __VA_ARGS__, x, 0)                                               \
    SOFTMETAL_M1_4(S, x, y, z, w, __VA_ARGS__, y, 1)                                               \
    SOFTMETAL_M1_4(S, x, y, z, w, __VA_ARGS__, z, 2)                                               \
    SOFTMETAL_M1_4(S, x, y, z, w, __VA_ARGS__, w, 3)
#define SOFTMETAL_M3_4(S, x, y, z, w, ...)                                                         \
    SOFTMETAL_M2_4(S, x, y, z, w, __VA_ARGS__, x, 0)                                               \
    SOFTMETAL_M2_4(S, x, y, z, w, __VA_ARGS__, y, 1)                                               \
    SOFTMETAL_M2_4(S, x, y, z, w, __VA_ARGS__, z, 2)                                               \
    SOFTMETAL_M2_4(S, x, y, z, w, __VA_ARGS__, w, 3)
#define SOFTMETAL_ALL_4(S, x, y, z, w)                                                             \
    S##1(x, 0) S##1(y, 1) S##1(z, 2) S##1(w, 3)                                                    \
    SOFTMETAL_M1_4(S##2, x, y, z, w, x, 0) SOFTMETAL_M1_4(S##2, x, y, z, w, y, 1)                  \
    SOFTMETAL_M1_4(S##2, x, y, z, w, z, 2) SOFTMETAL_M1_4(S##2, x, y, z, w, w, 3)                  \
    SOFTMETAL_M2_4(S##3, x, y, z, w, x, 0) SOFTMETAL_M2_4(S##3, x, y, z, w, y, 1)                  \
    SOFTMETAL_M2_4(S##3, x, y, z, w, z, 2) SOFTMETAL_M2_4(S##3, x, y, z, w, w, 3)                  \
    SOFTMETAL_M3_4(S##4, x, y, z, w, x, 0) SOFTMETAL_M3_4(S##4, x, y, z, w, y, 1)                  \
    SOFTMETAL_M3_4(S##4, x, y, z, w, z, 2) SOFTMETAL_M3_4(S##4, x, y, z, w, w, 3)

// The names.
#define SOFTMETAL_NAME(type, a, i) __declspec(property(get = get_##i, put = put_##i)) type a;
#define SOFTMETAL_NAME1(a, i) SOFTMETAL_NAME(T, a, i)
#define SOFTMETAL_NAME2(a, i, b, j) SOFTMETAL_NAME(V2, a##b, i##j)
#define SOFTMETAL_NAME3(a, i, b, j, c, k) SOFTMETAL_NAME(V3, a##b##c, i##j##k)
#define SOFTMETAL_NAME4(a, i, b, j, c, k, d, l) SOFTMETAL_NAME(V4, a##b##c##d, i##j##k##l)

// What reads them, and what writes the selections without repetition.
#define SOFTMETAL_GET1(a, i) T get_##i() const { return at(i); } void put_##i(T s) { at(i) = s; }
#define SOFTMETAL_GET2(a, i, b, j) V2 get_##i##j() const { return V2(at(i), at(j)); }
#define SOFTMETAL_GET3(a, i, b, j, c, k)                                                           \
    V3 get_##i##j##k() const { return V3(at(i), at(j), at(k)); }
#define SOFTMETAL_GET4(a, i, b, j, c, k, d, l)                                                     \
    V4 get_##i##j##k##l() const { return V4(at(i), at(j), at(k), at(l)); }
#define SOFTMETAL_PUT2(i, j)                                                                       \
    void put_##i##j(V2 s) { at(i) = s[0], at(j) = s[1]; }                                          \
    void put_##j##i(V2 s) { at(j) = s[0], at(i) = s[1]; }
#define SOFTMETAL_PUT(i, j, k)                                                                     \
    void put_##i##j##k(V3 s) { at(i) = s[0], at(j) = s[1], at(k) = s[2]; }
#define SOFTMETAL_PUT3(i, j, k)                                                                    \
    SOFTMETAL_PUT(i, j, k) SOFTMETAL_PUT(i, k, j) SOFTMETAL_PUT(j, i, k)                           \
    SOFTMETAL_PUT(j, k, i) SOFTMETAL_PUT(k, i, j) SOFTMETAL_PUT(k, j, i)
#define SOFTMETAL_PUT4(i, j, k, l)                                                                 \
    void put_##i##j##k##l(V4 s) { at(i) = s[0], at(j) = s[1], at(k) = s[2], at(l) = s[3]; }
#define SOFTMETAL_PUT4_FIRST(i, j, k, l)                                                           \
    SOFTMETAL_PUT4(i, j, k, l) SOFTMETAL_PUT4(i, j, l, k) SOFTMETAL_PUT4(i, k, j, l)               \
    SOFTMETAL_PUT4(i, k, l, j) SOFTMETAL_PUT4(i, l, j, k) SOFTMETAL_PUT4(i, l, k, j)

namespace softmetal {

/// The component names of `V`, which has N components of type T.
template <class V, class T, int N> struct selections;

#define SOFTMETAL_SELECTIONS(N, ...)                                                               \
    template <class V, class T> struct selections<V, T, N> {                                       \
        typedef metal::vec<T, 2> V2;                                                               \
        typedef metal::vec<T, 3> V3;                                                               \
        typedef metal::vec<T, 4> V4;                                                               \
        T& at(int i) { return static_cast<V&>(*this)[i]; }                                         \
        const T& at(int i) const { return static_cast<const V&>(*this)[i]; }                       \
        __VA_ARGS__                                                                                \
    };
SOFTMETAL_SELECTIONS(2,
    SOFTMETAL_ALL_2(SOFTMETAL_NAME, x, y) SOFTMETAL_ALL_2(SOFTMETAL_NAME, r, g)
    SOFTMETAL_ALL_2(SOFTMETAL_GET, x, y) SOFTMETAL_PUT2(0, 1))
SOFTMETAL_SELECTIONS(3,
    SOFTMETAL_ALL_3(SOFTMETAL_NAME, x, y, z) SOFTMETAL_ALL_3(SOFTMETAL_NAME, r, g, b)
    SOFTMETAL_ALL_3(SOFTMETAL_GET, x, y, z) SOFTMETAL_PUT2(0, 1) SOFTMETAL_PUT2(0, 2)
    SOFTMETAL_PUT2(1, 2) SOFTMETAL_PUT3(0, 1, 2))
SOFTMETAL_SELECTIONS(4,
    SOFTMETAL_ALL_4(SOFTMETAL_NAME, x, y, z, w) SOFTMETAL_ALL_4(SOFTMETAL_NAME, r, g, b, a)
    SOFTMETAL_ALL_4(SOFTMETAL_GET, x, y, z, w) SOFTMETAL_PUT2(0, 1) SOFTMETAL_PUT2(0, 2)
    SOFTMETAL_PUT2(0, 3) SOFTMETAL_PUT2(1, 2) SOFTMETAL_PUT2(1, 3) SOFTMETAL_PUT2(2, 3)
    SOFTMETAL_PUT3(0, 1, 2) SOFTMETAL_PUT3(0, 1, 3) SOFTMETAL_PUT3(0, 2, 3) SOFTMETAL_PUT3(1, 2, 3)
    SOFTMETAL_PUT4_FIRST(0, 1, 2, 3) SOFTMETAL_PUT4_FIRST(1, 0, 2, 3)
    SOFTMETAL_PUT4_FIRST(2, 0, 1, 3) SOFTMETAL_PUT4_FIRST(3, 0, 1, 2))

} // namespace softmetal
