//! Translations of small sources.

use minfer_metal::device::{LibrarySource, SourceFile};

use super::scan::Dialect;
use super::{FrontError, translate};

fn translated(text: &str) -> Result<String, FrontError> {
    let file = SourceFile {
        name: "test.metal",
        text,
    };
    translate(&LibrarySource::new(file, &[]).unwrap())
}

/// The part of a translation that was the source.
fn body(text: &str) -> String {
    let all = translated(text).unwrap();
    let end = all.find("\n\n#line 1 \"softmetal").unwrap();
    all["#line 1 \"test.metal\"\n".len()..end].to_owned()
}

fn error(text: &str) -> String {
    translated(text).unwrap_err().to_string()
}

#[test]
fn what_is_c_plus_plus_already_stays() {
    let text = "float f(thread float4& x) { return a[b[i]] < c[0] ? x.y : 'x'; } // kernel";
    assert_eq!(body(text), text);
}

#[test]
fn kernels_get_an_entry_with_a_slot_per_parameter() {
    let text = "[[max_total_threads_per_threadgroup(64)]] kernel void k(
    constant Args& args [[buffer(0)]], device vec<float, 4>* y [[buffer(N + 1)]],
    threadgroup float (&s)[4] [[threadgroup(0)]], uint3 p [[thread_position_in_grid]]) {}";
    let all = translated(text).unwrap();
    let slots = "softmetal::slot<softmetal::kind::buffer, 0>, softmetal::slot<softmetal::kind::buffer, N + 1>, \
                 softmetal::slot<softmetal::kind::threadgroup_memory, 0>, \
                 softmetal::slot<softmetal::kind::builtin, uint(softmetal::builtin::thread_position_in_grid)>";
    assert!(all.contains(&format!("softmetal::entry<&k>::run<{slots}>(*f)")));
    assert!(all.contains("softmetal_parameters_0{\"args\", \"y\", \"s\", \"p\"}"));
    assert!(all.contains("{\"k\", softmetal_run_0, softmetal_parameters_0.of, 4, 64}"));
}

#[test]
fn instances_of_a_template_take_its_parameters_and_leave_the_source() {
    let text = "template <typename T> kernel void k(device T* y [[buffer(0)]]) {}
template [[host_name(\"k_half\")]] kernel void k<half>(
    device half*);
typedef decltype(k<float>) k_t;
template [[host_name(\"k_float\")]] [[kernel]] k_t k<float>;
int after;";
    let kept = body(text);
    let lines: Vec<_> = kept.lines().collect();
    assert_eq!(
        lines[1..],
        ["", "", "typedef decltype(k<float>) k_t;", "", "int after;"]
    );
    let all = translated(text).unwrap();
    for (n, name, function) in [(0, "k_half", "k<half>"), (1, "k_float", "k<float>")] {
        assert!(
            all.contains(&format!("{{\"{name}\", softmetal_run_{n},")),
            "{all}"
        );
        assert!(
            all.contains(&format!("softmetal::entry<&{function}>::table")),
            "{all}"
        );
    }
}

#[test]
fn threadgroup_variables_become_references_and_pointers_stay() {
    let declared = |ty: &str, name: &str, dimensions: &str| {
        super::scan::variable(Dialect::Cpp, ty, name, dimensions)
    };
    let text = "kernel void k() {\n    threadgroup float a[N][2], b;\n    threadgroup vec<half, 4> c[4];\n    \
                threadgroup float* p = a;\n}";
    let expected = format!(
        "kernel void k() {{\n    {}; {};\n    {};\n    threadgroup float* p = a;\n}}",
        declared("float", "a", "[N][2]"),
        declared("float", "b", ""),
        declared("vec<half, 4>", "c", "[4]"),
    );
    assert_eq!(body(text), expected);
}

#[test]
fn function_constants_and_what_depends_on_them_are_set_per_dispatch() {
    let text = "constant bool on [[function_constant(3)]];\nconstant int twice = on ? 2 : 1;\n\
                constant float plain = 1.0f;\nconstant float table[2] = {1, 2};";
    let kept = body(text);
    let lines: Vec<_> = kept.lines().collect();
    assert_eq!(
        lines[0],
        "static thread_local bool on; static thread_local bool softmetal_defined_on;"
    );
    assert_eq!(lines[1], "static thread_local int twice ;");
    assert_eq!(
        lines[2..],
        [
            "constant float plain = 1.0f;",
            "constant float table[2] = {1, 2};"
        ]
    );
    let all = translated(text).unwrap();
    assert!(all.contains("{\"on\", 3, sizeof(on), 0,"));
    assert!(all.contains("{\"twice\", \"on\", sizeof(twice),"));
    assert!(all.contains("static void softmetal_derive() {\n    twice = on ? 2 : 1;\n}"));
}

#[test]
fn a_constant_that_the_source_asks_for_is_optional() {
    let text = "constant int a [[function_constant(0)]];\nint b = is_function_constant_defined(a) ? a : 1;";
    assert!(
        translated(text)
            .unwrap()
            .contains("{\"a\", 0, sizeof(a), 1,")
    );
}

#[test]
fn suffixes_that_c_plus_plus_does_not_allow_are_replaced() {
    let text = "bfloat a = 1.5bf + 1.0e-5BF, b = 2bf; half c = 0x1.8p3H; int d = 0x3bf; char e = 'H';\n\
                #define TINY 0x1p-126bf\n#error isn't a literal bf\n";
    let expected = "bfloat a = 1.5_b + 1.0e-5_b, b = 2_b; half c = 0x1.8p3h; int d = 0x3bf; char e = 'H';\n\
                    #define TINY 0x1p-126_b\n#error isn't a literal bf";
    assert_eq!(body(text), expected);
}

#[test]
fn a_parameter_may_depend_on_a_function_constant() {
    let text = "constant bool on [[function_constant(0)]];
kernel void k(device float* y [[buffer(0)]], device float* z [[buffer(1), function_constant(on)]]) {}";
    let condition = "softmetal::named(\"z\", []() -> bool { return on; })";
    assert!(
        translated(text)
            .unwrap()
            .contains(&format!("softmetal_parameters_0{{\"y\", {condition}}}"))
    );
}

#[test]
fn an_instance_may_name_the_type_of_its_template() {
    let text = "template <typename T> kernel void k(device T* y [[buffer(0)]]) {}
template [[host_name(\"k_half\")]] kernel decltype(k<half>) k<half>;";
    assert!(
        translated(text)
            .unwrap()
            .contains("softmetal::entry<&k<half>>::table")
    );
}

#[test]
fn what_is_not_understood_is_an_error_with_its_place() {
    let cases = [
        (
            "\n#define K(n) kernel void n()\nK(a);",
            "2: a macro that declares a kernel is not supported: write the kernel out",
        ),
        (
            "kernel void k(device float* y) {}",
            "1: parameter `y` needs one attribute, such as [[buffer(0)]]",
        ),
        (
            "kernel void k(uint i [[thread_position]]) {}",
            "1: parameter `i`: unknown attribute `thread_position`",
        ),
        (
            "kernel void k(float* y [[buffer(0)]]) {}",
            "1: parameter `y`: needs a pointer or reference to device or constant",
        ),
        (
            "kernel void k(device float y [[buffer(0)]]) {}",
            "1: parameter `y`: needs a pointer or reference to device or constant",
        ),
        (
            "kernel void k(device float* y [[threadgroup(0)]]) {}",
            "1: parameter `y`: needs a pointer or reference to threadgroup",
        ),
        (
            "kernel void k(thread uint& i [[thread_position_in_grid]]) {}",
            "1: parameter `i`: this attribute needs a value, no pointer",
        ),
        ("kernel int k() {}", "1: expected `void`, found `int`"),
        ("kernel void k(", "2: the source ends too early"),
        (
            "template kernel void k<float>();",
            "1: an instantiated kernel needs [[host_name(\"...\")]]",
        ),
        (
            "void f() {\nthreadgroup float a = 1; }",
            "2: threadgroup variable `a` cannot be initialized",
        ),
        (
            "struct A { device float* p [[id(0)]]; };",
            "1: [[id]]: the software device has no argument buffers",
        ),
        (
            "kernel void k(texture2d<float> t [[texture(0)]]) {}",
            "1: parameter `t`: [[texture]]: the software device has no textures",
        ),
        (
            "kernel void k(device int* p [[host_name(\"p\")]]) {}",
            "1: parameter `p`: [[host_name]] does not belong here",
        ),
        (
            "\n[[clang::noinline]] void f();\n[[unheard_of(1)]] void g();",
            "3: unknown attribute `unheard_of`",
        ),
        ("/* open", "1: comment without an end"),
        ("/*/", "1: comment without an end"),
        ("char c = 'x", "1: literal without an end"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), format!("test.metal:{expected}"));
    }
}
