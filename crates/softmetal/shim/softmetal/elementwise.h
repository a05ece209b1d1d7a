// Functions of vectors, made from those of scalars.
#pragma once

namespace softmetal {

/// The type of `A`'s vector; a packed vector counts as one.
template <class A> struct vector_of {};
template <class T, int N> struct vector_of<metal::vec<T, N>> { typedef metal::vec<T, N> type; };
template <class T, int N> struct vector_of<metal::packed_vec<T, N>> { typedef metal::vec<T, N> type; };
template <class A> using vector = typename vector_of<A>::type;

/// The type in which a function of several arguments computes. A scalar stands for every component of a
/// vector; two vector types do not mix. Of scalars alone, any.
template <class A, class B, bool = __is_arithmetic(A), bool = __is_arithmetic(B)> struct joint_of {};
template <class A, class B> struct joint_of<A, B, true, true> { typedef A type; };
template <class A, class B> struct joint_of<A, B, false, true> : vector_of<A> {};
template <class A, class B> struct joint_of<A, B, true, false> : vector_of<B> {};
template <class A> struct joint_of<A, A, false, false> : vector_of<A> {};
template <class T, int N> struct joint_of<metal::vec<T, N>, metal::packed_vec<T, N>, false, false>
    : vector_of<metal::vec<T, N>> {};
template <class T, int N> struct joint_of<metal::packed_vec<T, N>, metal::vec<T, N>, false, false>
    : vector_of<metal::vec<T, N>> {};
template <class A, class B> using joint = typename joint_of<A, B>::type;
template <class A, class B, class C> using joint3 = vector<joint<joint<A, B>, C>>;

template <class T> using if_float =
    metal::enable_if_t<__is_same(T, float) || __is_same(T, half)>;
template <class T> using if_integer = metal::enable_if_t<__is_integral(T) && !__is_same(T, bool)>;
/// bfloat is a type to store and compute with; the library's functions do not take it.
template <class T> using if_number = metal::enable_if_t<
    __is_arithmetic(T) && !__is_same(T, bool) && !__is_same(T, bfloat)>;

} // namespace softmetal

// SOFTMETAL_LIFTn adds the vector version of a function with n arguments.
#define SOFTMETAL_EACH(R, expression)                                                              \
    R r;                                                                                           \
    for (int i = 0; i < V::N; i++) r[i] = expression;                                              \
    return r;
#define SOFTMETAL_LIFT1(name)                                                                      \
    template <class A, class V = softmetal::vector<A>> inline V name(A a) {                        \
        const V x = a;                                                                             \
        SOFTMETAL_EACH(V, name(x[i]))                                                              \
    }
#define SOFTMETAL_LIFT2(name)                                                                      \
    template <class A, class B, class V = softmetal::vector<softmetal::joint<A, B>>>               \
    inline V name(A a, B b) {                                                                      \
        const V x = a, y = b;                                                                      \
        SOFTMETAL_EACH(V, name(x[i], y[i]))                                                        \
    }
#define SOFTMETAL_LIFT3(name)                                                                      \
    template <class A, class B, class C, class V = softmetal::joint3<A, B, C>>                     \
    inline V name(A a, B b, C c) {                                                                 \
        const V x = a, y = b, z = c;                                                               \
        SOFTMETAL_EACH(V, name(x[i], y[i], z[i]))                                                  \
    }
