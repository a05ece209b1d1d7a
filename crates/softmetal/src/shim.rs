//! The headers that stand for Metal's library, part of this crate.

/// Source that forwards a kernel's calls to the runtime.
pub(crate) const RUNTIME: &str = include_str!("../shim/softmetal/runtime.cpp");

/// Metal's library has a header per section; here all is in one.
const FORWARD: &str = "#pragma once\n#include <metal_stdlib>\n";

macro_rules! headers {
    (whole: $($whole:literal),*; parts: $($name:literal),* $(,)?) => {
        &[
            $(($whole, FORWARD),)*
            $(($name, include_str!(concat!("../shim/", $name)))),*
        ]
    };
}

/// Headers by the name that kernels include.
#[rustfmt::skip]
pub(crate) const HEADERS: &[(&str, &str)] = headers![
    whole:
    "metal_array", "metal_atomic", "metal_common", "metal_compute", "metal_config",
    "metal_extended_vector", "metal_geometric", "metal_graphics", "metal_integer", "metal_limits",
    "metal_math", "metal_matrix", "metal_numeric", "metal_pack", "metal_packed_vector",
    "metal_quadgroup", "metal_relational", "metal_simdgroup", "metal_simdgroup_matrix",
    "metal_texture", "metal_type_traits", "metal_types", "metal_uniform", "metal_vector";
    parts:
    "metal_stdlib",
    "simd/simd.h",
    "softmetal/absent.h",
    "softmetal/array.h",
    "softmetal/atomic.h",
    "softmetal/common.h",
    "softmetal/elementwise.h",
    "softmetal/geometric.h",
    "softmetal/hooks.h",
    "softmetal/integer.h",
    "softmetal/keywords.h",
    "softmetal/lanes.h",
    "softmetal/limits.h",
    "softmetal/math.h",
    "softmetal/math_parts.h",
    "softmetal/matrix.h",
    "softmetal/pack.h",
    "softmetal/packed.h",
    "softmetal/pipeline.h",
    "softmetal/quadgroup.h",
    "softmetal/relational.h",
    "softmetal/scalar.h",
    "softmetal/simdgroup.h",
    "softmetal/simdgroup_matrix.h",
    "softmetal/swizzle.h",
    "softmetal/synchronization.h",
    "softmetal/type_traits.h",
    "softmetal/vector.h",
];

/// Declarations of Metal's library for the strict parse, in this order.
pub(crate) const STRICT: [&str; 5] = [
    include_str!("../shim/strict/types.h"),
    include_str!("../shim/softmetal/limits.h"),
    include_str!("../shim/strict/traits.h"),
    include_str!("../shim/strict/functions.h"),
    include_str!("../shim/strict/threads.h"),
];
