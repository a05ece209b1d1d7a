//! Writes the C++ translation.

use std::fmt::Write;

use super::declarations::{Kernel, Slot, Unit};
use super::edits::Edited;
use crate::module::abi;

/// Attributes of kernel parameters that carry no argument, in the order of `softmetal::builtin`.
pub(super) const BUILTINS: [&str; abi::BUILTINS] = [
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "simdgroup_index_in_threadgroup",
    "threadgroup_position_in_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
    "threadgroups_per_grid",
    "threads_per_simdgroup",
    "simdgroups_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "thread_execution_width",
    "quadgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
];

/// What stands between a source and its tables. Entry points read the runtime's memory, which is not the
/// kernel's business: they are not instrumented.
const PROLOGUE: &str = "
#line 1 \"softmetal/entry-points\"
#include <metal_stdlib>
#pragma clang attribute push(__attribute__((no_sanitize(\"thread\"))), apply_to = function)
#include <softmetal/pipeline.h>
";

/// The source with its edits, and after it the tables that the runtime reads.
pub(super) fn emit(source: &str, unit: &Unit<'_>) -> String {
    let mut out = Edited::new(source, &unit.edits).text;
    out.push_str(PROLOGUE);
    let mut table = Vec::new();
    for kernel in &unit.kernels {
        for (host_name, function) in names(unit, kernel) {
            entry(&mut out, table.len(), kernel, &function);
            let max = kernel.max_threads.unwrap_or("0");
            table.push(format!(
                "{{{host_name}, softmetal_run_{n}, softmetal_parameters_{n}.of, {}, {max}}}",
                kernel.parameters.len(),
                n = table.len(),
            ));
        }
    }
    constants(&mut out, unit);
    let kernels = table.join(",\n    ");
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "static const softmetal::kernel_entry softmetal_kernels[] = {{\n    {kernels}\n}};\n\
         extern \"C\" const softmetal::module_table softmetal_module = {{softmetal_kernels, \
         softmetal_constants, softmetal_derived, {}, {}, {}, softmetal_derive}};\n#pragma clang attribute pop\n",
        table.len(),
        unit.constants.len(),
        unit.derived.len(),
    );
    out
}

/// Host names of a kernel as string literals, with the C++ names of their functions.
fn names(unit: &Unit<'_>, kernel: &Kernel<'_>) -> Vec<(String, String)> {
    if !kernel.is_template {
        let host_name = kernel
            .host_name
            .map_or_else(|| literal(kernel.name), str::to_owned);
        return vec![(host_name, kernel.name.to_owned())];
    }
    let instances = unit
        .instances
        .iter()
        .filter(|instance| instance.template == kernel.name);
    instances
        .map(|instance| {
            let function = format!("{}<{}>", kernel.name, instance.arguments);
            (instance.host_name.to_owned(), function)
        })
        .collect()
}

fn entry(out: &mut String, n: usize, kernel: &Kernel<'_>, function: &str) {
    let slots: Vec<_> = kernel
        .parameters
        .iter()
        .map(|parameter| slot(&parameter.slot))
        .collect();
    let slots = slots.join(", ");
    let names: Vec<_> = kernel
        .parameters
        .iter()
        .map(|parameter| match parameter.condition {
            None => literal(parameter.name),
            Some(condition) => format!(
                "softmetal::named({}, []() -> bool {{ return {condition}; }})",
                literal(parameter.name)
            ),
        })
        .collect();
    let names = names.join(", ");
    let _ = write!(
        out,
        "static void softmetal_run_{n}(const softmetal::frame* f) {{ \
         softmetal::entry<&{function}>::run<{slots}>(*f); }}\n\
         static constexpr softmetal::entry<&{function}>::table<{slots}> softmetal_parameters_{n}{{{names}}};\n",
    );
}

/// A name as a C++ string. Names have no character that would need an escape.
fn literal(name: &str) -> String {
    format!("\"{name}\"")
}

fn slot(slot: &Slot<'_>) -> String {
    match slot {
        Slot::Buffer(index) => format!("softmetal::slot<softmetal::kind::buffer, {index}>"),
        Slot::Threadgroup(index) => {
            format!("softmetal::slot<softmetal::kind::threadgroup_memory, {index}>")
        }
        Slot::Builtin(name) => {
            format!("softmetal::slot<softmetal::kind::builtin, uint(softmetal::builtin::{name})>")
        }
    }
}

fn constants(out: &mut String, unit: &Unit<'_>) {
    let _ = writeln!(
        out,
        "static const softmetal::function_constant softmetal_constants[] = {{"
    );
    for constant in &unit.constants {
        let (name, index, optional) = (constant.name, constant.index, u8::from(constant.optional));
        let _ = writeln!(
            out,
            "    {{\"{name}\", {index}, sizeof({name}), {optional}, []() -> void* {{ return &{name}; }}, \
             []() -> bool* {{ return &softmetal_defined_{name}; }}}},",
        );
    }
    // An array needs an element.
    let _ = writeln!(
        out,
        "    {{}}}};\nstatic const softmetal::derived_constant softmetal_derived[] = {{"
    );
    for derived in &unit.derived {
        let (name, depends_on) = (derived.name, derived.depends_on.join(" "));
        let _ = writeln!(
            out,
            "    {{\"{name}\", \"{depends_on}\", sizeof({name}), []() -> void* {{ return &{name}; }}}},",
        );
    }
    let _ = writeln!(out, "    {{}}}};\nstatic void softmetal_derive() {{");
    for derived in &unit.derived {
        let _ = writeln!(out, "    {} = {};", derived.name, derived.value.trim());
    }
    out.push_str("}\n");
}
