//! What the device does not have, and what Metal does not allow: none of it compiles, and the message names it.

use minfer_softmetal::Mode;

use crate::run::{device, library};

/// What the compiler says of a kernel with these statements after these declarations.
fn message(declarations: &str, statements: &str) -> String {
    let text = format!(
        "#include <metal_stdlib>\nusing namespace metal;\n{declarations}\n\
         kernel void k(device float4* y [[buffer(0)]], device atomic_ulong* wide [[buffer(1)]],\n\
         device atomic_float* atomic [[buffer(2)]]) {{\n float4 v = y[0]; half4 h; bfloat b = 1;\n{statements}\n}}\n"
    );
    let rejected = library(&device(Mode::Unchecked), "absent.metal", &text);
    rejected
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn what_the_device_does_not_have_is_named() {
    let cases = [
        (
            "float f(texture2d<float, access::read> t);",
            "",
            "'texture2d<float, metal::access::read>' is unavailable: the software device has no textures",
        ),
        (
            "constexpr sampler s(filter::linear);",
            "",
            "'sampler' is unavailable: the software device has no samplers",
        ),
        (
            "void f(raytracing::ray r);",
            "",
            "'ray' is unavailable: the software device has no ray tracing",
        ),
        (
            "void f(visible_function_table<void()> t);",
            "",
            "the software device has no visible functions",
        ),
        (
            "void f(command_buffer c);",
            "",
            "the software device has no indirect command buffers",
        ),
        (
            "void f(simdgroup_event e);",
            "",
            "the software device has no asynchronous copies",
        ),
        (
            "",
            "printf(\"%d\", 1);",
            "'printf' is unavailable: the software device has no log",
        ),
        (
            "",
            "os_log_default.log(\"%d\", 1);",
            "'os_log_default' is unavailable: the software device has no log",
        ),
        (
            "struct A { device float* p [[id(0)]]; };",
            "",
            "[[id]]: the software device has no argument buffers",
        ),
    ];
    for (declarations, statements, expected) in cases {
        let found = message(declarations, statements);
        assert!(found.contains(expected), "{expected}\n{found}");
    }
}

#[test]
fn what_metal_does_not_allow_is_refused() {
    let cases = [
        (
            "v.xx = float2(1);",
            "cannot find suitable setter for property 'xx'",
        ),
        ("v = float4(1.0f, 2.0f);", "no matching constructor"),
        ("v = float4(v.xyz, 1, 2);", "no matching constructor"),
        ("double d = 1;", "Metal has no double"),
        ("v = v + h;", "invalid operands"),
        ("v = h;", "no viable overloaded '='"),
        ("v = v % v;", "invalid operands"),
        (
            "v.x = max(v.x, 1);",
            "no matching function for call to 'max'",
        ),
        (
            "v.x = exp(b);",
            "'exp<__bf16, void>' is unavailable: bfloat has no functions: convert to float",
        ),
        ("v.x = max(b, b);", "no matching function for call to 'max'"),
        (
            "v.x = simd_sum(b);",
            "lanes exchange integers of 8 to 32 bits",
        ),
        (
            "v.x = simd_shuffle(1ul, 1);",
            "lanes exchange integers of 8 to 32 bits",
        ),
        (
            "simdgroup_matrix<int, 8, 8> m;",
            "are of float, half or bfloat",
        ),
        (
            "simdgroup_matrix<float, 16, 16> m;",
            "implicit instantiation of undefined template",
        ),
        (
            "atomic_fetch_add_explicit(wide, 1ul, memory_order_relaxed);",
            "this type has no such atomic operation",
        ),
        (
            "atomic_fetch_max_explicit(atomic, 1.0f, memory_order_relaxed);",
            "this type has no such atomic operation",
        ),
        (
            "atomic_store_explicit(atomic, 1.0f, memory_order_release);",
            "atomic operations are relaxed",
        ),
        (
            "v.x = as_type<float>(1ul);",
            "as_type needs types of one size",
        ),
    ];
    for (statements, expected) in cases {
        let found = message("", statements);
        assert!(
            found.contains(expected),
            "{statements}: {expected}\n{found}"
        );
    }
    assert_eq!(message("", ""), "");
}
