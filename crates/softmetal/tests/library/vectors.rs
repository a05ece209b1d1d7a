//! Vectors, packed vectors and matrices.

use crate::run::{Case, check};

macro_rules! cases {
    ($($msl:literal => $expected:expr,)*) => {
        &[$(Case { msl: $msl, expected: Box::new(|_| $expected as f64) },)*]
    };
}

#[test]
fn constructors_and_swizzles() {
    check(
        "swizzles.metal",
        "float4 v = float4(1, 2, 3, 4); float4 w = v; w.zx = float2(7, 8); w.g *= 10.0f; w[3] += 1.0f;
         float3 u = v.bgr; uint2 i = uint2(5, 6); i.y <<= 2;
         const packed_float2 p = packed_float2(1, 2); const packed_float3 q = packed_float3(v.zw, 1);
         const float4 braces = {x * 0.0f + 3.0f}, swapped = {v.zw, v.xy};",
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
            "sizeof(long3) + alignof(short4)" => 40.0,
            "float4(1, v.yz, w.x).w" => 8.0,
            "half4(uchar2(3, 4).x, half2(1.5h), 2).z" => 1.5,
            "int4(int2(1, 2), 3.9f, true).z" => 3.0,
            "braces.x * 10.0f + braces.y" => 30.0,
            "swapped.x" => 3.0,
            "float3(p, 9).z" => 9.0,
            "float4(q, 9).w" => 9.0,
            "vec<long, 3>(1, 2, 3).zyx[0]" => 3.0,
            "metal::float2(1, 2).g" => 2.0,
            "as_type<short4>(as_type<long>(float2(1, 2))).y" => 16256.0,
        ],
        0.0,
    );
}

#[test]
fn operators_and_functions() {
    check(
        "operators.metal",
        "float3 a = float3(1, 2, 3), b = float3(4, 5, 6); int4 k = int4(7, -7, 8, 9);
         packed_float3 p = packed_float3(1, 2, 3); p.y += 2.0f;
         packed_float3 q = p; q.xy = float2(1, 1); q.zyx *= a; q += packed_float3(0, -1, 1); q -= float3(0, -1, 1); q.r = q.b;
         packed_uchar4 c = packed_uchar4(250, 6, 7, 8); c -= uchar4(1); c.a = 7; short2 s = short2(1, 2); s.yx += short2(1, 0);
         int2 n = int2(2, 3); const int2 before = n++;",
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
            "p.zx.y" => 1.0,
            "(p + p).y" => 8.0,
            "(p - a).y + (a - p).y" => 0.0,
            "-p.x + (-p).z" => -4.0,
            "q.x * 100.0f + q.y * 10.0f + q.z" => 323.0,
            "dot(p, a) + length_squared(p)" => 18.0 + 26.0,
            "max(p, 2.5f).x" => 2.5,
            "any(p > 3.5f)" => 1.0,
            "int3(p).y" => 4.0,
            "float(c[1]) + float(c.w)" => 12.0,
            "float(s.x * 10 + s.y)" => 13.0,
            "float(before.x) + float(n.x)" => 5.0,
        ],
        1e-6,
    );
}

#[test]
fn matrices() {
    check(
        "matrices.metal",
        "float2x2 m = float2x2(float2(1, 2), float2(3, 4)); float2 v = float2(5, 6);
         float2x2 n = m; n += m; n *= 3.0f; n -= m; n *= float2x2(2.0f);",
        cases![
            "(m * v).x" => 5.0 + 18.0,
            "(m * v).y" => 10.0 + 24.0,
            "(m * m)[1][0]" => 3.0 + 12.0,
            "transpose(m)[0][1]" => 3.0,
            "(m + m)[1].y" => 8.0,
            "(2.0f * m)[0][1]" => 4.0,
            "float4x4(2.0f)[2][2] + float4x4(2.0f)[2][1]" => 2.0,
            "half2x4(half4(1), half4(2))[1].w" => 2.0,
            "(v * m)[1]" => 5.0 * 3.0 + 6.0 * 4.0,
            "(-m - m)[0].y" => -4.0,
            "float2x3(1, 2, 3, 4, 5, 6)[1].x" => 4.0,
            "(float2x3(1, 2, 3, 4, 5, 6) * v).z" => 15.0 + 36.0,
            "(float2x3(1, 2, 3, 4, 5, 6) * m)[1].z" => 9.0 + 24.0,
            "determinant(m)" => -2.0,
            "determinant(float3x3(2, 0, 1, 1, 3, 2, 1, 1, 4))" => 18.0,
            "determinant(half4x4(float4x4(2, 1, 3, 1, 1, 3, 2, 7, 5, 1, 4, 1, 1, 2, 9, 6)))" => -112.0,
            "m == float2x2(1, 2, 3, 4) && m != transpose(m)" => 1.0,
            "n[0][1] * 100.0f + n[1][1]" => 2040.0,
            "sizeof(float3x3) + sizeof(half2x3)" => 64.0,
        ],
        0.0,
    );
}
