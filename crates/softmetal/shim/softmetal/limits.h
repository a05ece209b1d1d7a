// Limits and constants of the scalar types (specification, sections 6.3 and 6.5).
#pragma once

#define CHAR_BIT 8
#define SCHAR_MAX __SCHAR_MAX__
#define SCHAR_MIN (-__SCHAR_MAX__ - 1)
#define UCHAR_MAX (__SCHAR_MAX__ * 2 + 1)
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define SHRT_MAX __SHRT_MAX__
#define SHRT_MIN (-__SHRT_MAX__ - 1)
#define USHRT_MAX (__SHRT_MAX__ * 2 + 1)
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2U + 1U)
#define LONG_MAX __LONG_MAX__
#define LONG_MIN (-__LONG_MAX__ - 1L)
#define ULONG_MAX (__LONG_MAX__ * 2UL + 1UL)

#define INFINITY (__builtin_inff())
#define NAN (__builtin_nanf(""))
#define HUGE_VALF (__builtin_huge_valf())
#define HUGE_VALH half(__builtin_huge_valf())
#define FP_ILOGB0 INT_MIN
#define FP_ILOGBNAN INT_MAX

#define FLT_RADIX 2
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define FLT_MAX_EXP 128
#define FLT_MAX_10_EXP 38
#define FLT_MIN_EXP (-125)
#define FLT_MIN_10_EXP (-37)
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define MAXFLOAT __FLT_MAX__

#define HALF_RADIX 2
#define HALF_DIG 3
#define HALF_MANT_DIG 11
#define HALF_MAX_EXP 16
#define HALF_MAX_10_EXP 4
#define HALF_MIN_EXP (-13)
#define HALF_MIN_10_EXP (-4)
#define HALF_MAX half(0x1.ffcp15f)
#define HALF_MIN half(0x1p-14f)
#define HALF_EPSILON half(0x1p-10f)
#define MAXHALF HALF_MAX

#define BFLT_RADIX 2
#define BFLT_DIG 2
#define BFLT_MANT_DIG 8
#define BFLT_MAX_EXP 128
#define BFLT_MAX_10_EXP 38
#define BFLT_MIN_EXP (-125)
#define BFLT_MIN_10_EXP (-37)
#define BFLT_MAX bfloat(0x1.fep127f)
#define BFLT_MIN bfloat(0x1p-126f)
#define BFLT_EPSILON bfloat(0x1p-7f)
#define MAXBFLOAT BFLT_MAX

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
#define M_E_H half(M_E_F)
#define M_LOG2E_H half(M_LOG2E_F)
#define M_LOG10E_H half(M_LOG10E_F)
#define M_LN2_H half(M_LN2_F)
#define M_LN10_H half(M_LN10_F)
#define M_PI_H half(M_PI_F)
#define M_PI_2_H half(M_PI_2_F)
#define M_PI_4_H half(M_PI_4_F)
#define M_1_PI_H half(M_1_PI_F)
#define M_2_PI_H half(M_2_PI_F)
#define M_2_SQRTPI_H half(M_2_SQRTPI_F)
#define M_SQRT2_H half(M_SQRT2_F)
#define M_SQRT1_2_H half(M_SQRT1_2_F)

namespace metal {

template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };

#define SOFTMETAL_LIMITS(T, integer, digits_, digits10_)                                           \
    static constexpr bool is_specialized = true, is_integer = integer, is_exact = integer,         \
                          is_signed = T(-1) < T(0), is_bounded = true;                             \
    static constexpr int radix = 2, digits = digits_, digits10 = digits10_;
#define SOFTMETAL_FLOAT_LIMITS(T, P, tiniest)                                                      \
    template <> struct numeric_limits<T> {                                                         \
        SOFTMETAL_LIMITS(T, false, P##_MANT_DIG, P##_DIG)                                          \
        static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true; \
        static constexpr int max_exponent = P##_MAX_EXP, max_exponent10 = P##_MAX_10_EXP,          \
                             min_exponent = P##_MIN_EXP, min_exponent10 = P##_MIN_10_EXP;          \
        static constexpr T max() { return P##_MAX; }                                               \
        static constexpr T lowest() { return -P##_MAX; }                                           \
        static constexpr T min() { return P##_MIN; }                                               \
        static constexpr T epsilon() { return P##_EPSILON; }                                       \
        static constexpr T round_error() { return T(0.5f); }                                       \
        static constexpr T denorm_min() { return T(tiniest); }                                     \
        static constexpr T infinity() { return T(INFINITY); }                                      \
        static constexpr T quiet_NaN() { return T(NAN); }                                          \
        static constexpr T signaling_NaN() { return T(__builtin_nansf("")); }                      \
    };
SOFTMETAL_FLOAT_LIMITS(float, FLT, 0x1p-149f)
SOFTMETAL_FLOAT_LIMITS(half, HALF, 0x1p-24f)
SOFTMETAL_FLOAT_LIMITS(bfloat, BFLT, 0x1p-133f)
#define SOFTMETAL_INTEGER_LIMITS(T, lowest_, highest)                                              \
    template <> struct numeric_limits<T> {                                                         \
        SOFTMETAL_LIMITS(T, true, __is_same(T, bool) ? 1 : int(8 * sizeof(T)) - is_signed,         \
                         digits * 643 / 2136)                                                     \
        static constexpr T max() { return T(highest); }                                            \
        static constexpr T lowest() { return T(lowest_); }                                         \
        static constexpr T min() { return T(lowest_); }                                            \
    };
SOFTMETAL_INTEGER_LIMITS(bool, false, true)
SOFTMETAL_INTEGER_LIMITS(char, CHAR_MIN, CHAR_MAX)
SOFTMETAL_INTEGER_LIMITS(int8_t, SCHAR_MIN, SCHAR_MAX)
SOFTMETAL_INTEGER_LIMITS(uchar, 0, UCHAR_MAX)
SOFTMETAL_INTEGER_LIMITS(short, SHRT_MIN, SHRT_MAX)
SOFTMETAL_INTEGER_LIMITS(ushort, 0, USHRT_MAX)
SOFTMETAL_INTEGER_LIMITS(int, INT_MIN, INT_MAX)
SOFTMETAL_INTEGER_LIMITS(uint, 0, UINT_MAX)
SOFTMETAL_INTEGER_LIMITS(long, LONG_MIN, LONG_MAX)
SOFTMETAL_INTEGER_LIMITS(ulong, 0, ULONG_MAX)
#undef SOFTMETAL_INTEGER_LIMITS
#undef SOFTMETAL_FLOAT_LIMITS
#undef SOFTMETAL_LIMITS

} // namespace metal
