//! All kernels for attention on the same rows.

use minfer_gguf::TensorType::{F16, F32, Q8_0};

use crate::attention::case::{Case, Windows};
use crate::attention::properties::Run;
use crate::values::difference;
use crate::{flash_decode, split_attention, three_pass};

/// Each is within 1e-6 of the definition (their `TOLERANCE`), so two of them are within twice that.
const TOLERANCE: f64 = 2e-6;

fn agree(case: &Case, runs: &[(&str, Run)]) {
    let classic: Vec<_> = case.run().into_iter().map(f64::from).collect();
    for (name, run) in runs {
        let difference = difference(&run(case), &classic);
        assert!(difference <= TOLERANCE, "{name}: {difference:e}");
    }
}

const GENERATED: [(&str, Run); 2] = [
    ("flash_decode", flash_decode::run),
    ("split", split_attention::run),
];

#[test]
fn causal_windows_up_to_4097_keys() {
    let runs = [GENERATED[0], GENERATED[1], ("three_pass", three_pass::run)];
    for (ty, keys, dim) in [
        (F32, [65, 130].as_slice(), 128),
        (Q8_0, &[1, 600], 64),
        (F16, &[4097], 64),
    ] {
        let windows = flash_decode::causal(keys);
        let cells = *keys.last().unwrap() as usize;
        let case = Case::new(ty, flash_decode::heads(2, 1, dim), cells, windows);
        agree(&case, &runs);
    }
}

#[test]
fn spans_and_maps() {
    let heads = flash_decode::heads(2, 1, 64);
    let keys = [33, 130, 545];
    for ty in [F32, F16, Q8_0] {
        for windows in [flash_decode::spans(&keys), flash_decode::maps(&keys)] {
            agree(&Case::new(ty, heads, 580, windows), &GENERATED);
        }
    }
    let map = Windows::Maps(vec![[10, 2000, 2100, 1500, 3700, 400, 4110, 197]]);
    agree(&Case::new(Q8_0, heads, 4310, map), &GENERATED);
}
