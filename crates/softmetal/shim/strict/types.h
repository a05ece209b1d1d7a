// Types of Metal's library in C++ for OpenCL, only to be parsed: what address spaces need, not what values do.
//
// Vectors are the compiler's: their constructors are calls of `softmetal::make` in the translation.

#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#pragma OPENCL EXTENSION __cl_clang_bitfields : enable

#define device __global
#define threadgroup __local
// What is there is read-only, whether its declaration says so or not.
#define constant __constant const
#define thread __private
#define kernel
#define ray_data __private
#define object_data __local
// Words of OpenCL that Metal leaves free.
#define global softmetal_global
#define local softmetal_local
#define generic softmetal_generic
#define pipe softmetal_pipe
#define uniform softmetal_uniform
#define atomic_int softmetal_atomic_int
#define atomic_uint softmetal_atomic_uint
#define atomic_ulong softmetal_atomic_ulong
#define atomic_float softmetal_atomic_float
#define METAL_FUNC inline
#define __METAL__ 1
#define __METAL_VERSION__ 310
#define __HAVE_BFLOAT__ 1
#define is_function_constant_defined(name) (sizeof(name) > 0)

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __bf16 bfloat;
typedef signed char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef ulong uintptr_t;

namespace softmetal {

/// A value for a declaration that is never run.
template <class T> T value();

/// A constructor of a vector, or of what a name stands for that may be one.
template <class V, class... A> constexpr V make(const A... a) {
    if constexpr (__is_pointer(V)) return (V)((a, ...));
    else if constexpr (__is_class(V)) return value<V>();
    else return V{};
}

/// `cast<V>() ->* x` binds as `(V)x` does.
template <class V> struct cast {};
template <class V, class X> constexpr V operator->*(const cast<V>, const X x) { return make<V>(x); }

/// Memory of a threadgroup variable.
template <class T> T& threadgroup_variable();

} // namespace softmetal

namespace metal {

template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));

/// The compiler compares vectors to vectors of integers; any of them makes one of these.
template <int N> struct softmetal_bool {
    bool x, y, z, w;
    softmetal_bool() = default;
    template <class... A> softmetal_bool(const A...);
    bool operator[](int) const;
    softmetal_bool operator!() const;
    template <class B> friend softmetal_bool operator&&(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator||(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator&(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator|(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator^(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator==(const softmetal_bool, const B);
    template <class B> friend softmetal_bool operator!=(const softmetal_bool, const B);
};

} // namespace metal

#define SOFTMETAL_BOTH(...)                                                                        \
    typedef __VA_ARGS__;                                                                           \
    namespace metal {                                                                              \
    typedef __VA_ARGS__;                                                                           \
    }
#define SOFTMETAL_VECTORS(T)                                                                       \
    SOFTMETAL_BOTH(metal::vec<T, 2> T##2)                                                          \
    SOFTMETAL_BOTH(metal::vec<T, 3> T##3)                                                          \
    SOFTMETAL_BOTH(metal::vec<T, 4> T##4)
SOFTMETAL_BOTH(metal::softmetal_bool<2> bool2)
SOFTMETAL_BOTH(metal::softmetal_bool<3> bool3)
SOFTMETAL_BOTH(metal::softmetal_bool<4> bool4)
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

// What differs by the space of the object or operand.
#define SOFTMETAL_SPACES(M) M(device) M(threadgroup) M(thread)
#define SOFTMETAL_ALL_SPACES(M) SOFTMETAL_SPACES(M) M(constant)

namespace metal {

/// A packed vector: how it is laid out is not asked here.
template <class T, int N> using packed_vec = vec<T, N>;

/// A matrix of C columns with R rows.
template <class T, int C, int R> struct matrix {
    vec<T, R> columns[C];
    matrix() = default;
    template <class... A> matrix(const A...);
    template <class A> void operator+=(const A);
    template <class A> void operator-=(const A);
    template <class A> void operator*=(const A);
    template <class M> matrix(constant M&);
    vec<T, R> operator[](int) const&&;
#define SOFTMETAL_MEMBERS(space) space vec<T, R>& operator[](int) space&;
    SOFTMETAL_SPACES(SOFTMETAL_MEMBERS)
#undef SOFTMETAL_MEMBERS
#define SOFTMETAL_MEMBERS(space) const space vec<T, R>& operator[](int) const space&;
    SOFTMETAL_ALL_SPACES(SOFTMETAL_MEMBERS)
#undef SOFTMETAL_MEMBERS
};
template <class T, int C, int R> matrix<T, C, R> operator+(matrix<T, C, R>, matrix<T, C, R>);
template <class T, int C, int R> matrix<T, C, R> operator-(matrix<T, C, R>, matrix<T, C, R>);
template <class T, int C, int R> matrix<T, C, R> operator-(matrix<T, C, R>);
template <class T, int C, int R> bool operator==(matrix<T, C, R>, matrix<T, C, R>);
template <class T, int C, int R> bool operator!=(matrix<T, C, R>, matrix<T, C, R>);
template <class T, int C, int R> matrix<T, C, R> operator*(matrix<T, C, R>, T);
template <class T, int C, int R> matrix<T, C, R> operator*(T, matrix<T, C, R>);
template <class T, int C, int R> vec<T, R> operator*(matrix<T, C, R>, vec<T, C>);
template <class T, int C, int R> vec<T, C> operator*(vec<T, R>, matrix<T, C, R>);
template <class T, int C, int R, int K>
matrix<T, K, R> operator*(matrix<T, C, R>, matrix<T, K, C>);
template <class T, int C, int R> matrix<T, R, C> transpose(matrix<T, C, R>);
template <class T, int N> T determinant(matrix<T, N, N>);

template <class T> using uniform = T;

/// An array of fixed size.
template <class T, size_t N> struct array {
    T elements[N];
#define SOFTMETAL_MEMBERS(space) space T& operator[](size_t) space;
    SOFTMETAL_SPACES(SOFTMETAL_MEMBERS)
#undef SOFTMETAL_MEMBERS
#define SOFTMETAL_MEMBERS(space) const space T& operator[](size_t) const space;
    SOFTMETAL_ALL_SPACES(SOFTMETAL_MEMBERS)
#undef SOFTMETAL_MEMBERS
    static constexpr size_t size() { return N; }
};

} // namespace metal

#define SOFTMETAL_PACKED(T)                                                                        \
    SOFTMETAL_BOTH(metal::packed_vec<T, 2> packed_##T##2)                                          \
    SOFTMETAL_BOTH(metal::packed_vec<T, 3> packed_##T##3)                                          \
    SOFTMETAL_BOTH(metal::packed_vec<T, 4> packed_##T##4)
SOFTMETAL_PACKED(char)
SOFTMETAL_PACKED(uchar)
SOFTMETAL_PACKED(short)
SOFTMETAL_PACKED(ushort)
SOFTMETAL_PACKED(int)
SOFTMETAL_PACKED(uint)
SOFTMETAL_PACKED(long)
SOFTMETAL_PACKED(ulong)
SOFTMETAL_PACKED(half)
SOFTMETAL_PACKED(bfloat)
SOFTMETAL_PACKED(float)
#undef SOFTMETAL_PACKED

#define SOFTMETAL_MATRICES(T, R)                                                                   \
    SOFTMETAL_BOTH(metal::matrix<T, 2, R> T##2x##R)                                                \
    SOFTMETAL_BOTH(metal::matrix<T, 3, R> T##3x##R)                                                \
    SOFTMETAL_BOTH(metal::matrix<T, 4, R> T##4x##R)
SOFTMETAL_MATRICES(half, 2)
SOFTMETAL_MATRICES(half, 3)
SOFTMETAL_MATRICES(half, 4)
SOFTMETAL_MATRICES(float, 2)
SOFTMETAL_MATRICES(float, 3)
SOFTMETAL_MATRICES(float, 4)
#undef SOFTMETAL_MATRICES
#undef SOFTMETAL_BOTH
