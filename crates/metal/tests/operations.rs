//! The Metal backend's columns of the cross-backend table, on the software device.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use minfer_graph::Backend;
use minfer_metal::backend::{MetalBackend, MetalOptions};
use minfer_optable::{Case, Column, Mismatch, Precision, cases, check, check_edit, edit_cases};
use minfer_softmetal::{Mode, Options, SoftDevice};

/// Operations without a kernel: attention is one kernel, and the parts of fused nodes have their own.
const REFUSED: [&str; 4] = ["BatchMatMul", "FusedFfn", "FusedQkv", "Softmax"];

fn device(mode: Mode) -> SoftDevice {
    SoftDevice::new(Options {
        mode,
        cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        ..Options::default()
    })
}

fn backend(device: &SoftDevice) -> MetalBackend<SoftDevice> {
    let options = MetalOptions {
        submit_limit: Duration::from_secs(60),
        ..MetalOptions::default()
    };
    MetalBackend::new(device.clone(), options)
}

fn is_refused(case: &Case) -> bool {
    REFUSED.contains(&case.op.name())
}

/// Compares a case with its definition; whether the backend runs it.
fn compare(case: &Case, backend: &mut dyn Backend) -> Result<bool, Mismatch> {
    let mut column = Column {
        name: "metal".to_owned(),
        prompt: Precision::F32,
        generated: Precision::F32,
        independent_rows: true,
        backend,
    };
    match check(case, &mut column) {
        Ok(()) => Ok(true),
        Err(Mismatch::Unsupported { .. }) => Ok(false),
        Err(mismatch) => Err(mismatch),
    }
}

#[test]
fn every_case_that_has_kernels() {
    let mut backend = backend(&device(Mode::Unchecked));
    let mut failures = Vec::new();
    let mut refused = BTreeSet::new();
    for case in cases() {
        let start = std::time::Instant::now();
        match compare(&case, &mut backend) {
            Ok(true) => {}
            Ok(false) => {
                refused.insert(case.op.name());
            }
            Err(mismatch) => failures.push(format!("{}: {mismatch:?}", case.name())),
        }
        println!("{:?} {}", start.elapsed(), case.name());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), REFUSED);
}

#[test]
fn every_edit() {
    let mut backend = backend(&device(Mode::Unchecked));
    let mut failures = Vec::new();
    for case in edit_cases() {
        if let Err(mismatch) = check_edit(&case, &mut backend) {
            failures.push(format!("{}: {mismatch:?}", case.name()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
