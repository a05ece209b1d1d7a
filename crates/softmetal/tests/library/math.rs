//! Floating-point functions: all of float, half and their vectors.

use crate::run::{Case, check};

/// A function of one argument with its reference. `H` stands for `float` or `half`.
macro_rules! functions {
    ($($msl:literal => $expected:expr,)*) => {
        vec![$(($msl, $expected as f64)),*]
    };
}

/// Arguments are halves, so that all types take the same.
fn functions() -> Vec<(&'static str, f64)> {
    functions![
        "acos(H(0.25))" => 0.25f64.acos(),
        "acosh(H(1.5))" => 1.5f64.acosh(),
        "asin(H(0.25))" => 0.25f64.asin(),
        "asinh(H(0.25))" => 0.25f64.asinh(),
        "atan(H(-2.5))" => (-2.5f64).atan(),
        "atan2(H(-1), H(-2))" => (-1f64).atan2(-2.0),
        "atanh(H(0.25))" => 0.25f64.atanh(),
        "ceil(H(-1.5))" => -1,
        "copysign(H(2), H(-0.0))" => -2,
        "cos(H(1.25))" => 1.25f64.cos(),
        "cosh(H(1.25))" => 1.25f64.cosh(),
        "cospi(H(0.25))" => 0.5f64.sqrt(),
        "cospi(H(0.5))" => 0,
        "cospi(H(-3))" => -1,
        "divide(H(1), H(3))" => 1.0 / 3.0,
        "exp(H(1.5))" => 1.5f64.exp(),
        "exp2(H(-1.5))" => (-1.5f64).exp2(),
        "exp10(H(1.5))" => 10f64.powf(1.5),
        "abs(H(-1.5))" => 1.5,
        "fabs(H(-1.5))" => 1.5,
        "fdim(H(5), H(3))" => 2,
        "fdim(H(3), H(5))" => 0,
        "floor(H(-1.5))" => -2,
        "fma(H(3), H(4), H(5))" => 17,
        "fmax(H(NAN), H(1))" => 1,
        "max(H(1), H(NAN))" => 1,
        "fmin(H(NAN), H(NAN))" => f64::NAN,
        "min(H(-2), H(1))" => -2,
        "max3(H(1), H(7), H(3))" => 7,
        "fmax3(H(1), H(NAN), H(3))" => 3,
        "min3(H(1), H(7), H(-3))" => -3,
        "fmin3(H(1), H(7), H(-3))" => -3,
        "median3(H(9), H(7), H(3))" => 7,
        "fmedian3(H(3), H(9), H(7))" => 7,
        "fmod(H(-7), H(4))" => -3,
        "fract(H(1.25))" => 0.25,
        "log(H(7))" => 7f64.ln(),
        "log2(H(7))" => 7f64.log2(),
        "log10(H(7))" => 7f64.log10(),
        "pow(H(2.5), H(1.75))" => 2.5f64.powf(1.75),
        "pow(H(-2), H(3))" => -8,
        "pow(H(0), H(0))" => 1,
        "powr(H(2.5), H(1.75))" => 2.5f64.powf(1.75),
        "powr(H(0), H(0))" => f64::NAN,
        "powr(H(-1), H(2))" => f64::NAN,
        "rint(H(2.5))" => 2,
        "rint(H(-3.5))" => -4,
        "round(H(2.5))" => 3,
        "round(H(-2.5))" => -3,
        "rsqrt(H(0.25))" => 2,
        "sin(H(1.25))" => 1.25f64.sin(),
        "sinh(H(1.25))" => 1.25f64.sinh(),
        "sinpi(H(0.25))" => 0.5f64.sqrt(),
        "sinpi(H(1.5))" => -1,
        "sinpi(H(7))" => 0,
        "sqrt(H(2))" => 2f64.sqrt(),
        "tan(H(1.25))" => 1.25f64.tan(),
        "tanh(H(1.25))" => 1.25f64.tanh(),
        "tanpi(H(0.25))" => 1,
        "trunc(H(-1.5))" => -1,
        "ldexp(H(0.75), 4)" => 12,
        "clamp(H(5), H(-1), H(1))" => 1,
        "mix(H(2), H(4), H(0.25))" => 2.5,
        "saturate(H(-0.5))" => 0,
        "saturate(H(NAN))" => 0,
        "sign(H(-3))" => -1,
        "sign(H(NAN))" => 0,
        "smoothstep(H(1), H(3), H(1.5))" => 0.15625,
        "smoothstep(H(1), H(3), H(4))" => 1,
        "step(H(1), H(0.5))" => 0,
        "step(H(1), H(1))" => 1,
        "select(H(1), H(2), C)" => 2,
        "dot(V(H(1), H(2), H(3)), V(H(4), H(5), H(6)))" => 32,
        "length(V(H(2), H(3), H(6)))" => 7,
        "length_squared(V(H(2), H(3), H(6)))" => 49,
        "distance(V(H(3), H(4), H(7)), V(H(1), H(1), H(1)))" => 7,
        "distance_squared(V(H(3), H(4), H(7)), V(H(1), H(1), H(1)))" => 49,
        "normalize(V(H(2), H(3), H(6))).z" => 6.0 / 7.0,
        "cross(V(H(1), H(2), H(3)), V(H(4), H(5), H(6))).y" => 6,
        "faceforward(V(H(1), H(2), H(3)), V(H(0), H(0), H(1)), V(H(0), H(0), H(1))).y" => -2,
        "reflect(V(H(1), H(-1), H(0)), V(H(0), H(1), H(0))).y" => 1,
        "refract(V(H(0), H(-1), H(0)), V(H(0), H(1), H(0)), H(0.5)).y" => -1,
        "refract(V(H(1), H(0), H(0)), V(H(0), H(1), H(0)), H(2)).x" => 0,
    ]
}

/// Checks every function with a type in place of `H`, or the component of a vector.
fn check_type(name: &str, replace: &[(&str, &str)], component: &str, tolerance: f64) {
    let cases: Vec<_> = functions()
        .into_iter()
        .filter(|(msl, _)| component.is_empty() || !msl.contains('V'))
        .map(|(msl, expected)| {
            let mut text = format!("({msl}){component}");
            for (from, to) in replace {
                text = text.replace(from, to);
            }
            (text, expected)
        })
        .collect();
    let cases: Vec<_> = cases
        .iter()
        .map(|(msl, expected)| Case {
            msl,
            expected: Box::new(move |_| *expected),
        })
        .collect();
    check(name, "", &cases, tolerance);
}

#[test]
fn of_float() {
    let float = [("V(", "float3("), ("H(", "float("), (", C)", ", true)")];
    check_type("float.metal", &float, "", 3e-7);
}

#[test]
fn of_half() {
    let half = [("V(", "half3("), ("H(", "half("), (", C)", ", true)")];
    // A unit in the last place, and a half for the sums.
    check_type("half.metal", &half, "", 1.5 / 1024.0);
}

#[test]
fn of_vectors() {
    let vector = |ty: &'static str| {
        [
            ("V(", "float3("),
            ("H(", ty),
            (", C)", ", bool3(false, false, true))"),
        ]
    };
    check_type("float3.metal", &vector("float3("), "[2]", 3e-7);
    check_type("half3.metal", &vector("half3("), "[2]", 1.5 / 1024.0);
}

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

#[test]
fn with_two_results_and_in_parts() {
    check(
        "parts.metal",
        "int e; float w; half hw; float3 v; int3 ev;
         const float mantissa = frexp(12.0f, e), rest = modf(-2.75f, w), sine = sincos(1.25f, w);
         const int exponent = e; const float cosine = w; modf(-2.75f, w);
         const float3 m = frexp(float3(0, 1, -40), ev); const float3 r = modf(float3(1.5f, -0.25f, 3), v);
         const half hr = modf(half(2.5f), hw);",
        cases![
            "mantissa" => 0.75,
            "exponent" => 4,
            "rest" => -0.75,
            "w" => -2,
            "sine" => f64::from(1.25f32.sin()),
            "cosine" => f64::from(1.25f32.cos()),
            "m.x + ev.x" => 0,
            "m.z" => -0.625,
            "ev.z" => 6,
            "r.y" => -0.25,
            "v.x" => 1,
            "hr + hw" => 2.5,
            "modf(INFINITY, w)" => 0,
            "ilogb(0.1f)" => -4,
            "ilogb(half(3000.0f))" => 11,
            "ilogb(0.0f) == FP_ILOGB0 && ilogb(NAN) == FP_ILOGBNAN && ilogb(INFINITY) == INT_MAX" => 1,
            "ilogb(float2(1, 8)).y" => 3,
            "ldexp(float2(1, 3), int2(1, -1)).y" => 1.5,
            "ldexp(1.0f, -149)" => f64::from(f32::from_bits(1)),
            "sinpi(8388609.0f)" => 0,
            "cospi(8388609.0f)" => -1,
            "sinpi(1e30f)" => 0,
            "isnan(sinpi(INFINITY))" => 1,
        ],
        1e-7,
    );
}

#[test]
fn relations() {
    check(
        "relations.metal",
        "const float nan = NAN, tiny = 1e-40f; const half htiny = 1e-7h; const float3 v = float3(1, NAN, -INFINITY);
         const bool3 yes = bool3(true), mixed = bool3(true, false, true);",
        cases![
            "isnan(nan)" => 1,
            "isnan(half(nan))" => 1,
            "isnan(v).y && !isnan(v).x && !isnan(v).z" => 1,
            "isinf(v).z" => 1,
            "isinf(half(70000.0f))" => 1,
            "isfinite(v).x && !isfinite(v).y && !isfinite(v).z" => 1,
            "isnormal(1.0f) && !isnormal(tiny) && !isnormal(0.0f) && !isnormal(nan)" => 1,
            "isnormal(htiny)" => 0,
            "isnormal(float(htiny))" => 1,
            "signbit(-0.0f) && !signbit(0.0f) && signbit(v).z" => 1,
            "isordered(1.0f, 2.0f) && !isordered(1.0f, nan) && isunordered(nan, 1.0f)" => 1,
            "isunordered(v, 1.0f).y && isordered(v, v).x" => 1,
            "all(yes) && !all(mixed) && any(mixed) && !any(!yes)" => 1,
            "select(1.0f, 2.0f, false)" => 1,
            "select(float3(1), v, mixed).z" => f64::NEG_INFINITY,
            "select(int3(1), int3(2), mixed).y" => 1,
            "(not mixed).y" => 1,
            "min(1.0f, nan) + max(nan, 2.0f)" => 3,
            "isnan(min(nan, nan))" => 1,
            "clamp(float3(0, 1, 9), 0.5f, float3(2)).z" => 2,
            "max(float3(1, 5, 2), 3).x" => 3,
            "max(2, float3(1)).y" => 2,
            "pow(float2(2, 3), 2).y" => 9,
            "fast::clamp(5.0f, 0.0f, 1.0f) + precise::max(2.0f, 3.0f) + fast::length(float2(3, 4))" => 9,
        ],
        0.0,
    );
}
