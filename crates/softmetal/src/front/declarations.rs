//! What the front end finds in a source.

use std::ops::Range;

/// Everything in a source that C++ does not say by itself.
#[derive(Debug, Default)]
pub(super) struct Unit<'a> {
    pub(super) kernels: Vec<Kernel<'a>>,
    pub(super) instances: Vec<Instance<'a>>,
    pub(super) constants: Vec<Constant<'a>>,
    pub(super) derived: Vec<Derived<'a>>,
    pub(super) edits: Vec<Edit>,
}

/// A kernel's definition.
#[derive(Debug)]
pub(super) struct Kernel<'a> {
    pub(super) name: &'a str,
    pub(super) is_template: bool,
    pub(super) host_name: Option<&'a str>,
    pub(super) max_threads: Option<&'a str>,
    pub(super) parameters: Vec<Parameter<'a>>,
}

/// A parameter of a kernel. Its type is C++'s business.
#[derive(Debug)]
pub(super) struct Parameter<'a> {
    pub(super) name: &'a str,
    pub(super) slot: Slot<'a>,
    /// The function constant that decides whether there is such a parameter.
    pub(super) condition: Option<&'a str>,
}

/// What a parameter is bound to; an index is an expression of the source.
#[derive(Debug)]
pub(super) enum Slot<'a> {
    Buffer(&'a str),
    Threadgroup(&'a str),
    Builtin(&'a str),
}

/// An explicit instantiation of a kernel template.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    pub(super) template: &'a str,
    pub(super) arguments: &'a str,
    pub(super) host_name: &'a str,
}

/// A function constant.
#[derive(Debug)]
pub(super) struct Constant<'a> {
    pub(super) name: &'a str,
    /// Whether the source asks if it is defined.
    pub(super) optional: bool,
    pub(super) index: &'a str,
}

/// A program-scope value computed from function constants.
#[derive(Debug)]
pub(super) struct Derived<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
    /// Names of the constants in it, function constants or computed ones.
    pub(super) depends_on: Vec<&'a str>,
}

/// Text that takes the place of a range of the source. Lines inside the range are kept.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}
