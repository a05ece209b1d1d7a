//! The operation: both kernels with checked operands.

use minfer_gguf::TensorType::F32;
use minfer_metal::ops::OpError;
use minfer_metal::ops::flash_decode::{Chunks, flash_decode, partials};

use super::{heads, run};
use crate::attention::case::{Case, Windows};
use crate::attention::operation::{self, attention};
use crate::attention::properties::bits;

/// Most chunks of a window.
const MOST: usize = 16;
const SPANS: [[i32; 2]; 3] = [[3, 40], [7, 7], [0, 600]];

fn case(dim: usize, spans: &[[i32; 2]]) -> Case {
    Case::new(F32, heads(4, 2, dim), 600, Windows::Spans(spans.to_vec()))
}

/// The bits of the output, of partials that are `beyond` rows too many, and how many dispatches there were.
fn encode(case: &Case, beyond: usize) -> Result<(Vec<u32>, usize), OpError> {
    let [width, count] = partials(&attention(case), &case.windows.encoded().0, MOST)?;
    let scratch = [width, count + beyond];
    operation::encode(case, scratch, |encode, node, y, inputs, partials| {
        let most = MOST;
        flash_decode(encode, node, y, inputs, Chunks { most, partials })
    })
}

#[test]
fn it_is_what_the_kernels_give() {
    let case = case(64, &SPANS);
    assert_eq!(encode(&case, 0).unwrap(), (bits(&run(&case)), 2));
}

/// 600 keys are 10 chunks of 64, or 4 of 160.
#[test]
fn partials_are_as_many_as_the_longest_window_has_chunks() {
    let partials = |dim, spans: &[i32], most| partials(&attention(&case(dim, &SPANS)), spans, most);
    let shape = |dim, spans: &[i32], most| partials(dim, spans, most).unwrap();
    assert_eq!(shape(64, &SPANS.concat(), MOST), [66, 3 * 4 * 10]);
    assert_eq!(shape(64, &SPANS.concat(), 4), [66, 3 * 4 * 4]);
    assert_eq!(shape(64, &[7, 7], MOST), [66, 4]);
    assert_eq!(shape(128, &[0, 512], MOST), [130, 4 * 16]);
    assert_eq!(shape(128, &[0, 513], MOST), [130, 4 * 9]);
    for most in [0, 17] {
        let error = partials(64, &[0, 1], most).unwrap_err();
        let expected = format!("flash_decode: chunks is {most}, 1 to 16 is needed");
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (dim, spans, beyond, expected) in [
        (96, &SPANS[..], 0, "head_dim is 96, 64 or 128 is needed"),
        (
            64,
            &SPANS,
            1,
            "the rows of the partials is 121, 120 is needed",
        ),
        (
            64,
            &[[0, 600], [5, 601]],
            0,
            "a window is cells 5..601 of row 1, within 0..600 is needed",
        ),
        (
            128,
            &[[6, 5]],
            0,
            "a window is cells 6..5 of row 0, within 0..600 is needed",
        ),
    ] {
        let error = encode(&case(dim, spans), beyond).unwrap_err();
        assert_eq!(error.to_string(), format!("flash_decode_f32: {expected}"));
    }
}
