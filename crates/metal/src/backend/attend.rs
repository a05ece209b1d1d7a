//! Attention: the kernels of prompt and generated rows, and the memory they need beside the operands.

use minfer_graph::{Attention, Op, Operand, Task, WindowLayout};

use super::MetalBackend;
use super::buffers::Pending;
use super::call::Call;
use super::choices::GeneratedAttention;
use super::error::NodeError;
use super::execute::{INTEGER, Operands, list};
use crate::device::Device;
use crate::ops::flash_decode::{self, Chunks};
use crate::ops::{Encode, attention};

impl<D: Device> MetalBackend<D> {
    /// Makes room for the partial results of generated rows.
    pub(super) fn make_partials(
        &mut self,
        task: &Task<'_>,
        operands: &mut Operands,
    ) -> Result<(), NodeError> {
        let Op::Attention(attention) = &task.node.op else {
            return Ok(());
        };
        let GeneratedAttention::Flash { chunks } = self.choices.of_generated(attention) else {
            return Ok(());
        };
        if task.output.rows.generated == 0 {
            return Ok(());
        }
        let width = operands.inputs[windows_input(attention)].width;
        let prompt = task.output.rows.prompt.saturating_mul(width);
        let windows = self.indices.get(prompt..).unwrap_or_default();
        let [width, rows] = flash_decode::partials(attention, windows, chunks)?;
        let bytes = INTEGER.saturating_mul(width).saturating_mul(rows);
        let buffer = self.buffers.alloc_scratch(&self.commands.device, bytes)?;
        self.buffers.mark(buffer, Pending::Writes);
        let partials = Operand {
            width,
            stride: width,
            ..list(buffer, rows)
        };
        operands.partials = Some((chunks, partials));
        Ok(())
    }
}

/// The input that says which cells each row sees: positions, or a window.
pub(super) fn windows_input(attention: &Attention) -> usize {
    match attention.window {
        WindowLayout::Causal => 1,
        WindowLayout::Span | WindowLayout::Map => 3,
    }
}

impl<D: Device> Call<'_, D> {
    /// A row's role and the shape of heads choose the kernel.
    pub(super) fn attend(
        &self,
        encode: &mut Encode<'_, D>,
        attention: &Attention,
    ) -> Result<(), NodeError> {
        let region = self.region()?;
        let inputs = attention::Inputs {
            q: self.input(0)?,
            keys: self.cells(&region, region.keys)?,
            values: self.cells(&region, region.values)?,
            windows: self.indices(windows_input(attention))?,
        };
        let y = self.output()?;
        let Some((most, partials)) = &self.operands.partials else {
            return Ok(attention::attention(encode, attention, y, inputs)?);
        };
        let prompt = self.task.output.rows.prompt;
        let [prompt_y, y] = y.split_at(prompt);
        let [prompt_inputs, inputs] = inputs.split_at(prompt);
        attention::attention(encode, attention, prompt_y, prompt_inputs)?;
        let chunks = Chunks {
            most: *most,
            partials: self.buffers.rows(partials)?,
        };
        Ok(flash_decode::flash_decode(
            encode, attention, y, inputs, chunks,
        )?)
    }
}
