//! The headers that stand for Metal's library, part of this crate.

/// Source that forwards a kernel's calls to the runtime.
pub(crate) const RUNTIME: &str = include_str!("../shim/softmetal/runtime.cpp");

macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../shim/", $name)))),*]
    };
}

/// Headers by the name that kernels include.
pub(crate) const HEADERS: &[(&str, &str)] = headers![
    "metal_stdlib",
    "metal_atomic",
    "metal_common",
    "metal_compute",
    "metal_geometric",
    "metal_integer",
    "metal_math",
    "metal_matrix",
    "metal_pack",
    "metal_quadgroup",
    "metal_relational",
    "metal_simdgroup",
    "metal_simdgroup_matrix",
    "metal_types",
    "softmetal/atomic.h",
    "softmetal/hooks.h",
    "softmetal/integer.h",
    "softmetal/keywords.h",
    "softmetal/math.h",
    "softmetal/matrix.h",
    "softmetal/packed.h",
    "softmetal/pipeline.h",
    "softmetal/quadgroup.h",
    "softmetal/scalar.h",
    "softmetal/simdgroup.h",
    "softmetal/simdgroup_matrix.h",
    "softmetal/swizzle.h",
    "softmetal/synchronization.h",
    "softmetal/vector.h",
];

/// Declarations of Metal's library for the strict parse, in this order.
pub(crate) const STRICT: [&str; 4] = [
    include_str!("../shim/strict/types.h"),
    include_str!("../shim/strict/traits.h"),
    include_str!("../shim/strict/functions.h"),
    include_str!("../shim/strict/threads.h"),
];
