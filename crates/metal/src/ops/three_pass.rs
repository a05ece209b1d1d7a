//! Softmax attention of prompt rows in three passes: scores, weights, outputs.

use minfer_graph::{Attention, KvFormat, WindowLayout};

use super::attention::{Inputs, SIMD_WIDTH, check, has_flash_heads, keys};
use super::kernels::constants;
use super::split_attention::MOST_SCORES;
use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments::ThreePass;
use crate::device::{Access, Argument, Buffer, Device};
use crate::kernels::THREE_PASS;

/// Rows and cells of a tile of scores, and features of a tile of outputs, as in the kernels.
const ROWS: usize = 32;
const CELLS: usize = 64;
const FEATURES: usize = 64;
/// Simdgroups that share a tile, as in the kernels.
const SIMDGROUPS: usize = 4;
const NAME: &str = "three_pass";

/// Whether there are kernels for the heads and windows.
pub fn serves(attention: &Attention) -> bool {
    has_flash_heads(attention) && attention.window == WindowLayout::Causal
}

/// Width and rows of the memory for scores of rows at these positions: of all, or of as many heads and tiles of 32
/// rows as there is room for.
pub fn scores(attention: &Attention, positions: &[i32]) -> [usize; 2] {
    let longest = keys(attention.window, positions).max().unwrap_or(0);
    let width = longest.max(1).next_multiple_of(CELLS);
    let room = (MOST_SCORES / ROWS / width).max(1);
    let tiles = positions.len().div_ceil(ROWS);
    let at_once = match room / attention.n_head.max(1) {
        0 => room,
        fitting => fitting.min(tiles).saturating_mul(attention.n_head),
    };
    [width, at_once.saturating_mul(ROWS)]
}

/// `y = softmax(scale * q k) v`, each row over the cells up to its position, with heads of 64 or 128 features.
///
/// `scores` is scratch memory of the width that [`scores`](scores()) gives and 32 rows or more; all heads and rows
/// take turns in it. A row's result depends on its query and its cells alone, bit for bit. A value that is not finite
/// makes 64 features of its head NaN for the rows that see it.
pub fn three_pass<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
    scores: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    if !serves(attention) {
        let found = format!("{} of {:?}", attention.head_dim, attention.window);
        let expected = "64 or 128 of Causal";
        return Err(OpError::value(NAME, "head_dim", found, expected));
    }
    let lanes = encode.device.info().simd_width;
    let cells = check(NAME, attention, &y, &inputs, lanes)?;
    if y.is_empty() {
        return Ok(());
    }
    let [width, _] = self::scores(attention, inputs.windows.values);
    same(NAME, "the width of the scores", scores.width, width)?;
    same(NAME, "the scores' stride", scores.stride, width)?;
    let tiles = scores.rows / ROWS;
    if tiles == 0 {
        let expected = format_args!("at least {ROWS}").to_string();
        let what = "the rows of the scores";
        return Err(OpError::value(NAME, what, scores.rows, expected));
    }
    let rows_at_once = ROWS * (tiles / attention.n_head).max(1);
    let (mut y, mut inputs) = (y, inputs);
    while !y.is_empty() {
        let [now, later] = y.split_at(rows_at_once);
        let [of_now, of_later] = inputs.split_at(rows_at_once);
        for first in (0..attention.n_head).step_by(tiles) {
            let passes = Passes {
                attention,
                heads: [first, tiles.min(attention.n_head - first)],
                y: now,
                inputs: of_now,
                cells,
                scores,
            };
            passes.encode(encode)?;
        }
        (y, inputs) = (later, of_later);
    }
    Ok(())
}

/// Rows and heads whose scores are in memory together.
struct Passes<'a, B> {
    attention: &'a Attention,
    /// The first, and how many.
    heads: [usize; 2],
    y: Rows<'a, B>,
    inputs: Inputs<'a, B>,
    /// Cells that are read, from the first on.
    cells: usize,
    scores: Rows<'a, B>,
}

impl<B: Buffer> Passes<'_, B> {
    fn encode<D: Device<Buffer = B>>(&self, encode: &mut Encode<'_, D>) -> Result<(), OpError> {
        let Inputs {
            q,
            keys,
            values,
            windows,
        } = self.inputs;
        let [scores, weights, outputs] = names(keys.shape.format);
        let [_, heads] = self.heads;
        let tiles = self.y.rows.div_ceil(ROWS);
        let positions = |index| windows.rows.argument(NAME, index, Access::Read);
        let scratch = |access| {
            self.scores
                .argument(NAME, if access == Access::Write { 1 } else { 2 }, access)
        };
        let threads = SIMDGROUPS * SIMD_WIDTH;
        let grid = [self.scores.width / CELLS, tiles, heads];
        let operands = [
            scratch(Access::Write)?,
            q.argument(NAME, 2, Access::Read)?,
            keys.argument(NAME, 3, self.cells, Access::Read)?,
            positions(4)?,
        ];
        self.pass(encode, scores, grid, threads, &operands)?;
        let operands = [scratch(Access::Write)?, positions(2)?];
        let grid = [heads, self.y.rows, 1];
        self.pass(encode, weights, grid, SIMD_WIDTH, &operands)?;
        let operands = [
            self.y.argument(NAME, 1, Access::Write)?,
            scratch(Access::Read)?,
            values.argument(NAME, 3, self.cells, Access::Read)?,
            positions(4)?,
        ];
        let grid = [self.attention.head_dim / FEATURES, tiles, heads];
        self.pass(encode, outputs, grid, threads, &operands)
    }

    /// One of the kernels, all of which take the same arguments.
    fn pass<D: Device<Buffer = B>>(
        &self,
        encode: &mut Encode<'_, D>,
        name: &'static str,
        grid: [usize; 3],
        threads: usize,
        operands: &[Argument<'_, B>],
    ) -> Result<(), OpError> {
        let attention = self.attention;
        let cell_bytes = self.inputs.keys.cell_bytes(name)?;
        let arguments = ThreePass {
            group: number(name, "n_head", attention.n_head / attention.n_head_kv)?,
            first_head: number(name, "n_head", self.heads[0])?,
            rows: number(name, "the rows", self.y.rows)?,
            cells: number(name, "cells", self.scores.width)?,
            q_stride: number(name, "a stride", self.inputs.q.stride)?,
            y_stride: number(name, "a stride", self.y.stride)?,
            cell_bytes: number(name, "the bytes of a cell", cell_bytes)?,
            scale: attention.scale,
        };
        let kernel = Kernel {
            file: THREE_PASS,
            name,
            constants: &constants(name, [(0, attention.head_dim)])?,
        };
        let mut all = vec![copied(&arguments)];
        all.extend_from_slice(operands);
        encode.groups(kernel, grid, threads, &all)
    }
}

fn names(format: KvFormat) -> [&'static str; 3] {
    let [scores, outputs] = match format {
        KvFormat::F32 => ["three_pass_scores_f32", "three_pass_outputs_f32"],
        KvFormat::F16 => ["three_pass_scores_f16", "three_pass_outputs_f16"],
        KvFormat::Q8_0 => ["three_pass_scores_q8_0", "three_pass_outputs_q8_0"],
    };
    [scores, "three_pass_weights", outputs]
}
