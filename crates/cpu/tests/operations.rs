//! The CPU's columns of the cross-backend table: one per instruction set of this machine, two where
//! prompt rows have a choice of precision.

use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool, PrefillPrecision};
use minfer_graph::{KvFormat, Op};
use minfer_optable::{
    Case, Column, Mismatch, Placement, Precision, RowRange, cases, check, check_edit, edit_cases,
    edit_names, op_names, run, run_edit,
};

fn backend(threads: usize, isa: Isa, prefill: PrefillPrecision) -> CpuBackend {
    let pool = Arc::new(Pool::new(threads).expect("threads"));
    let options = CpuOptions {
        isa: Some(isa),
        prefill,
        ..CpuOptions::default()
    };
    CpuBackend::new(pool, options).expect("an available instruction set")
}

/// Settings that differ in the arithmetic of their products for prompt rows, and that arithmetic.
fn columns() -> Vec<(Isa, PrefillPrecision, Precision)> {
    let column = |isa| match isa {
        // The setting does not matter.
        Isa::Scalar | Isa::Avx2 | Isa::Avx512 | Isa::Neon => {
            vec![(isa, PrefillPrecision::Bf16, Precision::F32)]
        }
        // Tiles multiply bf16 only.
        Isa::Amx => vec![
            (isa, PrefillPrecision::Split, Precision::SplitBf16),
            (isa, PrefillPrecision::Bf16, Precision::Bf16),
        ],
    };
    Isa::available().into_iter().flat_map(column).collect()
}

/// Nodes that read more than they save here: their parts run.
fn is_refused(case: &Case) -> bool {
    match &case.op {
        Op::FusedMatMul(_) => true,
        Op::FusedFfn { input_norm, .. } => input_norm.is_some(),
        Op::FusedQkv(qkv) => qkv.input_norm.is_some(),
        _ => false,
    }
}

#[test]
fn every_operation_is_in_the_table() {
    let cases = cases();
    for name in op_names() {
        assert!(
            cases.iter().any(|case| case.op.name() == name),
            "no case for {name}"
        );
    }
}

#[test]
fn every_edit_of_every_kv_format_is_in_the_table() {
    let cases = edit_cases();
    for name in edit_names() {
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
            let case = cases
                .iter()
                .find(|case| case.name().starts_with(name) && case.region.shape.format == format);
            assert!(case.is_some(), "no {name} of {format:?}");
        }
    }
}

#[test]
fn every_edit_on_every_instruction_set() {
    let cases = edit_cases();
    let mut failures = Vec::new();
    for isa in Isa::available() {
        let mut backend = backend(2, isa, PrefillPrecision::default());
        for case in &cases {
            if let Err(mismatch) = check_edit(case, &mut backend) {
                failures.push(format!("{isa}, {}: {mismatch:?}", case.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_case_on_every_instruction_set() {
    let mut failures = Vec::new();
    for (isa, prefill, prompt) in columns() {
        let mut backend = backend(2, isa, prefill);
        for case in cases() {
            let mut column = Column {
                name: format!("cpu {isa} {prefill:?}"),
                prompt,
                generated: Precision::Int8,
                fuses_prompt: true,
                independent_rows: true,
                backend: &mut backend,
            };
            match check(&case, &mut column) {
                Err(Mismatch::Unsupported { refusal }) if is_refused(&case) => {
                    assert!(refusal.ends_with("as fast"), "{refusal}");
                }
                Ok(_) if !is_refused(&case) => {}
                found => {
                    failures.push(format!("{}, {}: {found:?}", column.name, case.name()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    for prefill in [PrefillPrecision::Split, PrefillPrecision::Bf16] {
        let mut backends = [1, 2, 3].map(|threads| backend(threads, Isa::detect(), prefill));
        for case in cases().into_iter().filter(|case| !is_refused(case)) {
            for prompt in [0, case.count / 2, case.count] {
                let range = RowRange {
                    rows: 0..case.count,
                    prompt,
                };
                let mut runs = backends.iter_mut().map(|backend| {
                    run(&case, backend, Placement::Contiguous, &range).expect("a supported case")
                });
                let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let first = runs.next().expect("three runs");
                for other in runs {
                    assert_eq!(bits(&first.value), bits(&other.value), "{}", case.name());
                    assert_eq!(first.kv, other.kv, "{}", case.name());
                }
            }
        }
    }
}

#[test]
fn thread_counts_do_not_change_an_edited_byte() {
    let prefill = PrefillPrecision::default();
    let mut backends = [1, 2, 3].map(|threads| backend(threads, Isa::detect(), prefill));
    for case in edit_cases() {
        let mut runs = backends
            .iter_mut()
            .map(|backend| run_edit(&case, backend).expect("a supported edit"));
        let first = runs.next().expect("three runs");
        for other in runs {
            assert!(first == other, "{}", case.name());
        }
    }
}
