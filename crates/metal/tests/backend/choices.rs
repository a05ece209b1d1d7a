//! Kernels that are chosen: each choice changes what is dispatched, and nothing else.

use minfer_graph::Op;
use minfer_metal::backend::KernelChoices;
use minfer_optable::{Case, Placement, RowRange, cases, run};
use minfer_softmetal::Mode;

use crate::backend_of;
use crate::operations::compare;
use crate::software::device;

const FAST: KernelChoices = KernelChoices {
    gemm: true,
    flash_decode: true,
    attention_chunks: None,
};

/// Names of the kernels that rows of a case run by, the first `prompt` of them prompt rows.
fn kernels(case: &Case, choices: KernelChoices, prompt: usize) -> Vec<String> {
    let device = device(Mode::Unchecked);
    let mut backend = backend_of(device.clone(), choices);
    let range = RowRange {
        rows: 0..case.count,
        prompt,
    };
    run(case, &mut backend, Placement::Contiguous, &range).unwrap();
    let statistics = device.statistics();
    let names = statistics.iter().map(|kernel| kernel.kernel.clone());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn case(detail: &str) -> Case {
    let mut all = cases().into_iter();
    all.find(|case| case.detail.starts_with(detail)).unwrap()
}

#[test]
fn the_default_has_the_fastest() {
    assert_eq!(KernelChoices::default(), FAST);
}

/// Kernels of prompt rows, then of generated rows.
#[test]
fn each_choice_changes_what_is_dispatched() {
    let product = case("Q4_K [512, 67]");
    let attention = case("F16 Span, 14/2 heads of 64");
    let both = [&product, &attention];
    let names = |choices| {
        let of = |case: &Case, prompt| kernels(case, choices, prompt).join(" ");
        both.map(|case| [case.count, 0].map(|prompt| of(case, prompt)))
    };
    let fast = [
        ["gemm_q4_k", "matvec_batch_q4_k"],
        ["attention_f16", "flash_decode_combine flash_decode_f16"],
    ];
    assert_eq!(names(FAST), fast);
    let mut expected = fast;
    expected[0][0] = "matvec_batch_q4_k";
    assert_eq!(
        names(KernelChoices {
            gemm: false,
            ..FAST
        }),
        expected
    );
    let mut expected = fast;
    expected[1][1] = "attention_f16";
    assert_eq!(
        names(KernelChoices {
            flash_decode: false,
            ..FAST
        }),
        expected
    );
}

/// A choice other than the default, and the cases that it matters to.
type Other = (KernelChoices, fn(&Op) -> bool);

fn others() -> Vec<Other> {
    let products: fn(&Op) -> bool = |op| matches!(op, Op::MatMul { .. });
    let attentions: fn(&Op) -> bool =
        |op| matches!(op, Op::Attention(attention) if attention.head_dim != 80);
    vec![
        (
            KernelChoices {
                gemm: false,
                ..FAST
            },
            products,
        ),
        (
            KernelChoices {
                flash_decode: false,
                ..FAST
            },
            attentions,
        ),
        (
            KernelChoices {
                attention_chunks: Some(3),
                ..FAST
            },
            attentions,
        ),
    ]
}

#[test]
fn operations_keep_to_the_table_whatever_is_chosen() {
    let mut failures = Vec::new();
    for (choices, matters) in others() {
        let mut backend = backend_of(device(Mode::Unchecked), choices);
        for case in cases().into_iter().filter(|case| matters(&case.op)) {
            if let Err(mismatch) = compare(&case, &mut backend, case.count < 10) {
                failures.push(format!("{choices:?}, {}: {mismatch:?}", case.name()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
