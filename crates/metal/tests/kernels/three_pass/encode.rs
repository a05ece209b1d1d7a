//! The operation: the three kernels with checked operands.

use minfer_gguf::TensorType::F16;
use minfer_metal::ops::split_attention::MOST_SCORES;
use minfer_metal::ops::three_pass::{scores, three_pass};

use super::{prompt, run};
use crate::attention::case::{Case, Windows, causal, heads};
use crate::attention::operation::{attention, encode};
use crate::attention::properties::bits;

/// Two tiles of rows, the second of eight.
fn case() -> Case {
    Case::new(F16, heads(3, 1, 64), 80, prompt(40, 33))
}

#[test]
fn scores_of_all_rows_and_heads_are_in_memory_at_once() {
    let case = case();
    let shape = scores(&attention(&case), &case.windows.encoded().0);
    assert_eq!(shape, [128, 3 * 64]);
    let (found, dispatches) = encode(&case, shape, three_pass).unwrap();
    assert_eq!(found, bits(&run(&case)));
    assert_eq!(dispatches, 3);
}

/// First a tile of rows at a time, then also some heads of it.
#[test]
fn rows_and_heads_take_turns_in_less_memory() {
    let case = case();
    let expected = bits(&run(&case));
    for (tiles, turns) in [(5, 2), (3, 2), (2, 4), (1, 6)] {
        let (found, dispatches) = encode(&case, [128, 32 * tiles], three_pass).unwrap();
        assert_eq!(found, expected, "{tiles}");
        assert_eq!(dispatches, 3 * turns, "{tiles}");
    }
}

#[test]
fn scores_take_no_more_than_their_limit_unless_a_tile_does() {
    let case = Case::new(F16, heads(14, 2, 64), 1, causal(&[1]));
    let shape = |keys: i32, rows| scores(&attention(&case), &vec![keys - 1; rows]);
    // 14 heads of 4 of 16 tiles, 8 heads of one, one of one.
    assert_eq!(shape(8192, 500), [8192, 14 * 4 * 32]);
    assert_eq!(shape(65_536, 500), [65_536, 8 * 32]);
    assert_eq!(shape(1 << 21, 500), [1 << 21, 32]);
    for keys in [8192, 65_536] {
        let [width, rows] = shape(keys, 500);
        assert!(width * rows <= MOST_SCORES);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |case: &Case, scratch| encode(case, scratch, three_pass).unwrap_err().to_string();
    assert_eq!(
        refusal(&case(), [128, 31]),
        "three_pass: the rows of the scores is 31, at least 32 is needed"
    );
    assert_eq!(
        refusal(&case(), [64, 192]),
        "three_pass: the width of the scores is 64, 128 is needed"
    );
    let spans = Case {
        windows: Windows::Spans(vec![[0, 4]; 40]),
        ..case()
    };
    assert_eq!(
        refusal(&spans, [128, 192]),
        "three_pass: head_dim is 64 of Span, 64 or 128 of Causal is needed"
    );
    let outside = Case::new(F16, heads(3, 1, 64), 72, prompt(40, 33));
    assert_eq!(
        refusal(&outside, [128, 192]),
        "three_pass: a window is cells 0..73 of row 39, within 0..72 is needed"
    );
}
