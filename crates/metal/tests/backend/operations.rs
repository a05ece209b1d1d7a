//! The columns of the cross-backend table.

use std::collections::{BTreeMap, BTreeSet};

use minfer_gguf::TensorType;
use minfer_graph::{Backend, Op, RowEdit};
use minfer_optable::{Case, Column, Mismatch, Precision, cases, check, check_edit, edit_cases};
use minfer_softmetal::Mode;

use crate::{assert_no_reports, backend, device};

/// Operations without a kernel: attention is one kernel, and the parts of fused nodes have their own.
const REFUSED: [&str; 4] = ["BatchMatMul", "FusedFfn", "FusedQkv", "Softmax"];

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
fn compare(case: &Case, backend: &mut dyn Backend, companions: bool) -> Result<bool, Mismatch> {
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
fn kind(case: &Case) -> (&'static str, Option<TensorType>) {
    let ty = match case.op {
        Op::Embed { .. } | Op::MatMul { .. } => case.weights.first().map(|weight| weight.ty),
        _ => None,
    };
    (case.op.name(), ty)
}

#[test]
fn every_case_that_has_kernels() {
    let mut backend = backend(&device(Mode::Unchecked));
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

/// The smallest case of each operation, weight type and KV format.
fn smallest_cases() -> Vec<Case> {
    let mut smallest = BTreeMap::new();
    for case in cases() {
        let format = case
            .kv
            .as_ref()
            .map(|region| format!("{:?}", region.shape.format));
        let key = (kind(&case), format);
        let size = |case: &Case| case.count * case.width;
        let known = smallest.get(&key).map(size);
        if known.is_none_or(|known| size(&case) < known) {
            smallest.insert(key, case);
        }
    }
    smallest.into_values().collect()
}

#[test]
fn kernels_touch_only_what_they_may() {
    let device = device(Mode::Checked);
    let mut backend = backend(&device);
    let mut ran = BTreeSet::new();
    for case in smallest_cases() {
        let compared = compare(&case, &mut backend, false);
        assert_no_reports(&device);
        if compared.unwrap_or_else(|mismatch| panic!("{}: {mismatch:?}", case.name())) {
            ran.insert(case.op.name());
        }
    }
    // Input and View have nothing to run.
    assert_eq!(ran.len(), minfer_optable::op_names().len() - REFUSED.len());
}

#[test]
fn edits_touch_only_what_they_may() {
    let device = device(Mode::Checked);
    let mut backend = backend(&device);
    let mut formats = BTreeMap::new();
    // One copy onto itself shifted, and one rotation of part of the heads, of each format.
    for case in edit_cases() {
        let key = match case.edit {
            RowEdit::Copy(copy) if copy.from == 5 => "copy",
            RowEdit::Rotate(rotation) if rotation.by == 77 => "rotation",
            _ => continue,
        };
        let format = format!("{:?}", case.region.shape.format);
        formats.entry((key, format)).or_insert(case);
    }
    assert_eq!(formats.len(), 6);
    for case in formats.values() {
        let edited = check_edit(case, &mut backend);
        assert_no_reports(&device);
        edited.unwrap_or_else(|mismatch| panic!("{}: {mismatch:?}", case.name()));
    }
}

#[test]
fn every_edit() {
    let device = device(Mode::Unchecked);
    let mut backend = backend(&device);
    let mut failures = Vec::new();
    for case in edit_cases() {
        if let Err(mismatch) = check_edit(&case, &mut backend) {
            failures.push(format!("{}: {mismatch:?}", case.name()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
