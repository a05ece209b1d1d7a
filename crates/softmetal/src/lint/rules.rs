//! The rules by name.

/// A rule for kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, as in [`super::LintFinding::rule`].
    pub name: &'static str,
    /// What it asks for.
    pub summary: &'static str,
}

const fn rule(name: &'static str, summary: &'static str) -> Rule {
    Rule { name, summary }
}

/// Every rule of [`super::rules`].
pub const RULES: &[Rule] = &[
    rule(
        "address-space",
        "every pointer and reference names its address space",
    ),
    rule("allocation", "no new, delete, malloc, free"),
    rule("assembly", "no inline assembly"),
    rule(
        "attribute-agreement",
        "positions and extents of a kernel have the same number of components",
    ),
    rule(
        "attribute-type",
        "positions are ushort or uint, or vectors of them; indices in a group are scalars",
    ),
    rule(
        "buffer-index",
        "indices of buffers are unique, and at most 30",
    ),
    rule("constant-write", "nothing is written through `constant`"),
    rule("derived-class", "no base classes but traits"),
    rule("double", "no double, no long double"),
    rule("exceptions", "no try, catch, throw"),
    rule(
        "function-constant",
        "function constants are scalars or vectors with unique indices below 65536",
    ),
    rule("function-pointer", "no pointers or references to functions"),
    rule("goto", "no goto"),
    rule("include", "no headers but Metal's and those of the project"),
    rule(
        "kernel-result",
        "kernels are at program scope and return void",
    ),
    rule("lambda", "no lambda expressions"),
    rule("long-long", "no long long"),
    rule("member-pointer", "no pointers to members"),
    rule("noexcept", "no operator noexcept"),
    rule(
        "overload",
        "no overloads that differ in address spaces only",
    ),
    rule(
        "parameter-attribute",
        "each parameter of a kernel has one attribute, with its index",
    ),
    rule(
        "parameter-space",
        "a parameter's address space fits its attribute",
    ),
    rule("private-built-in", "no functions of a compiler's own"),
    rule(
        "program-scope",
        "variables at program scope and static ones are constant",
    ),
    rule(
        "recursion",
        "no function calls itself, directly or by others",
    ),
    rule("standard-library", "nothing of namespace std"),
    rule("storage", "no thread_local, no register"),
    rule(
        "threadgroup-index",
        "indices of threadgroup memory are unique, and at most 30",
    ),
    rule(
        "threadgroup-variable",
        "threadgroup variables are declared in kernels",
    ),
    rule("type-identification", "no typeid, no dynamic_cast"),
    rule("virtual", "no virtual functions"),
];
