//! Edits of rows in a KV region, between steps.

use minfer_graph::{KeyRope, KvRegion, Operand, Rotation, RowCopy, RowCount};

use super::CpuBackend;
use super::buffers::Buffers;
use super::error::{NodeError, require};
use crate::ops::kv::{self, Turn};
use crate::ops::rope::FrequenciesRef;
use crate::view::MatRef;

/// Moves rows within keys and values.
pub(super) fn copy(
    buffers: &mut Buffers,
    region: &KvRegion,
    copy: RowCopy,
) -> Result<(), NodeError> {
    let cell_bytes = region.shape.cell_bytes()?;
    check_cells(region, copy.from, copy.len)?;
    check_cells(region, copy.to, copy.len)?;
    let from = copy.from * cell_bytes..(copy.from + copy.len) * cell_bytes;
    for buffer in [region.keys, region.values] {
        let bytes = buffers.bytes_mut(buffer, 0, cell_bytes * region.shape.cells)?;
        bytes.copy_within(from.clone(), copy.to * cell_bytes);
    }
    Ok(())
}

impl CpuBackend {
    /// Turns keys back, cell by cell on any worker.
    pub(super) fn turn_back(
        &mut self,
        region: &KvRegion,
        rotation: Rotation,
        rope: &KeyRope,
    ) -> Result<(), NodeError> {
        let shape = region.shape;
        let words = shape.cell_bytes()? / 4;
        check_cells(region, rotation.cell, rotation.len)?;
        let n_rot = rope.n_rot;
        let valid = n_rot > 0 && n_rot.is_multiple_of(2) && n_rot <= shape.head_dim;
        let heads = format_args!("even, at most {}", shape.head_dim);
        require(valid, "n_rot", n_rot, heads)?;
        let Some(position) = i32::try_from(rotation.by).ok().map(|by| -by) else {
            let most = format_args!("at most {}", i32::MAX);
            return Err(NodeError::value("the shift", rotation.by, most));
        };
        let factors = match &rope.factors {
            Some(name) => self.weights.named_vector(name, n_rot / 2)?,
            None => &[],
        };
        let frequencies = FrequenciesRef {
            n_rot,
            base: rope.freq_base,
            scale: rope.freq_scale,
            factors,
        };
        let angles = &mut self.scratch.angles;
        angles.prepare(&self.pool, frequencies, MatRef::new(&[position], 1, 1));
        let turn = Turn {
            style: rope.style,
            head_dim: shape.head_dim,
            angles: angles.row(0),
        };
        // A cell is whole words, so cells are the rows of a matrix.
        let cells = Operand {
            buffer: region.keys,
            offset: rotation.cell * words,
            width: words,
            stride: words,
            rows: RowCount {
                prompt: rotation.len,
                generated: 0,
            },
        };
        // SAFETY: `self` is borrowed mutably, and this is the only view of its buffers.
        let cells = unsafe { self.buffers.view_mut(&cells) }?;
        cells.for_each_row(&self.pool, |_, cell| {
            kv::turn(shape.format, self.isa, cell, shape.width, turn);
        });
        Ok(())
    }
}

fn check_cells(region: &KvRegion, first: usize, len: usize) -> Result<(), NodeError> {
    let cells = region.shape.cells;
    let end = first.saturating_add(len);
    let found = format_args!("{first}..{end}");
    require(end <= cells, "the rows", found, format_args!("0..{cells}"))
}
