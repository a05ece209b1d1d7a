//! What an instruction set must offer.

use super::precision::PrefillPrecision;
use super::tile::{Block, Element, ROWS, Tile};
use crate::matmul::out_rows::OutRows;

/// Up to 16 rows of activations, `width` elements each.
#[derive(Clone, Copy)]
pub struct Group<'a> {
    /// Rows from the first one on.
    pub rows: &'a [f32],
    /// Elements between the starts of two rows.
    pub stride: usize,
    /// Number of rows.
    pub n: usize,
    /// Elements of a row.
    pub width: usize,
}

impl<'a> Group<'a> {
    /// Row `r`; empty past the last row.
    pub fn row(&self, r: usize) -> &'a [f32] {
        if r < self.n {
            &self.rows[r * self.stride..][..self.width]
        } else {
            &[]
        }
    }
}

/// Panels of equal length that meet in a 32 × 32 block.
pub struct Operands<'a, T> {
    /// Two panels of weights.
    pub weights: [&'a [Tile<T>]; 2],
    /// One or two panels of activations.
    pub groups: &'a [&'a [Tile<T>]],
    /// Terms of either operand.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(dead_code, reason = "AMX alone sums terms")
    )]
    pub terms: usize,
}

/// Where a block goes.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The product's value.
    pub out: OutRows<'a>,
    /// First output and number of outputs, at most 32.
    pub outputs: (usize, usize),
    /// First row and number of rows, at most 32.
    pub rows: (usize, usize),
}

/// Packing and multiplying in the instructions of one level.
///
/// # Safety
/// All functions require the level's features, [`Kernel::multiply`] also a live
/// [`Kernel::Session`] of the calling thread.
pub trait Kernel {
    /// Element of packed operands.
    type Element: Element;
    /// Per-thread state of the processor that [`Kernel::multiply`] needs.
    type Session;
    /// Elements of the sum between visits of the same block, times the terms: two panels of this
    /// length fit in the first-level cache.
    const DEPTH: usize;

    /// Terms that an element of an operand is the sum of. f32 holds it in one.
    fn terms(_: PrefillPrecision) -> usize {
        1
    }

    /// Prepares the processor.
    unsafe fn session() -> Self::Session;

    /// Writes a row of weights, a whole number of steps long, as row `r` of a panel. A second term
    /// holds what rounding took from the first.
    unsafe fn pack_weights(row: &[f32], panel: &mut [Tile<Self::Element>], r: usize, terms: usize);

    /// Writes rows of activations as a panel, padding rows and columns with zeros. Terms are as for
    /// weights.
    unsafe fn pack_group(group: Group<'_>, panel: &mut [Tile<Self::Element>], terms: usize);

    /// Adds products to a block, or sets it if this is the first of its sum. Every element is summed
    /// in the order of its columns, independently of all others.
    unsafe fn multiply(operands: &Operands<'_, Self::Element>, block: &mut Block, first: bool);

    /// Writes a finished block. No other thread may access its outputs.
    unsafe fn store(block: &Block, target: Target<'_>) {
        let (first_row, n_rows) = target.rows;
        let (first_output, n_outputs) = target.outputs;
        for r in 0..n_rows {
            // SAFETY: only this thread accesses these outputs, and one slice lives at a time.
            let out = unsafe { target.out.slice_mut(first_row + r, first_output, n_outputs) };
            for (o, out) in out.iter_mut().enumerate() {
                *out = block.0[o / ROWS][r / ROWS][o % ROWS][r % ROWS];
            }
        }
    }
}
