//! The operation: both kernels with checked operands.

use minfer_gguf::TensorType::F16;
use minfer_metal::ops::split_attention::{MOST_SCORES, scores, split_attention};

use super::run;
use crate::attention::case::{Case, Windows, causal, heads, spans};
use crate::attention::operation::{attention, encode};
use crate::attention::properties::bits;

fn case() -> Case {
    Case::new(F16, heads(4, 2, 64), 140, spans(&[33, 130, 64]))
}

/// 130 keys are 5 blocks, each of 32 scores and the largest. The empty window is a row like the others.
#[test]
fn scores_of_all_rows_are_in_memory_at_once() {
    let case = case();
    let shape = scores(&attention(&case), &case.windows.encoded().0);
    assert_eq!(shape, [5 * 33, 4 * 4]);
    let (found, dispatches) = encode(&case, shape, split_attention).unwrap();
    assert_eq!(found, bits(&run(&case)));
    assert_eq!(dispatches, 2);
}

#[test]
fn rows_take_turns_in_less_memory() {
    let case = case();
    let expected = bits(&run(&case));
    for (rows, turns) in [(4, 4), (8, 2), (11, 2), (12, 2), (15, 2)] {
        let (found, dispatches) = encode(&case, [5 * 33, rows], split_attention).unwrap();
        assert_eq!(found, expected, "{rows}");
        assert_eq!(dispatches, 2 * turns, "{rows}");
    }
}

#[test]
fn scores_take_no_more_than_their_limit_unless_a_row_does() {
    let case = Case::new(F16, heads(14, 2, 64), 1, causal(&[1]));
    let attention = attention(&case);
    for (keys, rows) in [(32_768, 100), (32_768, 1), (1 << 21, 3)] {
        let [width, count] = scores(&attention, &vec![keys - 1; rows]);
        assert_eq!(width, keys as usize / 32 * 33);
        let fitting = MOST_SCORES / (14 * width);
        assert_eq!(count, 14 * fitting.clamp(1, rows));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |case: &Case, scratch| {
        encode(case, scratch, split_attention)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal(&case(), [5 * 33, 3]),
        "split_attention: the rows of the scores is 3, at least 4 is needed"
    );
    assert_eq!(
        refusal(&case(), [4 * 33, 16]),
        "split_attention: the width of the scores is 132, 165 is needed"
    );
    let narrow = Case::new(F16, heads(1, 1, 96), 4, causal(&[4]));
    assert_eq!(
        refusal(&narrow, [33, 1]),
        "split_attention: head_dim is 96, 64 or 128 is needed"
    );
    let outside = Case {
        windows: Windows::Spans(vec![[0, 141]; 4]),
        ..case()
    };
    assert_eq!(
        refusal(&outside, [5 * 33, 16]),
        "split_attention: a window is cells 0..141 of row 0, within 0..140 is needed"
    );
}
