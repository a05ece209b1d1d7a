//! Parameters of kernels.

use super::Case;

pub const CASES: &[Case] = &[
    Case {
        rule: "parameter-attribute",
        source: "kernel void k(device float* y@) {}",
        fault: ["", " [[buffer(0)]]"],
        place: (1, 15),
        message: "parameter `y` has 0 attributes and needs one",
    },
    Case {
        rule: "parameter-attribute",
        source: "kernel void k(device float* y [[buffer(0)]]@) {}",
        fault: [" [[threadgroup(0)]]", ""],
        place: (1, 15),
        message: "has 2 attributes",
    },
    Case {
        rule: "parameter-attribute",
        source: "kernel void k(uint i [[@]]) {}",
        fault: ["thread_position", "thread_position_in_grid"],
        place: (1, 24),
        message: "`thread_position` is no attribute",
    },
    Case {
        rule: "parameter-space",
        source: "kernel void k(device float* y [[buffer(0)]], @ float* t [[threadgroup(0)]]) {}",
        fault: ["device", "threadgroup"],
        place: (1, 46),
        message: "`t` needs a pointer or reference to threadgroup",
    },
    Case {
        rule: "parameter-space",
        source: "kernel void k(@ float& y [[buffer(0)]]) {}",
        fault: ["threadgroup", "constant"],
        place: (1, 15),
        message: "`y` needs a pointer or reference to device or constant",
    },
    Case {
        rule: "parameter-space",
        source: "kernel void k(constant float@ y [[buffer(0)]]) {}",
        fault: ["", "&"],
        place: (1, 15),
        message: "`y` needs a pointer or reference",
    },
    Case {
        rule: "parameter-space",
        source: "kernel void k(@ i [[thread_position_in_grid]]) {}",
        fault: ["thread uint&", "uint"],
        place: (1, 15),
        message: "is a value and has no address space",
    },
    Case {
        rule: "attribute-type",
        source: "kernel void k(@ i [[thread_position_in_grid]]) {}",
        fault: ["int2", "uint2"],
        place: (1, 15),
        message: "`thread_position_in_grid` is a ushort or uint, or a vector of two or three of them, not `int2`",
    },
    Case {
        rule: "attribute-type",
        source: "kernel void k(const @ lane [[thread_index_in_simdgroup]]) {}",
        fault: ["uint2", "ushort"],
        place: (1, 15),
        message: "`thread_index_in_simdgroup` is a ushort or uint, not `uint2`",
    },
    Case {
        rule: "attribute-type",
        source: "kernel void k(@ n [[simdgroups_per_threadgroup]]) {}",
        fault: ["ulong", "uint"],
        place: (1, 15),
        message: "not `ulong`",
    },
    Case {
        rule: "attribute-agreement",
        source: "kernel void k(uint3 group [[threadgroup_position_in_grid]], @ threads [[threads_per_threadgroup]],\n              \
                 ushort lane [[thread_index_in_simdgroup]]) {}",
        fault: ["uint", "ushort3"],
        place: (1, 61),
        message: "`threads` is a scalar and `group` has 3 components",
    },
    Case {
        rule: "attribute-agreement",
        source: "kernel void k(uint2 i [[thread_position_in_grid]], @ n [[threads_per_grid]]) {}",
        fault: ["uint3", "uint2"],
        place: (1, 52),
        message: "`n` has 3 components and `i` has 2 components",
    },
    Case {
        rule: "buffer-index",
        source: "kernel void k(device float* y [[buffer(0)]], device float* x [[buffer(@)]]) {}",
        fault: ["0", "1"],
        place: (1, 64),
        message: "`x` has buffer index 0, which `y` has already",
    },
    Case {
        rule: "buffer-index",
        source: "#define FIRST 1\n#define SECOND (FIRST + 1)\n\
                 kernel void k(device float* y [[buffer(2)]], device float* x [[buffer(@)]]) {}",
        fault: ["SECOND", "FIRST"],
        place: (3, 64),
        message: "`x` has buffer index 2, which `y` has already",
    },
    Case {
        rule: "buffer-index",
        source: "kernel void k(device float* y [[buffer(@)]]) {}",
        fault: ["31", "30"],
        place: (1, 33),
        message: "buffer index 31 is over 30",
    },
    Case {
        rule: "threadgroup-index",
        source: "kernel void k(threadgroup float* a [[threadgroup(1)]], threadgroup float* b [[threadgroup(@)]]) {}",
        fault: ["1", "0"],
        place: (1, 79),
        message: "`b` has threadgroup index 1, which `a` has already",
    },
    Case {
        rule: "kernel-result",
        source: "kernel @ k() {}",
        fault: ["int", "void"],
        place: (1, 12),
        message: "kernel `k` must be a function at program scope that returns void",
    },
];
