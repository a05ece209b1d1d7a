//! Copies of values for traces.

use minfer_graph::{BufferId, Operand};

use super::MetalBackend;
use super::buffers::Pending;
use super::error::NodeError;
use super::region::blit;
use crate::device::Device;

/// Bytes of an element.
const ELEMENT: usize = 4;

impl<D: Device> MetalBackend<D> {
    /// Appends copies of a value's rows, one after another, to a buffer of their own.
    pub(super) fn copy_aside(&mut self, value: &Operand) -> Result<BufferId, NodeError> {
        self.buffers.rows(value)?;
        let row_bytes = ELEMENT * value.width;
        let rows = value.rows.total();
        let aside = self
            .buffers
            .alloc_scratch(&self.commands.device, row_bytes * rows)?;
        let copied = self.copy_rows_aside(value, aside);
        if copied.is_err() {
            self.buffers.free(&self.commands.device, aside);
        }
        copied.map(|()| aside)
    }

    fn copy_rows_aside(&mut self, value: &Operand, aside: BufferId) -> Result<(), NodeError> {
        // Rows without gaps are one.
        let (width, rows) = match value.rows.total() {
            rows if value.stride == value.width => (value.width * rows, 1),
            rows => (value.width, rows),
        };
        let bytes = ELEMENT * width;
        let mut copies = Vec::with_capacity(rows);
        for row in 0..rows {
            let first = ELEMENT * (value.offset + row * value.stride);
            let from = self.buffers.range(value.buffer, first, bytes)?;
            copies.push(blit(from, self.buffers.range(aside, row * bytes, bytes)?));
        }
        self.commands.copy(&copies)?;
        drop(copies);
        self.buffers.mark(value.buffer, Pending::Reads);
        self.buffers.mark(aside, Pending::Writes);
        Ok(())
    }
}
