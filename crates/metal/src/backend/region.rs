//! Edits of rows in a KV region, between steps.

use minfer_graph::{BufferId, KeyRope, KvRegion, Rotation, RowCopy};

use super::MetalBackend;
use super::buffers::{Buffers, Pending};
use super::error::{NodeError, require};
use super::scratch::Purpose;
use crate::device::{Buffer, BufferCopy, BufferRange, Device};
use crate::ops::kv::Cells;
use crate::ops::kv_rotate::kv_rotate;

/// Bytes in between at a time, if a row is not larger.
const PART_BYTES: usize = 16 << 20;

impl<B: Buffer> Buffers<B> {
    /// Keys or values of a region.
    pub(super) fn cells(
        &self,
        region: &KvRegion,
        part: BufferId,
    ) -> Result<Cells<'_, B>, NodeError> {
        let bytes = region
            .shape
            .cell_bytes()?
            .saturating_mul(region.shape.cells);
        Ok(Cells {
            buffer: self.range(part, 0, bytes)?.buffer,
            shape: region.shape,
        })
    }
}

impl<D: Device> MetalBackend<D> {
    /// Moves rows within keys and values.
    pub(super) fn copy_cells(&mut self, region: &KvRegion, copy: RowCopy) -> Result<(), NodeError> {
        check_cells(region, copy.from, copy.len)?;
        check_cells(region, copy.to, copy.len)?;
        let distance = copy.from.abs_diff(copy.to);
        if copy.len == 0 || distance == 0 {
            return Ok(());
        }
        for part in [region.keys, region.values] {
            self.buffers.mark(part, Pending::Writes);
        }
        let cell_bytes = region.shape.cell_bytes()?;
        if copy.len <= distance {
            let range = |part, row| {
                self.buffers
                    .range(part, row * cell_bytes, copy.len * cell_bytes)
            };
            let keys = blit(range(region.keys, copy.from)?, range(region.keys, copy.to)?);
            let values = blit(
                range(region.values, copy.from)?,
                range(region.values, copy.to)?,
            );
            return Ok(self.commands.copy(&[keys, values])?);
        }
        let most = (PART_BYTES / cell_bytes).clamp(1, copy.len);
        let between = self.scratch(Purpose::Rows, 2 * most * cell_bytes)?;
        self.copy_through(between, region, copy, most)
    }

    /// Copies ranges that overlap, `most` rows at a time by way of a buffer: a blit must not overlap itself. No
    /// row is overwritten before it was read.
    fn copy_through(
        &mut self,
        between: BufferId,
        region: &KvRegion,
        copy: RowCopy,
        most: usize,
    ) -> Result<(), NodeError> {
        let cell_bytes = region.shape.cell_bytes()?;
        for part in copy.parts(most) {
            let bytes = part.len * cell_bytes;
            let range = |id, offset| self.buffers.range(id, offset, bytes);
            let held = [range(between, 0)?, range(between, most * cell_bytes)?];
            let mut copies = Vec::with_capacity(4);
            for (cells, held) in [region.keys, region.values].into_iter().zip(held) {
                copies.push(blit(range(cells, part.from * cell_bytes)?, held));
                copies.push(blit(held, range(cells, part.to * cell_bytes)?));
            }
            self.commands.copy(&[copies[0], copies[2]])?;
            self.commands.copy(&[copies[1], copies[3]])?;
        }
        Ok(())
    }

    /// Turns keys back, in place.
    pub(super) fn turn_back(
        &mut self,
        region: &KvRegion,
        rotation: Rotation,
        rope: &KeyRope,
    ) -> Result<(), NodeError> {
        check_cells(region, rotation.cell, rotation.len)?;
        let most = i32::MAX as usize;
        require(
            rotation.by <= most,
            "the shift",
            rotation.by,
            format_args!("at most {most}"),
        )?;
        let factors = match &rope.factors {
            Some(name) => Some(self.weights.host_vector(name, rope.n_rot / 2)?),
            None => None,
        };
        self.buffers.mark(region.keys, Pending::Writes);
        let keys = self.buffers.cells(region, region.keys)?;
        let encode = &mut self.commands.encode("turn keys back")?;
        let factors = factors.as_deref();
        Ok(kv_rotate(encode, keys, rotation, rope, factors)?)
    }
}

/// A copy between ranges of the same length.
pub(super) fn blit<'a, B>(from: BufferRange<'a, B>, to: BufferRange<'a, B>) -> BufferCopy<'a, B> {
    BufferCopy {
        from,
        to: to.buffer,
        to_offset: to.offset,
    }
}

fn check_cells(region: &KvRegion, first: usize, len: usize) -> Result<(), NodeError> {
    let cells = region.shape.cells;
    let end = first.saturating_add(len);
    require(
        end <= cells,
        "a range of rows",
        format_args!("{first}..{end}"),
        format_args!("0..{cells}"),
    )
}
