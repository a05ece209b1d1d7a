// Component names of vectors: every selection of two to four of `xyzw` or `rgba`.
//
// A property reads components into a new vector and writes exactly the components named, so the
// checker sees the bytes that the kernel touches.
#pragma once

#define SOFTMETAL_S1(a, i)                                                                         \
    T get_##a() const { return (*this)[i]; }                                                       \
    void put_##a(T s) { (*this)[i] = s; }                                                          \
    __declspec(property(get = get_##a, put = put_##a)) T a;
#define SOFTMETAL_S2(a, i, b, j)                                                                   \
    vec<T, 2> get_##a##b() const { return {(*this)[i], (*this)[j]}; }                              \
    void put_##a##b(vec<T, 2> s) { (*this)[i] = s[0], (*this)[j] = s[1]; }                         \
    __declspec(property(get = get_##a##b, put = put_##a##b)) vec<T, 2> a##b;
#define SOFTMETAL_S3(a, i, b, j, c, k)                                                             \
    vec<T, 3> get_##a##b##c() const { return {(*this)[i], (*this)[j], (*this)[k]}; }               \
    void put_##a##b##c(vec<T, 3> s) { (*this)[i] = s[0], (*this)[j] = s[1], (*this)[k] = s[2]; }   \
    __declspec(property(get = get_##a##b##c, put = put_##a##b##c)) vec<T, 3> a##b##c;
#define SOFTMETAL_S4(a, i, b, j, c, k, d, l)                                                       \
    vec<T, 4> get_##a##b##c##d() const { return {(*this)[i], (*this)[j], (*this)[k], (*this)[l]}; }\
    void put_##a##b##c##d(vec<T, 4> s) {                                                           \
        (*this)[i] = s[0], (*this)[j] = s[1], (*this)[k] = s[2], (*this)[l] = s[3];                \
    }                                                                                              \
    __declspec(property(get = get_##a##b##c##d, put = put_##a##b##c##d)) vec<T, 4> a##b##c##d;

// SOFTMETAL_Mk_n appends k more components of n letters to the selection after the letters.
#define SOFTMETAL_M1_2(S, x, y, ...)                                                               \
    S(__VA_ARGS__, x, 0) S(__VA_ARGS__, y, 1)
#define SOFTMETAL_M2_2(S, x, y, ...)                                                               \
    SOFTMETAL_M1_2(S, x, y, __VA_ARGS__, x, 0) SOFTMETAL_M1_2(S, x, y, __VA_ARGS__, y, 1)
#define SOFTMETAL_M3_2(S, x, y, ...)                                                               \
    SOFTMETAL_M2_2(S, x, y, __VA_ARGS__, x, 0) SOFTMETAL_M2_2(S, x, y, __VA_ARGS__, y, 1)
#define SOFTMETAL_ALL_2(x, y)                                                                      \
    SOFTMETAL_S1(x, 0) SOFTMETAL_S1(y, 1) SOFTMETAL_M1_2(SOFTMETAL_S2, x, y, x, 0)                 \
    SOFTMETAL_M1_2(SOFTMETAL_S2, x, y, y, 1) SOFTMETAL_M2_2(SOFTMETAL_S3, x, y, x, 0)              \
    SOFTMETAL_M2_2(SOFTMETAL_S3, x, y, y, 1) SOFTMETAL_M3_2(SOFTMETAL_S4, x, y, x, 0)              \
    SOFTMETAL_M3_2(SOFTMETAL_S4, x, y, y, 1)
#define SOFTMETAL_SWIZZLES_OF_2 SOFTMETAL_ALL_2(x, y) SOFTMETAL_ALL_2(r, g)

#define SOFTMETAL_M1_3(S, x, y, z, ...)                                                            \
    S(__VA_ARGS__, x, 0) S(__VA_ARGS__, y, 1) S(__VA_ARGS__, z, 2)
#define SOFTMETAL_M2_3(S, x, y, z, ...)                                                            \
    SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, x, 0) SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, y, 1)    \
    SOFTMETAL_M1_3(S, x, y, z, __VA_ARGS__, z, 2)
#define SOFTMETAL_M3_3(S, x, y, z, ...)                                                            \
    SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, x, 0) SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, y, 1)    \
    SOFTMETAL_M2_3(S, x, y, z, __VA_ARGS__, z, 2)
#define SOFTMETAL_ALL_3(x, y, z)                                                                   \
    SOFTMETAL_S1(x, 0) SOFTMETAL_S1(y, 1) SOFTMETAL_S1(z, 2)                                       \
    SOFTMETAL_M1_3(SOFTMETAL_S2, x, y, z, x, 0) SOFTMETAL_M1_3(SOFTMETAL_S2, x, y, z, y, 1)        \
    SOFTMETAL_M1_3(SOFTMETAL_S2, x, y, z, z, 2) SOFTMETAL_M2_3(SOFTMETAL_S3, x, y, z, x, 0)        \
    SOFTMETAL_M2_3(SOFTMETAL_S3, x, y, z, y, 1) SOFTMETAL_M2_3(SOFTMETAL_S3, x, y, z, z, 2)        \
    SOFTMETAL_M3_3(SOFTMETAL_S4, x, y, z, x, 0) SOFTMETAL_M3_3(SOFTMETAL_S4, x, y, z, y, 1)        \
    SOFTMETAL_M3_3(SOFTMETAL_S4, x, y, z, z, 2)
#define SOFTMETAL_SWIZZLES_OF_3 SOFTMETAL_ALL_3(x, y, z) SOFTMETAL_ALL_3(r, g, b)

#define SOFTMETAL_M1_4(S, x, y, z, w, ...)                                                         \
    S(__VA_ARGS__, x, 0) S(__VA_ARGS__, y, 1) S(__VA_ARGS__, z, 2) S(__VA_ARGS__, w, 3)
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
#define SOFTMETAL_ALL_4(x, y, z, w)                                                                \
    SOFTMETAL_S1(x, 0) SOFTMETAL_S1(y, 1) SOFTMETAL_S1(z, 2) SOFTMETAL_S1(w, 3)                    \
    SOFTMETAL_M1_4(SOFTMETAL_S2, x, y, z, w, x, 0)                                                 \
    SOFTMETAL_M1_4(SOFTMETAL_S2, x, y, z, w, y, 1)                                                 \
    SOFTMETAL_M1_4(SOFTMETAL_S2, x, y, z, w, z, 2)                                                 \
    SOFTMETAL_M1_4(SOFTMETAL_S2, x, y, z, w, w, 3)                                                 \
    SOFTMETAL_M2_4(SOFTMETAL_S3, x, y, z, w, x, 0)                                                 \
    SOFTMETAL_M2_4(SOFTMETAL_S3, x, y, z, w, y, 1)                                                 \
    SOFTMETAL_M2_4(SOFTMETAL_S3, x, y, z, w, z, 2)                                                 \
    SOFTMETAL_M2_4(SOFTMETAL_S3, x, y, z, w, w, 3)                                                 \
    SOFTMETAL_M3_4(SOFTMETAL_S4, x, y, z, w, x, 0)                                                 \
    SOFTMETAL_M3_4(SOFTMETAL_S4, x, y, z, w, y, 1)                                                 \
    SOFTMETAL_M3_4(SOFTMETAL_S4, x, y, z, w, z, 2)                                                 \
    SOFTMETAL_M3_4(SOFTMETAL_S4, x, y, z, w, w, 3)
#define SOFTMETAL_SWIZZLES_OF_4 SOFTMETAL_ALL_4(x, y, z, w) SOFTMETAL_ALL_4(r, g, b, a)
