//! Attention of prompt rows in three passes: values, and what a row may depend on.

mod encode;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_metal::arguments::{KernelArguments, ThreePass};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::THREE_PASS;

use crate::attention::case::{Case, Heads, Windows, causal, heads};
use crate::attention::properties;
use crate::launch::{Launch, Operand};
use crate::values::difference;

/// Keys of windows: around steps and tiles, in no order.
const KEYS: [i32; 9] = [65, 1, 32, 33, 63, 130, 31, 64, 257];
const CELLS: usize = 260;
/// Features beyond the width between rows of output and queries.
const BEYOND: [usize; 2] = [3, 6];
/// As for attention of any shape: the errors of scores, exponentials and sums.
pub const TOLERANCE: f64 = 1e-6;

/// Kernels over all heads at once.
struct Passes<'a> {
    case: &'a Case,
    /// Scores that there is room for.
    width: usize,
    /// Tiles of 32 rows.
    tiles: usize,
}

impl Passes<'_> {
    fn of(case: &Case) -> Passes<'_> {
        let windows = case.windows.cells();
        let longest = windows.iter().map(Vec::len).max().unwrap();
        Passes {
            case,
            width: longest.next_multiple_of(64),
            tiles: windows.len().div_ceil(32),
        }
    }

    fn launch(
        &self,
        kernel: &str,
        operands: Vec<Operand>,
        grid: [usize; 3],
        threads: u32,
    ) -> Launch {
        let Heads { query, kv, dim } = self.case.heads;
        let args = ThreePass {
            group: (query / kv) as u32,
            first_head: 0,
            rows: self.case.windows.rows() as u32,
            cells: self.width as u32,
            q_stride: (self.case.width() + BEYOND[1]) as u32,
            y_stride: (self.case.width() + BEYOND[0]) as u32,
            cell_bytes: self.case.cell_bytes() as u32,
            scale: self.case.scale(),
        };
        Launch {
            file: THREE_PASS,
            kernel: kernel.to_lowercase(),
            constants: vec![(0, ConstantValue::U32(dim as u32))],
            arguments: args.as_bytes().to_vec(),
            bindings: (0..operands.len()).collect(),
            operands,
            grid: Grid::Threadgroups(Size(grid.map(|n| n as u32))),
            threadgroup: [threads, 1, 1],
        }
    }

    fn positions(&self) -> Operand {
        Operand::integers(&self.case.windows.encoded().0)
    }

    /// Scores; those that nothing writes stay NaN.
    fn scores(&self) -> Launch {
        let Case {
            ty, q, keys, heads, ..
        } = self.case;
        let mut scores = Operand::output(self.width, heads.query * self.tiles * 32);
        scores.words.fill(f32::NAN.to_bits());
        let operands = vec![
            scores,
            Operand::input(self.case.width(), q).strided(self.case.width() + BEYOND[1]),
            Operand::bytes(keys),
            self.positions(),
        ];
        let grid = [self.width / 64, self.tiles, heads.query];
        self.launch(&format!("three_pass_scores_{ty}"), operands, grid, 128)
    }

    fn weights(&self, scores: &[f32]) -> Launch {
        let operands = vec![Operand::input(self.width, scores), self.positions()];
        let grid = [self.case.heads.query, self.case.windows.rows(), 1];
        self.launch("three_pass_weights", operands, grid, 32)
    }

    fn outputs(&self, weights: &[f32]) -> Launch {
        let Case {
            ty, values, heads, ..
        } = self.case;
        let y = Operand::output(self.case.width(), self.case.windows.rows());
        let operands = vec![
            y.strided(self.case.width() + BEYOND[0]),
            Operand::input(self.width, weights),
            Operand::bytes(values),
            self.positions(),
        ];
        let grid = [heads.dim / 64, self.tiles, heads.query];
        self.launch(&format!("three_pass_outputs_{ty}"), operands, grid, 128)
    }
}

/// The three kernels, in every mode.
pub fn run(case: &Case) -> Vec<f32> {
    let passes = Passes::of(case);
    let scores = passes.scores().run_floats();
    let weights = passes.weights(&scores).run_floats();
    passes.outputs(&weights).run_floats()
}

pub fn launches() -> Vec<Launch> {
    let scores = [1.0; 2 * 32 * 64];
    let launches = [F32, F16, Q8_0].map(|ty| {
        let case = Case::new(ty, heads(2, 1, 64), 40, causal(&[40, 3]));
        let passes = Passes::of(&case);
        [
            passes.scores(),
            passes.weights(&scores),
            passes.outputs(&scores),
        ]
    });
    launches.into_iter().flatten().collect()
}

fn check(ty: TensorType, heads: Heads, windows: Windows) {
    let case = Case::new(ty, heads, CELLS, windows);
    let difference = difference(&run(&case), &case.expected());
    assert!(difference <= TOLERANCE, "{ty} {heads:?}: {difference:e}");
}

/// Consecutive positions, as those of a prompt, of two tiles.
fn prompt(rows: i32, first: i32) -> Windows {
    Windows::Causal((first..first + rows).collect())
}

#[test]
fn f32_cells() {
    check(F32, heads(2, 2, 64), causal(&KEYS));
    check(F32, heads(3, 1, 128), causal(&[33, 64, 257]));
}

#[test]
fn f16_cells() {
    check(F16, heads(2, 1, 64), prompt(37, 20));
    check(F16, heads(4, 2, 128), causal(&[31, 130]));
}

#[test]
fn q8_0_cells() {
    check(Q8_0, heads(2, 1, 128), causal(&KEYS));
    check(Q8_0, heads(2, 2, 64), prompt(33, 0));
}

/// Every weight is far from 1 unless the largest score of the row's own cells is its scale.
#[test]
fn scores_far_from_zero() {
    const FACTOR: f32 = 64.0;
    let mut case = Case::new(F32, heads(2, 1, 64), CELLS, causal(&[130, 257, 2]));
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
fn companions_do_not_change_a_bit() {
    for (ty, dim) in [(F16, 64), (Q8_0, 128)] {
        let case = Case::new(ty, heads(1, 1, dim), CELLS, causal(&[65, 1, 33, 130, 64]));
        properties::companions_do_not_change_a_bit(run, &case);
    }
}

#[test]
fn cells_outside_of_a_window_are_not_read() {
    for ty in [F32, Q8_0] {
        let case = Case::new(ty, heads(1, 1, 64), 100, causal(&[40, 70, 69, 3, 100]));
        properties::cells_outside_of_a_window_are_not_read(run, &case, &[69, 80]);
    }
}

#[test]
fn cells_after_the_last_are_not_read() {
    for ty in [F32, F16, Q8_0] {
        let case = Case::new(ty, heads(2, 1, 64), 33, causal(&[33]));
        let difference = difference(&run(&case), &case.expected());
        assert!(difference <= TOLERANCE, "{ty}: {difference:e}");
    }
}
