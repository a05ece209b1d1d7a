//! Limits, traits, arrays and names.

use minfer_softmetal::Mode;

use crate::run::{Case, check, device, library};

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

#[test]
fn limits_and_constants() {
    check(
        "limits.metal",
        "static_assert(CHAR_MIN == -128 && SHRT_MIN == -32768 && INT_MIN == -2147483647 - 1 && UCHAR_MAX == 255);
         static_assert(ULONG_MAX == ~0ul && LONG_MIN < 0 && LONG_MAX == 0x7fffffffffffffff && USHRT_MAX == 65535);
         static_assert(numeric_limits<int>::digits == 31 && numeric_limits<uchar>::digits10 == 2 &&
                       numeric_limits<ulong>::digits10 == 19 && numeric_limits<bool>::digits == 1);
         static_assert(numeric_limits<int>::is_signed && !numeric_limits<uint>::is_signed &&
                       !numeric_limits<float>::is_integer && !numeric_limits<float4>::is_specialized);",
        cases![
            "FLT_MAX" => f32::MAX,
            "FLT_MIN" => f32::MIN_POSITIVE,
            "FLT_EPSILON" => f32::EPSILON,
            "FLT_DIG * 1000 + FLT_MANT_DIG" => f32::DIGITS * 1000 + f32::MANTISSA_DIGITS,
            "FLT_MAX_EXP + FLT_MIN_EXP" => f32::MAX_EXP + f32::MIN_EXP,
            "FLT_MAX_10_EXP + FLT_MIN_10_EXP" => f32::MAX_10_EXP + f32::MIN_10_EXP,
            "MAXHALF" => 65504,
            "HALF_MIN" => 1.0 / 16384.0,
            "HALF_EPSILON" => 1.0 / 1024.0,
            "MAXBFLOAT" => f32::from_bits(0x7f7f_0000),
            "BFLT_EPSILON" => 1.0 / 128.0,
            "numeric_limits<half>::denorm_min()" => 1.0 / 16_777_216.0,
            "numeric_limits<float>::denorm_min()" => f32::from_bits(1),
            "numeric_limits<bfloat>::lowest()" => -f32::from_bits(0x7f7f_0000),
            "numeric_limits<half>::infinity()" => f64::INFINITY,
            "numeric_limits<float>::quiet_NaN()" => f64::NAN,
            "numeric_limits<short>::lowest()" => -32768,
            "HUGE_VALF" => f64::INFINITY,
            "M_PI_F" => std::f32::consts::PI,
            "M_E_F" => std::f32::consts::E,
            "M_2_SQRTPI_F" => std::f32::consts::FRAC_2_SQRT_PI,
            "M_LOG2E_F + M_LOG10E_F" => std::f32::consts::LOG2_E + std::f32::consts::LOG10_E,
            "M_LN2_F + M_LN10_F" => std::f32::consts::LN_2 + std::f32::consts::LN_10,
            "M_1_PI_F + M_2_PI_F" => std::f32::consts::FRAC_1_PI + std::f32::consts::FRAC_2_PI,
            "M_SQRT2_F + M_SQRT1_2_F" => std::f32::consts::SQRT_2 + std::f32::consts::FRAC_1_SQRT_2,
            "M_PI_2_F + M_PI_4_F" => std::f32::consts::FRAC_PI_2 + std::f32::consts::FRAC_PI_4,
            "M_PI_H" => 3.140_625,
            "__METAL_VERSION__ >= 310 && __HAVE_BFLOAT__ && __METAL__" => 1,
        ],
        0.0,
    );
}

#[test]
fn traits_and_templates() {
    check(
        "traits.metal",
        "struct P { int a; float b; }; enum E : uchar { first };
         static_assert(is_same_v<float4, vec<float, 4>> && is_same<vec<half, 2>, half2>::value && !is_same_v<int, uint>);
         static_assert(is_same_v<decltype(float4().zx), float2> && is_same_v<decltype(1.0), float>);
         static_assert(is_same_v<decltype(1.0h), half> && is_same_v<decltype(1.0bf), bfloat>);
         static_assert(is_same_v<conditional_t<true, int, float>, int> && is_same_v<enable_if_t<true, half>, half>);
         static_assert(is_floating_point_v<half> && is_floating_point_v<bfloat> && is_integral_v<char> && !is_integral_v<half>);
         static_assert(is_arithmetic_v<half> && is_signed_v<int> && is_unsigned_v<uchar> && is_void_v<void>);
         static_assert(is_pointer_v<const device int*> && is_array_v<int[3]> && is_class_v<P> && is_enum_v<E>);
         static_assert(is_convertible_v<int, float> && !is_convertible_v<half4, float4> && is_const_v<const int>);
         static_assert(is_same_v<remove_cv_t<const volatile int>, int> && is_same_v<remove_reference_t<thread int&>, int>);
         static_assert(is_same_v<make_unsigned_t<short>, ushort> && is_same_v<decay_t<int[2]>, int*>);
         static_assert(is_same_v<underlying_type_t<E>, uchar> && is_same_v<remove_extent_t<int[2]>, int>);
         static_assert(true_type::value && !false_type() && integral_constant<int, 3>::value == 3);
         _Static_assert(sizeof(array<float3, 2>) == 32, \"an array has no more than its elements\");
         array<int, 3> a = {4, 5, 6}; a[1] += 10; const array<float, 2> b = {0.5f, 2};
         uniform<uint> same = 3;",
        cases![
            "a[1] + a.size()" => 18,
            "b[0]" => 0.5,
            "same" => 3,
            "as_type<int>(-0.0f) == INT_MIN" => 1,
            "as_type<half2>(0x40003c00u).y" => 2,
            "as_type<bfloat>(ushort(0x4040))" => 3,
            "float4{1, 2, 3, 4}.w" => 4,
        ],
        0.0,
    );
}

#[test]
fn names_of_headers_shared_with_the_host() {
    let text = "#include <simd/simd.h>
#include <metal_type_traits>
#include <metal_limits>
struct Shared { simd_float4 a; vector_uint2 b; matrix_float4x4 m; simd::float3 c; };
static_assert(sizeof(Shared) == 112 && metal::is_same_v<simd::float4x4, metal::float4x4>);
[[kernel]] void shared(device Shared* y [[buffer(0)]], constant simd_float4x4& m [[buffer(1)]]) {
    y[0].a = m * simd_float4(1);
}
template <typename T> [[kernel]] void generic(device T* y [[buffer(0)]]) { *y = T(1); }
template [[host_name(\"of_half\")]] [[kernel]] void generic<half>(device half*);
template [[host_name(\"of_float\")]] kernel decltype(generic<float>) generic<float>;
";
    let device = device(Mode::Unchecked);
    let library = library(&device, "names.metal", text).unwrap();
    let kernels: Vec<_> = library.kernels().collect();
    assert_eq!(kernels, ["shared", "of_half", "of_float"]);
}
