// Scalar types, limits and constants (Metal Shading Language specification, sections 2.1 and 2.2).
#pragma once

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;
typedef __bf16 bfloat;

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF (__builtin_huge_valf())
#define MAXFLOAT __FLT_MAX__
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define HALF_MAX half(65504.0f)
#define MAXHALF HALF_MAX
#define HALF_MIN half(6.103515625e-05f)
#define HALF_EPSILON half(9.765625e-04f)
#define CHAR_BIT 8
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#define SHRT_MAX __SHRT_MAX__
#define USHRT_MAX (__SHRT_MAX__ * 2 + 1)
#define SCHAR_MAX __SCHAR_MAX__
#define UCHAR_MAX (__SCHAR_MAX__ * 2 + 1)
#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.785398163397448309616f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_PI_F 0.636619772367581343076f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524401f

constexpr half operator""h(long double x) { return half(x); }
constexpr half operator""h(unsigned long long x) { return half(x); }

namespace metal {

template <class T, T V> struct integral_constant {
    static constexpr T value = V;
    constexpr operator T() const { return V; }
};
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;

template <bool C, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool C, class T = void> using enable_if_t = typename enable_if<C, T>::type;

template <bool C, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool C, class T, class F> using conditional_t = typename conditional<C, T, F>::type;

template <class T, class U> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class T, class U> constexpr bool is_same_v = is_same<T, U>::value;

template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T&> { typedef T type; };
template <class T> struct remove_cv { typedef __remove_cv(T) type; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;

template <class T> struct is_floating_point : integral_constant<bool, __is_floating_point(T)> {};
template <> struct is_floating_point<half> : true_type {};
template <> struct is_floating_point<bfloat> : true_type {};
template <class T> struct is_integral : integral_constant<bool, __is_integral(T)> {};
template <class T> constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> constexpr bool is_integral_v = is_integral<T>::value;
template <class T> constexpr bool is_scalar_v = is_floating_point_v<T> || is_integral_v<T>;

template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
    static constexpr float max() { return __FLT_MAX__; }
    static constexpr float lowest() { return -__FLT_MAX__; }
    static constexpr float min() { return __FLT_MIN__; }
    static constexpr float epsilon() { return __FLT_EPSILON__; }
    static constexpr float infinity() { return INFINITY; }
    static constexpr float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<half> {
    static constexpr half max() { return HALF_MAX; }
    static constexpr half lowest() { return -HALF_MAX; }
    static constexpr half min() { return HALF_MIN; }
    static constexpr half epsilon() { return HALF_EPSILON; }
    static constexpr half infinity() { return half(INFINITY); }
    static constexpr half quiet_NaN() { return half(NAN); }
};
#define SOFTMETAL_INTEGER_LIMITS(T, LOWEST, HIGHEST)                                               \
    template <> struct numeric_limits<T> {                                                         \
        static constexpr T max() { return T(HIGHEST); }                                            \
        static constexpr T lowest() { return T(LOWEST); }                                          \
        static constexpr T min() { return T(LOWEST); }                                             \
    };
SOFTMETAL_INTEGER_LIMITS(char, -__SCHAR_MAX__ - 1, __SCHAR_MAX__)
SOFTMETAL_INTEGER_LIMITS(uchar, 0, UCHAR_MAX)
SOFTMETAL_INTEGER_LIMITS(short, -__SHRT_MAX__ - 1, __SHRT_MAX__)
SOFTMETAL_INTEGER_LIMITS(ushort, 0, USHRT_MAX)
SOFTMETAL_INTEGER_LIMITS(int, INT_MIN, INT_MAX)
SOFTMETAL_INTEGER_LIMITS(uint, 0, UINT_MAX)
SOFTMETAL_INTEGER_LIMITS(long, -__LONG_MAX__ - 1, __LONG_MAX__)
SOFTMETAL_INTEGER_LIMITS(ulong, 0, __LONG_MAX__ * 2UL + 1UL)
#undef SOFTMETAL_INTEGER_LIMITS

/// The bits of `from` as a `To` of the same size.
template <class To, class From> inline To as_type(From from) {
    static_assert(sizeof(To) == sizeof(From), "as_type needs types of one size");
    To to;
    __builtin_memcpy(static_cast<void*>(&to), static_cast<const void*>(&from), sizeof(To));
    return to;
}

} // namespace metal

using metal::as_type;
