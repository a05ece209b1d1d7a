//! Attention of generated rows in two passes: values, and what a row may depend on.

mod encode;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_metal::arguments::{KernelArguments, SplitScores, SplitValues};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::SPLIT_ATTENTION;

use crate::attention::case::{Case, Heads, Windows, causal, heads, maps, spans};
use crate::attention::properties;
use crate::launch::{Launch, Operand};
use crate::values::difference;

/// Keys of windows: around blocks, and more blocks than simdgroups.
const KEYS: [i32; 8] = [1, 31, 32, 33, 65, 130, 257, 545];
const CELLS: usize = 580;
/// Features beyond the width between rows of output and queries.
const BEYOND: [usize; 2] = [3, 6];
/// As for attention of any shape: the errors of scores, exponentials and sums.
pub const TOLERANCE: f64 = 1e-6;

/// Blocks of the longest window.
fn blocks(case: &Case) -> usize {
    let windows = case.windows.cells();
    let longest = windows.iter().map(Vec::len).max().unwrap();
    longest.div_ceil(32).max(1)
}

fn constants(case: &Case) -> Vec<(u32, ConstantValue)> {
    let (_, window_width) = case.windows.encoded();
    vec![
        (0, ConstantValue::U32(case.heads.dim as u32)),
        (1, ConstantValue::U32(window_width)),
    ]
}

/// Scores; those that nothing writes stay NaN.
fn scores(case: &Case) -> Launch {
    let Heads { query, kv, .. } = case.heads;
    let (rows, blocks) = (case.windows.rows(), blocks(case));
    let group = query / kv;
    let slices = group.div_ceil(8);
    let q_stride = case.width() + BEYOND[1];
    let args = SplitScores {
        group: group as u32,
        heads: query as u32,
        blocks: blocks as u32,
        q_stride: q_stride as u32,
        cell_bytes: case.cell_bytes() as u32,
        scale: case.scale(),
    };
    let mut scores = Operand::output(33 * blocks, rows * query);
    scores.words.fill(f32::NAN.to_bits());
    let mut constants = constants(case);
    constants.push((2, ConstantValue::U32(group.div_ceil(slices) as u32)));
    Launch {
        file: SPLIT_ATTENTION,
        kernel: format!("split_scores_{}", case.ty).to_lowercase(),
        constants,
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            scores,
            Operand::input(case.width(), &case.q).strided(q_stride),
            Operand::bytes(&case.keys),
            Operand::integers(&case.windows.encoded().0),
        ],
        bindings: vec![0, 1, 2, 3],
        grid: Grid::Threadgroups(Size([kv * slices, blocks, rows].map(|n| n as u32))),
        threadgroup: [32, 1, 1],
    }
}

fn values(case: &Case, scores: &[f32], simdgroups: u32) -> Launch {
    let Heads { query, kv, .. } = case.heads;
    let rows = case.windows.rows();
    let y_stride = case.width() + BEYOND[0];
    let args = SplitValues {
        group: (query / kv) as u32,
        heads: query as u32,
        blocks: blocks(case) as u32,
        y_stride: y_stride as u32,
        cell_bytes: case.cell_bytes() as u32,
    };
    Launch {
        file: SPLIT_ATTENTION,
        kernel: format!("split_values_{}", case.ty).to_lowercase(),
        constants: constants(case),
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(case.width(), rows).strided(y_stride),
            Operand::input(33 * blocks(case), scores),
            Operand::bytes(&case.values),
            Operand::integers(&case.windows.encoded().0),
        ],
        bindings: vec![0, 1, 2, 3],
        grid: Grid::Threadgroups(Size([query as u32, rows as u32, 1])),
        threadgroup: [32 * simdgroups, 1, 1],
    }
}

/// Both kernels, in every mode.
pub fn run(case: &Case) -> Vec<f32> {
    values(case, &scores(case).run_floats(), 8).run_floats()
}

pub fn launches() -> Vec<Launch> {
    let case = |ty| Case::new(ty, heads(2, 1, 64), 40, Windows::Causal(vec![39]));
    let launches = [F32, F16, Q8_0].map(|ty| {
        let case = case(ty);
        [scores(&case), values(&case, &[1.0; 2 * 66], 2)]
    });
    launches.into_iter().flatten().collect()
}

fn check(ty: TensorType, heads: Heads, windows: Windows) {
    let case = Case::new(ty, heads, CELLS, windows);
    let difference = difference(&run(&case), &case.expected());
    assert!(difference <= TOLERANCE, "{ty} {heads:?}: {difference:e}");
}

#[test]
fn f32_cells() {
    check(F32, heads(2, 2, 64), causal(&KEYS));
    check(F32, heads(7, 1, 128), maps(&[33, 64, 257]));
    check(F32, heads(4, 2, 128), spans(&[1, 65, 130]));
}

#[test]
fn f16_cells() {
    check(F16, heads(4, 2, 64), maps(&KEYS));
    check(F16, heads(14, 1, 128), spans(&[31, 130]));
    check(F16, heads(1, 1, 128), causal(&[32, 63]));
}

/// 9 query heads are served by two simdgroups, the second of which has one less.
#[test]
fn q8_0_cells() {
    check(Q8_0, heads(2, 1, 128), spans(&KEYS));
    check(Q8_0, heads(14, 2, 64), maps(&[65, 257]));
    check(Q8_0, heads(18, 2, 64), causal(&[33, 130]));
}

/// Every weight is far from 1 unless the largest score of all blocks is its scale.
#[test]
fn scores_far_from_zero() {
    const FACTOR: f32 = 64.0;
    let mut case = Case::new(F32, heads(2, 1, 64), CELLS, causal(&[130, 300]));
    case.q.iter_mut().for_each(|q| *q *= FACTOR);
    let difference = difference(&run(&case), &case.expected());
    let tolerance = f64::from(FACTOR) * TOLERANCE;
    assert!(difference <= tolerance, "{difference:e}");
}

#[test]
fn scores_far_below_zero() {
    properties::scores_far_below_zero(run);
}

#[test]
fn any_number_of_simdgroups() {
    let case = Case::new(F16, heads(2, 1, 64), CELLS, spans(&[1, 65, 530]));
    let scores = scores(&case).run_floats();
    for simdgroups in [1, 3] {
        let y = values(&case, &scores, simdgroups).run_floats();
        let difference = difference(&y, &case.expected());
        assert!(difference <= TOLERANCE, "{simdgroups}: {difference:e}");
    }
}

#[test]
fn companions_do_not_change_a_bit() {
    for (ty, windows) in [(F16, maps(&[40, 300, 65])), (Q8_0, spans(&[1, 530, 64]))] {
        let case = Case::new(ty, heads(2, 1, 64), CELLS, windows);
        properties::companions_do_not_change_a_bit(run, &case);
    }
}

#[test]
fn the_same_cells_give_the_same_bits_in_every_layout() {
    properties::the_same_cells_give_the_same_bits_in_every_layout(run);
}

#[test]
fn a_row_without_cells_is_zeros() {
    let windows = Windows::Spans(vec![[5, 5]]);
    let y = run(&Case::new(F32, heads(2, 1, 64), 8, windows));
    assert_eq!(properties::bits(&y), vec![0; 128]);
}

#[test]
fn a_row_that_sees_one_cell_is_its_value() {
    properties::a_row_that_sees_one_cell_is_its_value(run);
}

#[test]
fn cells_outside_of_a_window_are_not_read() {
    for ty in [F32, Q8_0] {
        let windows = Windows::Maps(vec![
            [0, 3, 3, 2, 0, 0, 0, 0],
            [0, 3, 8, 4, 20, 2, 0, 0],
            [190, 10, 0, 0, 30, 90, 5, 1],
        ]);
        let case = Case::new(ty, heads(2, 1, 64), 200, windows);
        let poisoned = [3, 12, 22, 29, 120, 189];
        properties::cells_outside_of_a_window_are_not_read(run, &case, &poisoned);
    }
}

/// An odd number of keys where two are read together: the second would be beyond the region.
#[test]
fn cells_after_the_last_are_not_read() {
    for ty in [F32, F16, Q8_0] {
        let case = Case::new(ty, heads(2, 1, 64), 33, causal(&[33]));
        let difference = difference(&run(&case), &case.expected());
        assert!(difference <= TOLERANCE, "{ty}: {difference:e}");
    }
}
