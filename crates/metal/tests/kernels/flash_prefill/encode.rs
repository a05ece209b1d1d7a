//! The operation: the kernel with checked operands.

use minfer_gguf::TensorType::F32;
use minfer_metal::ops::OpError;
use minfer_metal::ops::flash_prefill::flash_prefill;

use super::{bits, heads};
use crate::attention::case::{Case, Heads, Windows};
use crate::attention::operation;

const SPANS: [[i32; 2]; 3] = [[3, 40], [7, 7], [0, 80]];

fn case(heads: Heads, spans: &[[i32; 2]]) -> Case {
    Case::new(F32, heads, 80, Windows::Spans(spans.to_vec()))
}

/// The bits of the output, and how many dispatches there were.
fn encode(case: &Case) -> Result<(Vec<u32>, usize), OpError> {
    operation::encode(case, [1, 1], |encode, node, y, inputs, _| {
        flash_prefill(encode, node, y, inputs)
    })
}

#[test]
fn it_is_what_the_kernel_gives() {
    let case = case(heads(4, 2, 64), &SPANS);
    assert_eq!(encode(&case).unwrap(), (bits(&case), 1));
}

#[test]
fn no_rows_are_no_work() {
    let case = case(heads(4, 2, 64), &SPANS);
    let none = operation::encode(&case, [1, 1], |encode, node, mut y, mut inputs, _| {
        y.rows = 0;
        inputs.q.rows = 0;
        inputs.windows.rows.rows = 0;
        inputs.windows.values = &[];
        flash_prefill(encode, node, y, inputs)
    });
    let (found, dispatches) = none.unwrap();
    assert!(found.iter().all(|bits| *bits == 0));
    assert_eq!(dispatches, 0);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (heads, spans, expected) in [
        (
            heads(4, 2, 96),
            &SPANS[..],
            "head_dim is 96, 64 or 128 is needed",
        ),
        (
            heads(3, 2, 64),
            &SPANS,
            "n_head is 3, a multiple of n_head_kv 2 is needed",
        ),
        (
            heads(4, 2, 64),
            &[[0, 80], [5, 81]],
            "a window is cells 5..81 of row 1, within 0..80 is needed",
        ),
        (
            heads(4, 2, 128),
            &[[6, 5]],
            "a window is cells 6..5 of row 0, within 0..80 is needed",
        ),
    ] {
        let message = encode(&case(heads, spans)).unwrap_err().to_string();
        assert_eq!(message, format!("flash_prefill_f32: {expected}"));
    }
}
