//! Vectors, packed vectors and matrices.

use crate::run::{Case, check};

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: |_| $expected as f64 },)*]
    };
}

#[test]
fn constructors_and_swizzles() {
    check(
        "swizzles.metal",
        "float4 v = float4(1, 2, 3, 4); float4 w = v; w.zx = float2(7, 8); w.g *= 10.0f; w[3] += 1.0f;
         float3 u = v.bgr; uint2 i = uint2(5, 6); i.y <<= 2;",
        cases![
            "v.x + 10.0f * v.y + 100.0f * v.z + 1000.0f * v.w" => 4321.0,
            "dot(v.wzyx, float4(1, 10, 100, 1000))" => 1234.0,
            "dot(w, float4(1, 1000, 10, 100))" => 8.0 + 20_000.0 + 70.0 + 500.0,
            "u.x" => 3.0,
            "u.zz.y" => 1.0,
            "float4(v.xy, 9.0f, 8.0f).z" => 9.0,
            "float4(0.0f, v.yz, 8.0f).z" => 3.0,
            "float4(v.wzy, 8.0f).x" => 4.0,
            "float4(6.0f, v.wzy).w" => 2.0,
            "float3(v.zw, 1.0f).y" => 4.0,
            "float4(5.0f).w" => 5.0,
            "i.x + i.y" => 29.0,
            "vec<half, 2>(half(1.5f), half(2.5f)).y" => 2.5,
            "float4(uchar4(250, 1, 2, 3)).x" => 250.0,
            "as_type<uchar4>(0x04030201u).z" => 3.0,
            "as_type<float2>(ulong(0x3f80000040000000)).y" => 1.0,
            "sizeof(float3) * 100 + sizeof(half3)" => 1608.0,
            "sizeof(packed_float3) * 100 + alignof(packed_float3)" => 1204.0,
            "sizeof(bool4)" => 4.0,
        ],
        0.0,
    );
}

#[test]
fn operators_and_functions() {
    check(
        "operators.metal",
        "float3 a = float3(1, 2, 3), b = float3(4, 5, 6); int4 k = int4(7, -7, 8, 9);
         packed_float3 p = packed_float3(1, 2, 3); p.y += 2.0f;",
        cases![
            "dot(a, b)" => 32.0,
            "cross(a, b).y" => 6.0,
            "length(float2(3, 4))" => 5.0,
            "distance(float2(4, 5), float2(1, 1))" => 5.0,
            "normalize(float2(3, 4)).y" => f64::from(0.2f32) * 4.0,
            "(2.0f * a - b / 2).z" => 3.0,
            "(-a).x" => -1.0,
            "(k % 4).y" => -3.0,
            "(k & 3).w" => 1.0,
            "(k >> 1).x" => 3.0,
            "any(a > 2.0f) && !all(a > 2.0f)" => 1.0,
            "all((a == a) && !(a != a))" => 1.0,
            "max(a, 2.0f).x" => 2.0,
            "min(a, b).z" => 3.0,
            "clamp(b, 0.0f, 5.0f).z" => 5.0,
            "mix(a, b, float3(0.5f)).x" => 2.5,
            "select(a, b, bool3(false, true, false)).y" => 5.0,
            "fma(a, b, a).y" => 12.0,
            "floor(a / 2.0f).z" => 1.0,
            "(float3(p) + a).y" => 6.0,
            "(p * 2.0f).z" => 6.0,
        ],
        1e-6,
    );
}

#[test]
fn matrices() {
    check(
        "matrices.metal",
        "float2x2 m = float2x2(float2(1, 2), float2(3, 4)); float2 v = float2(5, 6);",
        cases![
            "(m * v).x" => 5.0 + 18.0,
            "(m * v).y" => 10.0 + 24.0,
            "(m * m)[1][0]" => 3.0 + 12.0,
            "transpose(m)[0][1]" => 3.0,
            "(m + m)[1].y" => 8.0,
            "(2.0f * m)[0][1]" => 4.0,
            "float4x4(2.0f)[2][2] + float4x4(2.0f)[2][1]" => 2.0,
            "half2x4(half4(1), half4(2))[1].w" => 2.0,
        ],
        0.0,
    );
}
