//! Scalar types and functions.

use crate::run::{Case, check};

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

#[test]
fn exact_functions() {
    check(
        "exact.metal",
        "",
        cases![
            "floor(-1.5f)" => -2.0,
            "ceil(-1.5f)" => -1.0,
            "trunc(-1.5f)" => -1.0,
            "round(2.5f)" => 3.0,
            "rint(2.5f)" => 2.0,
            "fract(1.25f)" => 0.25,
            "fract(-1e-10f)" => 0.999_999_940_395_355_2,
            "sign(-3.0f)" => -1.0,
            "sign(NAN)" => 0.0,
            "step(1.0f, 1.0f)" => 1.0,
            "fma(3.0f, 4.0f, 5.0f)" => 17.0,
            "fma(4097.0f, 4097.0f, -16785408.0f)" => 1.0,
            "mix(2.0f, 4.0f, 0.25f)" => 2.5,
            "clamp(5.0f, -1.0f, 1.0f)" => 1.0,
            "saturate(-0.5f)" => 0.0,
            "max(NAN, 1.0f)" => 1.0,
            "min(1.0f, NAN)" => 1.0,
            "fmod(-7.0f, 4.0f)" => -3.0,
            "copysign(2.0f, -0.0f)" => -2.0,
            "ldexp(0.75f, 4)" => 12.0,
            "select(1.0f, 2.0f, true)" => 2.0,
            "isnan(NAN) && !isnan(1.0f) && isinf(-INFINITY) && isfinite(MAXFLOAT)" => 1.0,
            "rsqrt(0.25f)" => 2.0,
            "abs(-3)" => 3.0,
        ],
        0.0,
    );
}

#[test]
fn transcendental_functions() {
    check(
        "transcendental.metal",
        "",
        cases![
            "exp(1.5f)" => 1.5f64.exp(),
            "exp2(0.3f)" => 0.3f64.exp2(),
            "exp10(0.3f)" => 10f64.powf(0.3),
            "log(7.0f)" => 7f64.ln(),
            "log2(7.0f)" => 7f64.log2(),
            "log10(7.0f)" => 7f64.log10(),
            "sin(1.1f)" => 1.1f64.sin(),
            "cos(1.1f)" => 1.1f64.cos(),
            "tan(1.1f)" => 1.1f64.tan(),
            "asin(0.3f)" => 0.3f64.asin(),
            "acos(0.3f)" => 0.3f64.acos(),
            "atan(0.3f)" => 0.3f64.atan(),
            "divide(1.0f, 3.0f)" => 1.0 / 3.0,
            "atan2(-1.0f, -2.0f)" => (-1f64).atan2(-2.0),
            "sinh(0.7f)" => 0.7f64.sinh(),
            "cosh(0.7f)" => 0.7f64.cosh(),
            "tanh(0.7f)" => 0.7f64.tanh(),
            "pow(2.5f, 1.7f)" => 2.5f64.powf(1.7),
            "sqrt(2.0f)" => 2f64.sqrt(),
            "precise::exp(1.5f)" => 1.5f64.exp(),
            "fast::log(7.0f)" => 7f64.ln(),
        ],
        3e-7,
    );
}

#[test]
fn integers() {
    check(
        "integers.metal",
        "",
        cases![
            "popcount(0xf0u)" => 4.0,
            "popcount(char(-1))" => 8.0,
            "clz(1u)" => 31.0,
            "clz(ushort(1))" => 15.0,
            "clz(0)" => 32.0,
            "ctz(8)" => 3.0,
            "ctz(uchar(0))" => 8.0,
            "mulhi(0x80000000u, 6u)" => 3.0,
            "rotate(0x80000001u, 4u)" => 24.0,
            "reverse_bits(1u) == 0x80000000" => 1.0,
            "extract_bits(0xabcdu, 4u, 8u)" => 0xbc,
            "mad24(3, -4, 5)" => -7.0,
            "uchar(300)" => 44.0,
            "ushort(65535) + 1" => 65536.0,
            "int(short(0x8000))" => -32768.0,
            "sizeof(long) * 100 + sizeof(size_t) * 10 + sizeof(bool)" => 881.0,
        ],
        0.0,
    );
}

#[test]
fn small_floats_round_to_nearest_even() {
    check(
        "halves.metal",
        "",
        cases![
            "half(2049.0f)" => 2048.0,
            "half(2051.0f)" => 2052.0,
            "half(1.0f) / half(3.0f)" => 0.333_251_953_125,
            "bfloat(1.00390625f)" => 1.0,
            "bfloat(1.01171875f)" => 1.015_625,
            "0.5h * 3.0h" => 1.5,
            "as_type<ushort>(half(1.0f))" => 0x3c00,
            "as_type<ushort>(bfloat(1.0f))" => 0x3f80,
            "as_type<uint>(1.0f)" => 0x3f80_0000,
            "as_type<half>(ushort(0x7bff))" => 65504.0,
            "exp(half(0.0f))" => 1.0,
            "numeric_limits<half>::max()" => 65504.0,
            "max(half(1.0f), half(2.0f))" => 2.0,
        ],
        0.0,
    );
}
