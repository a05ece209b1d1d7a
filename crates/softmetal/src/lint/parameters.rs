//! Parameters of kernels (Metal Shading Language specification, sections 5.2.1 and 5.2.3.6).

use super::finding::LintFinding;
use super::signature::{Attribute, Parameter, integer, parameters};
use super::text::{Text, is_at};

/// Values of up to three components: where a thread is, and how many there are.
const VECTORS: [&str; 9] = [
    "thread_position_in_grid",
    "thread_position_in_threadgroup",
    "threadgroup_position_in_grid",
    "threads_per_grid",
    "threads_per_threadgroup",
    "threadgroups_per_grid",
    "dispatch_threads_per_threadgroup",
    "grid_origin",
    "grid_size",
];

/// Values of one component.
const SCALARS: [&str; 11] = [
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "thread_index_in_quadgroup",
    "simdgroup_index_in_threadgroup",
    "quadgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "quadgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "dispatch_quadgroups_per_threadgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
];

const MAX_INDEX: u64 = 30;

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    for (declaration, function) in text.functions() {
        if !function.is_kernel || function.body.is_none() {
            continue;
        }
        let result = function.at.checked_sub(1);
        if declaration.owner.is_some() || !is_at(&text.tokens, result, "void") {
            found.push(text.finding(
                text.tokens[function.at].start,
                "kernel-result",
                format!(
                    "kernel `{}` must be a function at program scope that returns void",
                    function.name
                ),
            ));
        }
        let parameters = parameters(text, function.parameters.clone());
        for parameter in &parameters {
            check_parameter(text, parameter, found);
        }
        agreement(text, &parameters, found);
        for kind in ["buffer", "threadgroup"] {
            indices(text, &parameters, kind, found);
        }
    }
}

fn check_parameter(text: &Text<'_>, parameter: &Parameter<'_>, found: &mut Vec<LintFinding>) {
    let name = parameter.name;
    let mut add = |start, rule, message| found.push(text.finding(start, rule, message));
    let [attribute] = parameter.attributes.as_slice() else {
        let count = parameter.attributes.len();
        return add(
            parameter.start,
            "parameter-attribute",
            format!(
                "parameter `{name}` has {count} attributes and needs one, such as [[buffer(0)]]: an index that the \
                 compiler chooses changes with the order of parameters"
            ),
        );
    };
    match (attribute.name, &attribute.argument) {
        ("buffer", Some(_)) => space(text, parameter, &["device", "constant"], found),
        ("threadgroup", Some(_)) => space(text, parameter, &["threadgroup"], found),
        (name, None) if VECTORS.contains(&name) => value(text, parameter, attribute, 3, found),
        (name, None) if SCALARS.contains(&name) => value(text, parameter, attribute, 1, found),
        (other, _) => add(
            attribute.start,
            "parameter-attribute",
            format!("parameter `{name}`: `{other}` is no attribute of a kernel's parameter"),
        ),
    }
}

fn space(
    text: &Text<'_>,
    parameter: &Parameter<'_>,
    allowed: &[&str],
    found: &mut Vec<LintFinding>,
) {
    let fits = parameter
        .space()
        .is_some_and(|space| allowed.contains(&space));
    if !fits || !parameter.is_pointer() {
        found.push(text.finding(
            parameter.start,
            "parameter-space",
            format!(
                "parameter `{}` needs a pointer or reference to {}: that is the memory its attribute binds",
                parameter.name,
                allowed.join(" or ")
            ),
        ));
    }
}

fn value(
    text: &Text<'_>,
    parameter: &Parameter<'_>,
    attribute: &Attribute<'_>,
    most: usize,
    found: &mut Vec<LintFinding>,
) {
    let (name, attribute) = (parameter.name, attribute.name);
    if parameter.is_pointer() || parameter.space().is_some() {
        found.push(text.finding(
            parameter.start,
            "parameter-space",
            format!("parameter `{name}`: `{attribute}` is a value and has no address space"),
        ));
        return;
    }
    let ty = parameter.value_type();
    if components(&ty).is_none_or(|components| components > most) {
        let vectors = if most == 1 {
            ""
        } else {
            ", or a vector of two or three of them"
        };
        found.push(text.finding(
            parameter.start,
            "attribute-type",
            format!("parameter `{name}`: `{attribute}` is a ushort or uint{vectors}, not `{ty}`"),
        ));
    }
}

/// Components of a type that an attribute may have.
fn components(ty: &str) -> Option<usize> {
    match ty {
        "uint" | "ushort" | "unsigned" | "unsigned int" | "unsigned short" | "uint32_t"
        | "uint16_t" => Some(1),
        "uint2" | "ushort2" | "vec < uint , 2 >" | "vec < ushort , 2 >" => Some(2),
        "uint3" | "ushort3" | "vec < uint , 3 >" | "vec < ushort , 3 >" => Some(3),
        _ => None,
    }
}

/// Apple's compiler: "expecting input declarations with either all scalar types or all vector types with the same
/// number of elements".
fn agreement(text: &Text<'_>, parameters: &[Parameter<'_>], found: &mut Vec<LintFinding>) {
    let vectors = parameters.iter().filter_map(|parameter| {
        let [attribute] = parameter.attributes.as_slice() else {
            return None;
        };
        let count = components(&parameter.value_type())?;
        VECTORS
            .contains(&attribute.name)
            .then_some((parameter, count))
    });
    let mut first: Option<(&Parameter<'_>, usize)> = None;
    for (parameter, count) in vectors {
        let (other, expected) = *first.get_or_insert((parameter, count));
        if count != expected {
            found.push(text.finding(
                parameter.start,
                "attribute-agreement",
                format!(
                    "parameter `{}` {} and `{}` {}: positions and extents of one kernel are all scalars or all \
                     vectors of one length",
                    parameter.name,
                    length(count),
                    other.name,
                    length(expected)
                ),
            ));
        }
    }
}

fn length(components: usize) -> String {
    match components {
        1 => "is a scalar".to_owned(),
        _ => format!("has {components} components"),
    }
}

fn indices(
    text: &Text<'_>,
    parameters: &[Parameter<'_>],
    kind: &str,
    found: &mut Vec<LintFinding>,
) {
    let rule = if kind == "buffer" {
        "buffer-index"
    } else {
        "threadgroup-index"
    };
    let mut seen: Vec<(String, &str)> = Vec::new();
    let attributes = parameters.iter().flat_map(|parameter| {
        parameter
            .attributes
            .iter()
            .map(move |attribute| (parameter, attribute))
    });
    for (parameter, attribute) in attributes.filter(|(_, attribute)| attribute.name == kind) {
        let Some(argument) = &attribute.argument else {
            continue;
        };
        let value = integer(text, argument);
        // An expression whose value is not known is still the same as itself.
        let written = argument
            .iter()
            .map(|token| token.text)
            .collect::<Vec<_>>()
            .join(" ");
        let index = value.map_or(written, |value| value.to_string());
        if value.is_some_and(|value| value > MAX_INDEX) {
            found.push(text.finding(
                attribute.start,
                rule,
                format!(
                    "parameter `{}`: {kind} index {index} is over {MAX_INDEX}, the last there is",
                    parameter.name
                ),
            ));
        }
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == index) {
            found.push(text.finding(
                attribute.start,
                rule,
                format!(
                    "parameter `{}` has {kind} index {index}, which `{other}` has already",
                    parameter.name
                ),
            ));
        }
        seen.push((index, parameter.name));
    }
}
