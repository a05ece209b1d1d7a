//! Pointers and references.

use super::Case;

const NONE: &str = "without an address space";

pub const CASES: &[Case] = &[
    Case {
        rule: "address-space",
        source: "float f(@ float* x) { return x[0]; }",
        fault: ["const", "device const"],
        place: (1, 20),
        message: "pointer to `const float` without an address space",
    },
    Case {
        rule: "address-space",
        source: "void f(uint a, uint b) {\n    uint c = a * b;\n    @uint& d = c;\n    d = a & 1 ? b * 2 : a;\n}",
        fault: ["", "thread "],
        place: (3, 9),
        message: "reference to `uint` without an address space",
    },
    Case {
        rule: "address-space",
        source: "struct Rows {\n    @ packed_float3* first;\n};",
        fault: ["const", "device"],
        place: (2, 24),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "float f(device uchar* x) { return *(@float*)x; }",
        fault: ["", "device "],
        place: (1, 42),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "using rows = @float*;",
        fault: ["", "device "],
        place: (1, 19),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "struct Row { float x; };\ntypedef @Row* rows;",
        fault: ["", "threadgroup "],
        place: (2, 12),
        message: "pointer to `Row`",
    },
    Case {
        rule: "address-space",
        source: "template <typename T> struct box {};\ntypedef box<@vec<float, 4>*> boxed;",
        fault: ["", "device "],
        place: (2, 26),
        message: "pointer to `vec<float , 4>`",
    },
    Case {
        rule: "address-space",
        source: "template <typename T> T f(@T* x) { return *x; }",
        fault: ["", "device "],
        place: (1, 28),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "void f(device float* x, uint n) {\n    for (uint i = 0; i < n; i++) {\n        @auto& y = x[i];\n        y *= 2;\n    }\n}",
        fault: ["", "device "],
        place: (3, 13),
        message: "reference to `auto`",
    },
    Case {
        rule: "address-space",
        source: "void f(device float* @* x) {}",
        fault: ["", "thread"],
        place: (1, 22),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "float f(@float (&x)[4]) { return x[0] * float(*&x[1]); }",
        fault: ["", "threadgroup "],
        place: (1, 15),
        message: NONE,
    },
    Case {
        rule: "address-space",
        source: "struct A { struct B { float x; }; };\nfloat f(@A::B& b) { return b.x; }",
        fault: ["", "thread "],
        place: (2, 13),
        message: "reference to `A::B`",
    },
    Case {
        rule: "address-space",
        source: "#define POINTER(name) @float* name\nvoid f(POINTER(x)) { x[0] = 1; }",
        fault: ["", "device "],
        place: (1, 28),
        message: NONE,
    },
    Case {
        rule: "function-pointer",
        source: "float one(float x) { return x; }\nstruct One { static float at(float x) { return x; } };\n\
                 template <@> float f(float x) { return x; }",
        fault: ["float (*F)(float)", "typename F"],
        place: (3, 17),
        message: "kernels have no function pointers",
    },
    Case {
        rule: "function-pointer",
        source: "float f(float x) {\n    @\n    return x;\n}",
        fault: ["float (*g)(float);", "float g = float(x);"],
        place: (2, 11),
        message: "kernels have no function pointers",
    },
    Case {
        rule: "member-pointer",
        source: "struct A { float x; };\nvoid f() {\n    float @x;\n}",
        fault: ["A::*", ""],
        place: (3, 14),
        message: "Metal has no pointers to members",
    },
];
