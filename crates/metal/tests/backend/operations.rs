//! The columns of the cross-backend table.

use std::collections::{BTreeMap, BTreeSet};

use minfer_gguf::TensorType;
use minfer_graph::{Backend, Op};
use minfer_optable::{
    Accuracy, Case, Column, Mismatch, Precision, Worst, cases, check, check_edit, edit_cases,
};

use crate::accuracy::{Cell, Table};
use crate::{backend, fast_device};

/// Operations without a kernel: attention is one.
pub const REFUSED: [&str; 2] = ["BatchMatMul", "Softmax"];

/// Weight types without a kernel.
pub const REFUSED_TYPES: [TensorType; 4] = [
    TensorType::Q2_K,
    TensorType::Q3_K,
    TensorType::IQ4_NL,
    TensorType::IQ4_XS,
];

/// Elements up to which each row of a value is also computed alone.
const SMALL: usize = 3500;

/// Compares a case with its definition; how far off the backend is, if it runs it.
pub fn compare(
    case: &Case,
    backend: &mut dyn Backend,
    companions: bool,
) -> Result<Option<Accuracy>, Mismatch> {
    let mut column = Column {
        name: "metal".to_owned(),
        prompt: Precision::F32,
        generated: Precision::F32,
        fuses_prompt: false,
        independent_rows: companions,
        backend,
    };
    match check(case, &mut column) {
        Ok(accuracy) => Ok(Some(accuracy)),
        Err(Mismatch::Unsupported { .. }) => Ok(None),
        Err(mismatch) => Err(mismatch),
    }
}

/// What is refused of an operation: all of it, or a type of one of its matrices.
pub fn kind(case: &Case) -> (&'static str, Option<TensorType>) {
    let types = || case.weights.iter().map(|weight| weight.ty);
    let refused = types().find(|ty| REFUSED_TYPES.contains(ty));
    let ty = match case.op {
        Op::Embed { .. }
        | Op::MatMul { .. }
        | Op::FusedQkv(_)
        | Op::FusedFfn { .. }
        | Op::FusedMatMul(_) => refused.or_else(|| types().next()),
        _ => None,
    };
    (case.op.name(), ty)
}

/// Prints the table, for docs/metal-accuracy.md.
#[test]
fn every_case_that_has_kernels_is_in_the_error_table() {
    let Some(device) = fast_device() else { return };
    let mut backend = backend(device);
    let mut failures = Vec::new();
    let mut table = Table::default();
    let (mut refused, mut expected) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let kind = kind(&case);
        let has_none = kind.1.is_some_and(|ty| REFUSED_TYPES.contains(&ty));
        if has_none || REFUSED.contains(&kind.0) {
            expected.insert(kind);
        }
        let companions = case.count < 10 && case.count * case.width <= SMALL;
        match compare(&case, &mut backend, companions) {
            Ok(Some(accuracy)) => table.add(&case, accuracy),
            Ok(None) => {
                refused.insert(kind);
            }
            Err(mismatch) => failures.push(format!("{}: {mismatch:?}", case.name())),
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(refused, expected);
    assert_eq!(expected.len(), REFUSED.len() + 5 * REFUSED_TYPES.len());
    println!("{table}");
    table.assert_within_limits();
    table.assert_complete();
}

#[test]
fn every_edit_is_in_the_error_table() {
    let Some(device) = fast_device() else { return };
    let mut backend = backend(device);
    let mut failures = Vec::new();
    let mut table = BTreeMap::new();
    for case in edit_cases() {
        match check_edit(&case, &mut backend) {
            Ok(worst) => {
                let format = format!("{:?}", case.region.shape.format);
                let row: &mut (usize, Worst) = table.entry((case.kind(), format)).or_default();
                *row = (row.0 + 1, row.1.max(worst));
            }
            Err(mismatch) => failures.push(format!("{}: {mismatch:?}", case.name())),
        }
    }
    println!("| edit | KV | cases | keys |\n|---|---|---|---|");
    for ((edit, format), (cases, worst)) in &table {
        println!("| {edit} | {format} | {cases} | {} |", Cell(*worst));
        assert!(worst.of_limit <= 1.0);
    }
    assert_eq!(table.len(), 2 * 3);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
