//! Pointers and references in the wrong address space, each with its corrected twin.

use std::path::Path;

use minfer_softmetal::lint::parse_address_spaces;

use crate::library;

/// A source, with `@` where the fault is.
struct Case {
    name: &'static str,
    source: &'static str,
    /// What stands for `@`: in the broken source, and in the correct one.
    fault: [&'static str; 2],
    /// Line and column of the message, and its start.
    place: (u32, u32),
    message: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "threadgroup pointer from a device pointer",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4];\n    threadgroup float* p = @;\n}",
        fault: ["y", "tile"],
        place: (3, 24),
        message: "cannot initialize a variable of type 'threadgroup float *' with an lvalue of type 'device float *'",
    },
    Case {
        name: "thread pointer from a device pointer",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    float tile[4];\n    thread float* p = @;\n}",
        fault: ["y", "tile"],
        place: (3, 19),
        message: "cannot initialize a variable of type 'thread float *' with an lvalue of type 'device float *'",
    },
    Case {
        name: "device pointer from a constant pointer",
        source: "kernel void k(@ float* y [[buffer(0)]]) {\n    device const float* p;\n    p = y;\n}",
        fault: ["constant", "device"],
        place: (3, 9),
        message: "assigning 'const constant float *' to 'const device float *' changes address space of pointer",
    },
    Case {
        name: "argument of a function",
        source: "void f(device float* y) {}\nkernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4];\n    f(@);\n}",
        fault: ["tile", "y"],
        place: (4, 5),
        message: "no matching function for call to 'f': candidate function not viable: ",
    },
    Case {
        name: "argument bound to a reference",
        source: "void f(thread float& y) {}\nkernel void k(device float* y [[buffer(0)]]) {\n    float own = 0.0f;\n    f(@);\n}",
        fault: ["y[0]", "own"],
        place: (4, 5),
        message: "no matching function for call to 'f'",
    },
    Case {
        name: "reference to memory of another space",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    @ float& first = y[0];\n    first = 1.0f;\n}",
        fault: ["threadgroup", "device"],
        place: (2, 24),
        message: "binding reference of type 'threadgroup float' to value of type 'device float' changes address space",
    },
    Case {
        name: "cast between spaces",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    auto p = (@ half*)y;\n}",
        fault: ["threadgroup", "device"],
        place: (2, 14),
        message: "C-style cast from 'device float *' to 'threadgroup half *' converts between mismatching address spaces",
    },
    Case {
        name: "result of a function",
        source: "device float* f(device float* y, threadgroup float* tile) {\n    return @;\n}",
        fault: ["tile", "y"],
        place: (2, 12),
        message: "cannot initialize return object of type 'device float *' with an lvalue of type 'threadgroup float *'",
    },
    Case {
        name: "body of an instantiated kernel template",
        source: "template <typename T>\nkernel void k(device T* y [[buffer(0)]]) {\n    threadgroup T tile[4];\n    \
                 device T* p = @;\n}\ntemplate [[host_name(\"k_half\")]] kernel void k<half>(device half*);",
        fault: ["tile", "y"],
        place: (4, 15),
        message: "cannot initialize a variable of type 'device half *' with an lvalue of type",
    },
    Case {
        name: "body of a kernel template instantiated through a type",
        source: "template <typename T>\nkernel void k(device T* y [[buffer(0)]]) {\n    T own;\n    thread T* p = @;\n}\n\
                 typedef decltype(k<float>) kernel_t;\ntemplate [[host_name(\"k\")]] kernel kernel_t k<float>;",
        fault: ["y", "&own"],
        place: (4, 15),
        message: "cannot initialize a variable of type 'thread float *' with an lvalue of type 'device float *'",
    },
    Case {
        name: "body of a function template that a kernel calls",
        source: "template <typename T> void f(T from) {\n    device float* p = from;\n}\n\
                 kernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4];\n    f(@);\n}",
        fault: ["&tile[0]", "y"],
        place: (2, 19),
        message: "cannot initialize a variable of type 'device float *' with an lvalue of type 'threadgroup float *'",
    },
    Case {
        name: "method of a functor",
        source: "struct Op {\n    static float at(device const float* x) { return *x; }\n};\ntemplate <typename F>\n\
                 kernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4];\n    y[0] = F::at(@);\n}\n\
                 template [[host_name(\"k\")]] kernel void k<Op>(device float*);",
        fault: ["tile", "y"],
        place: (7, 18),
        message: "cannot initialize a parameter of type 'const device float *' with an lvalue of type",
    },
    Case {
        name: "member of a struct",
        source: "struct Rows {\n    device float* first;\n};\nkernel void k(device float* y [[buffer(0)]]) {\n    \
                 threadgroup float tile[4];\n    Rows rows;\n    rows.first = @;\n}",
        fault: ["tile", "y"],
        place: (7, 18),
        message: "assigning",
    },
    Case {
        name: "memory of a simdgroup matrix",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    simdgroup_float8x8 m;\n    float own[64];\n    \
                 simdgroup_load(m, @, 8);\n}",
        fault: ["own", "y"],
        place: (4, 5),
        message: "no matching function for call to 'simdgroup_load'",
    },
    Case {
        name: "object of an atomic operation",
        source: "kernel void k(device atomic_uint* y [[buffer(0)]], constant atomic_uint& z [[buffer(1)]]) {\n    \
                 atomic_fetch_add_explicit(@, 1u, memory_order_relaxed);\n}",
        fault: ["&z", "y"],
        place: (2, 5),
        message: "no matching function for call to 'atomic_fetch_add_explicit'",
    },
    Case {
        name: "a write to constant memory",
        source: "struct Args { uint n; };\nkernel void k(@ Args& args [[buffer(0)]]) {\n    args.n = 1;\n}",
        fault: ["constant", "device"],
        place: (3, 12),
        message: "cannot assign to variable 'args' with const-qualified type",
    },
    Case {
        name: "a macro",
        source: "#define FIRST(p) (&(p)[0])\nkernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4];\n    \
                 device float* p = FIRST(@);\n}",
        fault: ["tile", "y"],
        place: (4, 19),
        message: "cannot initialize a variable of type 'device float *' with an rvalue of type 'threadgroup float *'",
    },
    Case {
        name: "behind constructors and casts of vectors",
        source: "kernel void k(device float* y [[buffer(0)]]) {\n    threadgroup float tile[4]; float4 v = \
                 metal::float4((half4)float4(1.0f), vec<float, 4>(0.5h).xyz.xy)  ; device float* p = @;\n}",
        fault: ["tile", "y"],
        place: (2, 123),
        message: "cannot initialize a variable of type 'device float *' with an lvalue of type",
    },
];

fn messages(text: &str) -> Vec<String> {
    let text = format!(
        "#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"case.metal\"\n{text}\n"
    );
    let found = parse_address_spaces(&library(&text), Path::new("clang-19")).unwrap();
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn every_fault_is_found_where_it_is_and_its_twin_passes() {
    let mut wrong = Vec::new();
    for case in CASES {
        let [broken, correct] = case
            .fault
            .map(|fault| messages(&case.source.replace('@', fault)));
        let (line, column) = case.place;
        let expected = format!(
            "case.metal:{line}:{column}: address-spaces: {}",
            case.message
        );
        if broken.len() != 1 || !broken[0].starts_with(&expected) {
            wrong.push(format!(
                "{}: expected {expected}, found {broken:#?}",
                case.name
            ));
        }
        if !correct.is_empty() {
            wrong.push(format!(
                "{}: the twin is not silent: {correct:#?}",
                case.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn values_are_copied_between_spaces() {
    let found = messages(
        "struct Args { uint n; float4 v; packed_float3 p; float4x4 m; };
kernel void k(constant Args& args [[buffer(0)]], device Args* y [[buffer(1)]]) {
    threadgroup Args shared[2];
    Args own = args;
    own = y[0];
    shared[0] = own;
    y[0] = shared[1];
    y[0].v.xy = shared[0].v.zw * float2(own.n, args.n);
    y[0].m = args.m;
    y[0].p = args.p * 2.0f;
}",
    );
    assert_eq!(found, [""; 0]);
}

#[test]
fn members_and_temporaries_are_a_threads() {
    let text = |target: &str| {
        format!(
            "void clear({target} float* x) {{ x[0] = 0.0f; }}
void add(const thread int& x, thread float& y) {{ y += float(x); }}
struct Tile {{
    float own[4];
    simdgroup_float8x8 sums[2];
    void run(threadgroup float* from, short n) {{
        clear(own);
        add(n, own[1]);
        simdgroup_load(sums[0], from, 8);
        simdgroup_multiply_accumulate(sums[1], sums[0], sums[0], sums[1]);
        thread const auto& elements = sums[1].thread_elements();
        sums[0].thread_elements()[1] = elements[0];
    }}
}};"
        )
    };
    assert_eq!(messages(&text("thread")), [""; 0]);
    let found = messages(&text("device"));
    let expected = "case.metal:7:9: address-spaces: no matching function for call to 'clear'";
    assert!(
        found.len() == 1 && found[0].starts_with(expected),
        "{found:#?}"
    );
}

#[test]
fn what_the_parser_does_not_know_is_told() {
    assert_eq!(
        messages("void f() { frobnicate(1); }"),
        ["case.metal:1:12: address-spaces: use of undeclared identifier 'frobnicate'"]
    );
    assert_eq!(
        messages("kernel int k() {}"),
        ["case.metal:1:0: syntax: expected `void`, found `int`"]
    );
}

#[test]
fn literals_of_every_type_are_read() {
    let found = messages(
        "constant bfloat a = 1.5bf + 0x1p-2BF + 1e-3bf + 2bf + bfloat(2.0h + 1.0H); constant int b = 0x3bf;",
    );
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_compiler_that_fails_without_a_message_is_an_error() {
    let error = parse_address_spaces(&library(""), Path::new("false")).unwrap_err();
    assert!(error.to_string().starts_with("`false` failed"), "{error}");
}

#[test]
fn a_compiler_that_is_not_there_is_named() {
    let error = parse_address_spaces(&library(""), Path::new("no-such-clang")).unwrap_err();
    assert!(error.to_string().starts_with("cannot run `no-such-clang`"));
}
