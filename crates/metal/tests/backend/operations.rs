//! The columns of the cross-backend table.

use std::collections::BTreeSet;

use minfer_gguf::TensorType;
use minfer_graph::{Backend, Op};
use minfer_optable::{Case, Column, Mismatch, Precision, cases, check, check_edit, edit_cases};

use crate::{backend, fast_device};

/// Operations without a kernel: attention is one kernel, and the parts of fused nodes have their own.
pub const REFUSED: [&str; 4] = ["BatchMatMul", "FusedFfn", "FusedQkv", "Softmax"];

/// Weight types without a kernel.
const REFUSED_TYPES: [TensorType; 4] = [
    TensorType::Q2_K,
    TensorType::Q3_K,
    TensorType::IQ4_NL,
    TensorType::IQ4_XS,
];

/// Elements up to which each row of a value is also computed alone.
const SMALL: usize = 3500;

/// Compares a case with its definition; whether the backend runs it.
pub fn compare(case: &Case, backend: &mut dyn Backend, companions: bool) -> Result<bool, Mismatch> {
    let mut column = Column {
        name: "metal".to_owned(),
        prompt: Precision::F32,
        generated: Precision::F32,
        independent_rows: companions,
        backend,
    };
    match check(case, &mut column) {
        Ok(()) => Ok(true),
        Err(Mismatch::Unsupported { .. }) => Ok(false),
        Err(mismatch) => Err(mismatch),
    }
}

/// What is refused of an operation: all of it, or a type of its weight.
pub fn kind(case: &Case) -> (&'static str, Option<TensorType>) {
    let ty = match case.op {
        Op::Embed { .. } | Op::MatMul { .. } => case.weights.first().map(|weight| weight.ty),
        _ => None,
    };
    (case.op.name(), ty)
}

#[test]
fn every_case_that_has_kernels() {
    let Some(device) = fast_device() else { return };
    let mut backend = backend(device);
    let mut failures = Vec::new();
    let (mut refused, mut expected) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let kind = kind(&case);
        let has_none = kind.1.is_some_and(|ty| REFUSED_TYPES.contains(&ty));
        if has_none || REFUSED.contains(&kind.0) {
            expected.insert(kind);
        }
        let companions = case.count < 10 && case.count * case.width <= SMALL;
        match compare(&case, &mut backend, companions) {
            Ok(true) => {}
            Ok(false) => {
                refused.insert(kind);
            }
            Err(mismatch) => failures.push(format!("{}: {mismatch:?}", case.name())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(refused, expected);
    assert_eq!(expected.len(), REFUSED.len() + 2 * REFUSED_TYPES.len());
}

#[test]
fn every_edit() {
    let Some(device) = fast_device() else { return };
    let mut backend = backend(device);
    let mut failures = Vec::new();
    for case in edit_cases() {
        if let Err(mismatch) = check_edit(&case, &mut backend) {
            failures.push(format!("{}: {mismatch:?}", case.name()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
