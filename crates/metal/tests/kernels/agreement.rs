//! All kernels for attention on the same rows, against the definition.

use minfer_gguf::TensorType::{F16, F32, Q8_0};
use minfer_metal::ops::attention::attention;
use minfer_metal::ops::flash_decode::{Chunks, flash_decode, partials};
use minfer_metal::ops::flash_prefill::flash_prefill;
use minfer_metal::ops::split_attention::split_attention;
use minfer_metal::ops::three_pass::three_pass;
use minfer_metal::ops::{split_attention, three_pass};
use minfer_softmetal::Mode;

use crate::attention::case::{Case, Windows, causal, heads, maps, spans};
use crate::attention::operation::{self, Operation, encode_in};
use crate::values::difference;

/// Of the definition, as in the tests of each.
const TOLERANCE: f64 = 1e-6;
/// `flash_prefill` and `three_pass` add the products of a window one after the other: for 4097 of random signs, the
/// rounding error is about 64 times 2^-24 of the result.
const LONG: f64 = 5e-6;

/// All that serve the windows: name, shape of scratch memory, and the operation.
pub fn operations(case: &Case) -> Vec<(&'static str, [usize; 2], Operation)> {
    let (windows, _) = case.windows.encoded();
    let node = operation::attention(case);
    let mut operations: Vec<(_, _, Operation)> = vec![
        ("attention", [1, 1], |encode, node, y, inputs, _| {
            attention(encode, node, y, inputs)
        }),
        (
            "flash_decode",
            partials(&node, &windows, 16).unwrap(),
            |encode, node, y, inputs, partials| {
                let chunks = Chunks { most: 16, partials };
                flash_decode(encode, node, y, inputs, chunks)
            },
        ),
        ("flash_prefill", [1, 1], |encode, node, y, inputs, _| {
            flash_prefill(encode, node, y, inputs)
        }),
        (
            "split_attention",
            split_attention::scores(&node, &windows),
            split_attention,
        ),
    ];
    if three_pass::serves(&node) {
        let scores = three_pass::scores(&node, &windows);
        operations.push(("three_pass", scores, three_pass));
    }
    operations
}

fn agree(case: &Case, tolerance: f64) {
    let expected = case.expected();
    for (name, scratch, operation) in operations(case) {
        let (bits, _) = encode_in(Mode::Unchecked, case, scratch, operation).unwrap();
        let y: Vec<_> = bits.into_iter().map(f32::from_bits).collect();
        let difference = difference(&y, &expected);
        assert!(difference <= tolerance, "{name}: {difference:e}");
    }
}

#[test]
fn causal_windows() {
    for (ty, dim) in [(F32, 64), (F32, 128), (F16, 64), (F16, 128), (Q8_0, 64)] {
        let windows = causal(&[65, 1, 130, 600, 32, 33]);
        agree(&Case::new(ty, heads(4, 2, dim), 600, windows), TOLERANCE);
    }
}

#[test]
fn spans_and_maps() {
    let keys = [33, 130, 545];
    for ty in [F32, F16, Q8_0] {
        for windows in [spans(&keys), maps(&keys)] {
            agree(&Case::new(ty, heads(2, 1, 64), 580, windows), TOLERANCE);
        }
    }
}

#[test]
fn windows_of_4097_keys() {
    for (ty, dim) in [(F32, 64), (F16, 64), (F16, 128), (Q8_0, 64)] {
        let windows = causal(&[4097, 2050, 4096]);
        agree(&Case::new(ty, heads(2, 1, dim), 4097, windows), LONG);
    }
    let map = Windows::Maps(vec![[10, 2000, 2100, 1500, 3700, 400, 4110, 197]]);
    agree(&Case::new(F32, heads(2, 1, 128), 4310, map), LONG);
}
