//! The loops around the kernels.

use std::ops::Range;

use super::kernel::{Kernel, Operands, Target};
use super::packed_rows::PackedRows;
use super::tile::{Block, Buffers, Element, ROWS, STEP};
use super::{CHUNK, Weight};
use crate::dequant::{Dequantize, dequantizer};
use crate::matmul::out_rows::OutRows;

/// Outputs and rows of a [`Block`].
const BLOCK: usize = 2 * ROWS;

/// Activation rows per pass: bounds the blocks that wait between slices (256 KiB), at the price of
/// dequantizing again in the next pass.
const PASS: usize = 1024;

/// Memory of one thread, reused from call to call.
#[derive(Default)]
pub(crate) struct TileScratch {
    row: Vec<f32>,
    weights: Buffers,
    blocks: Vec<Block>,
}

/// Consecutive columns of the sum.
struct Slice {
    columns: Range<usize>,
    first: bool,
    last: bool,
}

impl Slice {
    fn steps(&self) -> Range<usize> {
        self.columns.start / STEP..self.columns.end.div_ceil(STEP)
    }
}

/// Cuts `width` columns into slices of `depth`; a row that is hardly longer stays whole. Cuts are at
/// multiples of `depth`, hence at whole quantized blocks.
fn slices(width: usize, depth: usize) -> impl Iterator<Item = Slice> {
    let depth = if width <= depth + depth / 4 {
        width
    } else {
        depth
    };
    (0..width).step_by(depth).map(move |start| {
        let end = width.min(start + depth);
        Slice {
            columns: start..end,
            first: start == 0,
            last: end == width,
        }
    })
}

/// A product of a weight and packed activations.
pub struct Product<'a> {
    weight: Weight<'a>,
    row_bytes: usize,
    dequantize: Dequantize,
    x: &'a PackedRows,
    out: OutRows<'a>,
}

impl<'a> Product<'a> {
    /// # Panics
    /// When shapes disagree or the weight's type has no kernel.
    pub fn new(weight: Weight<'a>, x: &'a PackedRows, out: OutRows<'a>) -> Self {
        let Weight { ty, width, .. } = weight;
        assert!(width > 0 && width == x.width(), "elements of a row");
        assert!(x.rows() <= out.rows(), "rows of the product");
        match (ty.row_bytes(width), dequantizer(x.isa(), ty)) {
            (Some(row_bytes), Some(dequantize)) => Product {
                weight,
                row_bytes,
                dequantize,
                x,
                out,
            },
            _ => panic!("no {ty} kernel for rows of {width}"),
        }
    }

    /// Outputs that both the weight and the product have.
    pub fn outputs(&self) -> usize {
        self.out
            .width()
            .min(self.weight.bytes.len() / self.row_bytes)
    }

    /// Computes at most [`CHUNK`] outputs of all rows.
    ///
    /// # Safety
    /// The level of `K` is available and the one of the packed rows; no other thread accesses these
    /// outputs.
    pub unsafe fn chunk<K: Kernel>(&self, outputs: Range<usize>, scratch: &mut TileScratch) {
        // SAFETY: the level is available.
        let _session = unsafe { K::session() };
        for first in (0..self.x.rows()).step_by(PASS) {
            let rows = first..self.x.rows().min(first + PASS);
            let depth = K::DEPTH / self.x.terms();
            for slice in slices(self.weight.width, depth) {
                // SAFETY: the session is live and the outputs are ours.
                unsafe {
                    self.fill::<K>(&outputs, &slice, scratch);
                    self.multiply::<K>(&outputs, &rows, &slice, scratch);
                }
            }
        }
    }

    /// Dequantizes a slice of the weight rows into panels.
    ///
    /// # Safety
    /// The level of `K` is available.
    unsafe fn fill<K: Kernel>(
        &self,
        outputs: &Range<usize>,
        slice: &Slice,
        scratch: &mut TileScratch,
    ) {
        let steps = slice.steps().len();
        let terms = self.x.terms();
        let length = steps * terms;
        let panels = K::Element::reserve(&mut scratch.weights, CHUNK / ROWS * length);
        let (ty, columns) = (self.weight.ty, &slice.columns);
        let byte = |column: usize| column / ty.block_len() * ty.block_bytes();
        scratch.row.resize(steps * STEP, 0.0);
        // A slice that ends within a step ends the row: the rest of the step counts for nothing.
        scratch.row[columns.len()..].fill(0.0);
        for (i, o) in outputs.clone().enumerate() {
            let row = &self.weight.bytes[o * self.row_bytes..][..self.row_bytes];
            let bytes = &row[byte(columns.start)..byte(columns.end)];
            (self.dequantize)(bytes, &mut scratch.row[..columns.len()]);
            let panel = &mut panels[i / ROWS * length..][..length];
            // SAFETY: the level is available.
            unsafe { K::pack_weights(&scratch.row, panel, i % ROWS, terms) }
        }
    }

    /// Multiplies the panels with a slice of the activations.
    ///
    /// # Safety
    /// As [`Product::chunk`], with a live session; the panels are filled.
    unsafe fn multiply<K: Kernel>(
        &self,
        outputs: &Range<usize>,
        rows: &Range<usize>,
        slice: &Slice,
        scratch: &mut TileScratch,
    ) {
        let terms = self.x.terms();
        let length = slice.steps().len() * terms;
        let per_chunk = CHUNK / BLOCK;
        let waiting = if slice.first && slice.last {
            1
        } else {
            rows.len().div_ceil(BLOCK) * per_chunk
        };
        if scratch.blocks.len() < waiting {
            scratch.blocks.resize(waiting, Block::ZERO);
        }
        let panels = K::Element::of(&scratch.weights);
        for (i, row) in rows.clone().step_by(BLOCK).enumerate() {
            let n_rows = (rows.end - row).min(BLOCK);
            for (j, output) in outputs.clone().step_by(BLOCK).enumerate() {
                let block = &mut scratch.blocks[(i * per_chunk + j) % waiting];
                let weights = [0, 1].map(|half| &panels[(2 * j + half) * length..][..length]);
                let panel = |half| self.x.panel(row / ROWS + half, slice.steps());
                let groups: &[_] = match n_rows > ROWS {
                    true => &[panel(0), panel(1)],
                    false => &[panel(0)],
                };
                let operands = Operands {
                    weights,
                    groups,
                    terms,
                };
                // SAFETY: by this function's contract.
                unsafe { K::multiply(&operands, block, slice.first) }
                if slice.last {
                    let target = Target {
                        out: self.out,
                        outputs: (output, (outputs.end - output).min(BLOCK)),
                        rows: (row, n_rows),
                    };
                    // SAFETY: the level is available and the outputs are ours.
                    unsafe { K::store(block, target) }
                }
            }
        }
    }
}
