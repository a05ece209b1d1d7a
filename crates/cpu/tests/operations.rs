//! The CPU's columns of the cross-backend table: one per instruction set of this machine.

use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_optable::{Column, Placement, Precision, RowRange, cases, check, op_names, run};

fn backend(threads: usize, isa: Isa) -> CpuBackend {
    let pool = Arc::new(Pool::new(threads).expect("threads"));
    let options = CpuOptions {
        isa: Some(isa),
        name: None,
    };
    CpuBackend::new(pool, options).expect("an available instruction set")
}

/// Arithmetic of the products for prompt rows.
fn prompt_precision(isa: Isa) -> Precision {
    match isa {
        Isa::Scalar | Isa::Avx2 | Isa::Avx512 | Isa::Neon => Precision::F32,
        Isa::Amx => Precision::Bf16,
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
fn every_case_on_every_instruction_set() {
    let mut failures = Vec::new();
    for isa in Isa::available() {
        let mut backend = backend(2, isa);
        for case in cases() {
            let mut column = Column {
                name: format!("cpu {isa}"),
                prompt: prompt_precision(isa),
                generated: Precision::Int8,
                independent_rows: true,
                backend: &mut backend,
            };
            if let Err(mismatch) = check(&case, &mut column) {
                failures.push(format!("{}, {}: {mismatch:?}", column.name, case.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn thread_counts_do_not_change_a_bit() {
    let isa = Isa::detect();
    let mut backends = [1, 2, 3].map(|threads| backend(threads, isa));
    for case in cases() {
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
