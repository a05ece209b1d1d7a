//! Attention of any shape: values, and what a row may depend on.

pub mod case;
mod encode;
pub mod operation;
pub mod properties;
mod rows;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};

use case::{Case, Heads, Windows, heads};

use crate::launch::Launch;

/// Keys in a window: around blocks, around rounds of all simdgroups, and one.
const KEYS: [i32; 10] = [1, 31, 32, 33, 63, 64, 65, 128, 130, 257];
const CELLS: usize = 280;

/// The rounding error of a score, a sum of up to 512 products of random signs and about 1 after scaling, is some
/// units of 2^-24. It is the relative error of the score's weight; the exponential and the sums add as much.
const TOLERANCE: f64 = 1e-6;

fn causal() -> Windows {
    Windows::Causal(KEYS.map(|keys| keys - 1).to_vec())
}

/// Windows anywhere in the region, and an empty one.
fn spans() -> Windows {
    let mut spans: Vec<_> = (0..)
        .zip(KEYS)
        .map(|(i, keys)| [2 * i + 1, 2 * i + 1 + keys])
        .collect();
    spans.insert(4, [7, 7]);
    Windows::Spans(spans)
}

/// Runs with gaps, in any order of cells, with empty ones before, between and after, and an empty window.
fn maps() -> Windows {
    let map = |(i, keys): (usize, i32)| {
        let half = keys / 2;
        let lengths = match i % 5 {
            0 => [0, keys, 0, 0],
            1 => [keys / 3, 0, keys - keys / 3, 0],
            2 => [1, 2, 3, keys - 6],
            3 => [half / 2, half - half / 2, keys - half - 7, 7],
            _ => [keys - 2, 0, 0, 2],
        };
        let mut map = [0; 8];
        let mut cell = 2;
        for run in [2, 0, 3, 1] {
            map[2 * run] = cell;
            map[2 * run + 1] = lengths[run];
            cell += lengths[run] + 3;
        }
        map
    };
    let mut maps: Vec<_> = KEYS.into_iter().enumerate().map(map).collect();
    maps.insert(3, [9, 0, 0, 0, 270, 0, 4, 0]);
    Windows::Maps(maps)
}

fn check(ty: TensorType, heads: Heads, windows: Windows) {
    let difference = Case::new(ty, heads, CELLS, windows).difference();
    assert!(difference <= TOLERANCE, "{ty} {heads:?}: {difference:e}");
}

/// A head that is merged in two parts.
pub fn launches() -> Vec<Launch> {
    let window = || Windows::Causal(vec![99]);
    [F32, F16, Q8_0]
        .map(|ty| Case::new(ty, heads(1, 1, 160), 100, window()).launch())
        .into()
}

#[test]
fn f32_cells() {
    check(F32, heads(3, 3, 16), causal());
    check(F32, heads(7, 1, 64), maps());
    check(F32, heads(4, 2, 80), spans());
    check(F32, heads(2, 1, 128), maps());
    check(F32, heads(2, 2, 48), causal());
    check(F32, heads(2, 1, 256), spans());
    check(F32, heads(3, 3, 10), maps());
}

#[test]
fn f16_cells() {
    check(F16, heads(7, 1, 80), causal());
    check(F16, heads(4, 2, 64), maps());
    check(F16, heads(2, 2, 128), spans());
    check(F16, heads(2, 1, 16), maps());
    check(F16, heads(2, 1, 96), causal());
    check(F16, heads(3, 3, 13), spans());
}

#[test]
fn q8_0_cells() {
    check(Q8_0, heads(7, 1, 64), causal());
    check(Q8_0, heads(4, 2, 128), maps());
    check(Q8_0, heads(2, 1, 32), spans());
    check(Q8_0, heads(3, 3, 96), maps());
    check(Q8_0, heads(2, 1, 256), causal());
}

/// The kernels' arrays hold 512 features.
#[test]
fn the_largest_heads() {
    check(F32, heads(2, 1, 512), maps());
    check(F16, heads(2, 2, 320), causal());
    check(F16, heads(1, 1, 512), spans());
    check(Q8_0, heads(2, 1, 320), maps());
    check(Q8_0, heads(1, 1, 512), causal());
}

/// Every weight is far from 1 unless the largest score of the row's own cells is its scale.
#[test]
fn scores_far_from_zero() {
    const FACTOR: f32 = 64.0;
    let mut case = Case::new(F32, heads(7, 1, 64), CELLS, causal());
    case.q.iter_mut().for_each(|q| *q *= FACTOR);
    let difference = case.difference();
    let tolerance = f64::from(FACTOR) * TOLERANCE;
    assert!(difference <= tolerance, "{difference:e}");
}

#[test]
fn scores_far_below_zero() {
    properties::scores_far_below_zero(Case::run);
}
