//! Memory for what lies between kernels.

use minfer_graph::BufferId;

use super::MetalBackend;
use super::buffers::Pending;
use super::error::NodeError;
use crate::device::Device;

/// What it is for. Uses for different things may overlap.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// Rows of a region on their way.
    Rows,
    /// Scores or partial results of prompt rows.
    Prompt,
    /// Those of generated rows.
    Generated,
    /// Staged keys.
    Keys,
    /// Staged values.
    Values,
}

/// One buffer for each purpose, for everything in a command buffer: barriers order the kernels that use it, and
/// encoders follow each other.
#[derive(Default)]
pub(super) struct Scratch([Option<(BufferId, usize)>; 5]);

impl<D: Device> MetalBackend<D> {
    /// At least `bytes` bytes, of contents that mean nothing, until everything encoded has run.
    pub(super) fn scratch(
        &mut self,
        purpose: Purpose,
        bytes: usize,
    ) -> Result<BufferId, NodeError> {
        let held = self.scratch.0[purpose as usize];
        if let Some((buffer, size)) = held
            && size >= bytes
        {
            return Ok(buffer);
        }
        if let Some((buffer, _)) = held {
            self.buffers.free(&self.commands.device, buffer);
        }
        self.scratch.0[purpose as usize] = None;
        let buffer = self.buffers.alloc_scratch(&self.commands.device, bytes)?;
        self.buffers.mark(buffer, Pending::Writes);
        self.scratch.0[purpose as usize] = Some((buffer, bytes));
        Ok(buffer)
    }

    /// Everything encoded has run, or never will.
    pub(super) fn free_scratch(&mut self) {
        for (buffer, _) in std::mem::take(&mut self.scratch).0.into_iter().flatten() {
            self.buffers.free(&self.commands.device, buffer);
        }
    }
}
