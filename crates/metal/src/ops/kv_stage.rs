//! Cells that rows see, from a packed region to f32.

use minfer_graph::{KvFormat, KvShape, WindowLayout};

use super::attention::{cells_read, runs};
use super::kv::Cells;
use super::{Encode, Kernel, OpError, copied, number};
use crate::arguments::KvStage;
use crate::device::{Access, Argument, BufferRange, Device};
use crate::kernels::KV_STAGE;

const NAME: &str = "kv_stage_q8_0";
/// Features that a thread takes.
const VECTOR: usize = 4;

/// The cells that windows see, close together, and the windows of the same rows there.
#[derive(Debug, PartialEq, Eq)]
pub struct Staging {
    /// First cells and ends in the region, ascending and apart.
    runs: Vec<[usize; 2]>,
    windows: Vec<i32>,
}

impl Staging {
    /// That of rows with these windows on a region of `cells` cells.
    ///
    /// # Errors
    /// A window that is not in the region.
    pub fn new(layout: WindowLayout, windows: &[i32], cells: usize) -> Result<Self, OpError> {
        let width = layout.input_width().max(1);
        cells_read(NAME, layout, windows, cells)?;
        let rows = windows.chunks(width);
        let seen = rows.flat_map(|row| runs(layout, row));
        let mut seen: Vec<_> = seen.map(|run| run.map(|cell| cell as usize)).collect();
        seen.sort_unstable();
        let mut runs: Vec<[usize; 2]> = Vec::new();
        for [first, end] in seen {
            match runs.last_mut() {
                Some(last) if first <= last[1] => last[1] = last[1].max(end),
                _ => runs.push([first, end]),
            }
        }
        let pairs = windows.as_chunks().0.iter();
        let windows = match layout {
            // All start with cell 0.
            WindowLayout::Causal => windows.to_vec(),
            WindowLayout::Span => {
                let moved = pairs.flat_map(|&[first, end]| {
                    let to = place(&runs, first, end - first);
                    [to, to + end - first]
                });
                moved.collect()
            }
            WindowLayout::Map => {
                let moved = pairs.flat_map(|&[first, len]| [place(&runs, first, len), len]);
                moved.collect()
            }
        };
        Ok(Staging { runs, windows })
    }

    /// Number of the cells.
    pub fn cells(&self) -> usize {
        self.runs.iter().map(|[first, end]| end - first).sum()
    }

    /// The windows of the rows on the staged cells.
    pub fn windows(&self) -> &[i32] {
        &self.windows
    }

    /// The region of the staged cells of a region; it has at least one cell, since kernels bind one.
    pub fn shape(&self, region: KvShape) -> KvShape {
        KvShape {
            cells: self.cells().max(1),
            format: KvFormat::F32,
            ..region
        }
    }
}

/// Where a run of cells that are seen lies among those; anywhere if it is empty.
fn place(runs: &[[usize; 2]], first: i32, len: i32) -> i32 {
    let mut before = 0;
    for [start, end] in runs.iter().map(|run| run.map(|cell| cell as i32)) {
        if len > 0 && (start..end).contains(&first) {
            return before + first - start;
        }
        before += end - start;
    }
    0
}

/// Writes the cells of a packed region that windows see to a region of [`Staging::shape`], without rounding.
pub fn kv_stage<D: Device>(
    encode: &mut Encode<'_, D>,
    to: Cells<'_, D::Buffer>,
    from: Cells<'_, D::Buffer>,
    staging: &Staging,
) -> Result<(), OpError> {
    if from.shape.format != KvFormat::Q8_0 {
        let found = format!("{:?}", from.shape.format);
        return Err(OpError::value(
            NAME,
            "the format of the region",
            found,
            "Q8_0",
        ));
    }
    let expected = staging.shape(from.shape);
    if to.shape != expected {
        let [found, expected] = [to.shape, expected].map(|shape| format!("{shape:?}"));
        let what = "the shape of the staged cells";
        return Err(OpError::value(NAME, what, found, expected));
    }
    let [to_bytes, from_bytes] = [to.cell_bytes(NAME)?, from.cell_bytes(NAME)?];
    let vectors = from.shape.width / VECTOR;
    let arguments = KvStage {
        vectors: number(NAME, "the width of the region", vectors)?,
        cell_bytes: number(NAME, "the bytes of a cell", from_bytes)?,
    };
    let kernel = Kernel {
        file: KV_STAGE,
        name: NAME,
        constants: &[],
    };
    let mut staged = 0;
    for [first, end] in &staging.runs {
        let cells = end - first;
        let range = |buffer, first: usize, bytes: usize| BufferRange {
            buffer,
            offset: first.saturating_mul(bytes),
            bytes: cells.saturating_mul(bytes),
        };
        let to = Argument::Buffer {
            index: 1,
            range: range(to.buffer, staged, to_bytes),
            access: Access::Write,
        };
        let from = Argument::Buffer {
            index: 2,
            range: range(from.buffer, *first, from_bytes),
            access: Access::Read,
        };
        encode.threads(kernel, [vectors, cells, 1], &[copied(&arguments), to, from])?;
        staged += cells;
    }
    Ok(())
}
