//! Attention: the kernels of prompt and generated rows, and the memory they need beside the operands.

use minfer_graph::{Attention, KvFormat, KvRegion, Op, Operand, Task, WindowLayout};

use super::MetalBackend;
use super::call::Call;
use super::choices::{GeneratedAttention, PromptAttention};
use super::error::NodeError;
use super::execute::{INTEGER, Operands, list, to_bytes};
use super::scratch::Purpose;
use crate::device::Device;
use crate::ops::attention::{self, Inputs};
use crate::ops::flash_decode::{self, Chunks};
use crate::ops::flash_prefill::flash_prefill;
use crate::ops::kv_stage::{Staging, kv_stage};
use crate::ops::split_attention::split_attention;
use crate::ops::three_pass::three_pass;
use crate::ops::{Encode, Rows};

/// Memory of an attention beside its operands.
#[derive(Default)]
pub(super) struct Memory {
    /// Scores of prompt rows.
    prompt: Option<Operand>,
    /// Scores or partial results of generated rows.
    generated: Option<Operand>,
    /// A region in f32 to read in place of the packed one.
    staged: Option<(KvRegion, Staging)>,
}

impl<D: Device> MetalBackend<D> {
    /// Makes room for what the kernels leave between them.
    pub(super) fn make_room(
        &mut self,
        task: &Task<'_>,
        operands: &mut Operands,
    ) -> Result<(), NodeError> {
        let (Op::Attention(attention), Some(region)) = (&task.node.op, task.kv) else {
            return Ok(());
        };
        self.stage(region, attention, operands)?;
        let rows = task.output.rows;
        let width = operands.inputs[windows_input(attention)].width;
        let at = rows.prompt.saturating_mul(width).min(self.indices.len());
        let windows = [&self.indices[..at], &self.indices[at..]];
        let staged = operands.memory.staged.as_ref();
        let region = staged.map_or(region, |(staged, _)| *staged);
        let [prompt, generated] = self
            .choices
            .scratch(attention, windows, region.shape.cells)?;
        operands.memory.prompt = self.room(Purpose::Prompt, prompt)?;
        operands.memory.generated = self.room(Purpose::Generated, generated)?;
        Ok(())
    }

    /// Scratch memory of a width and a number of rows.
    fn room(
        &mut self,
        purpose: Purpose,
        shape: Option<[usize; 2]>,
    ) -> Result<Option<Operand>, NodeError> {
        let Some([width, rows]) = shape else {
            return Ok(None);
        };
        let bytes = INTEGER.saturating_mul(width).saturating_mul(rows);
        Ok(Some(Operand {
            width,
            stride: width,
            ..list(self.scratch(purpose, bytes)?, rows)
        }))
    }

    /// Replaces a packed region and the windows on it by its cells in f32 and windows on those, if that was chosen.
    fn stage(
        &mut self,
        region: KvRegion,
        attention: &Attention,
        operands: &mut Operands,
    ) -> Result<(), NodeError> {
        if !self.choices.packed_stage || region.shape.format != KvFormat::Q8_0 {
            return Ok(());
        }
        let staging = Staging::new(attention.window, &self.indices, region.shape.cells)?;
        let shape = staging.shape(region.shape);
        let bytes = shape.cell_bytes()?.saturating_mul(shape.cells);
        let staged = KvRegion {
            shape,
            keys: self.scratch(Purpose::Keys, bytes)?,
            values: self.scratch(Purpose::Values, bytes)?,
        };
        if staging.windows() != self.indices {
            let input = windows_input(attention);
            let buffer = self.made(&to_bytes(staging.windows()))?;
            if let Some(packed) = operands.made[input].replace(buffer) {
                self.buffers.free(&self.commands.device, packed);
            }
            operands.inputs[input].buffer = buffer;
            operands.inputs[input].offset = 0;
            operands.inputs[input].stride = operands.inputs[input].width;
            self.indices.clear();
            self.indices.extend(staging.windows());
        }
        operands.memory.staged = Some((staged, staging));
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

impl<'a, D: Device> Call<'a, D> {
    /// A row's role, the shape of heads and what was chosen decide on the kernel.
    pub(super) fn attend(
        &self,
        encode: &mut Encode<'_, D>,
        attention: &Attention,
    ) -> Result<(), NodeError> {
        let region = self.region()?;
        let mut inputs = Inputs {
            q: self.input(0)?,
            keys: self.cells(&region, region.keys)?,
            values: self.cells(&region, region.values)?,
            windows: self.indices(windows_input(attention))?,
        };
        if let Some((staged, staging)) = &self.operands.memory.staged {
            let [keys, values] = [staged.keys, staged.values].map(|part| self.cells(staged, part));
            let (keys, values) = (keys?, values?);
            kv_stage(encode, keys, inputs.keys, staging)?;
            kv_stage(encode, values, inputs.values, staging)?;
            (inputs.keys, inputs.values) = (keys, values);
        }
        let y = self.output()?;
        let choices = (
            self.choices.of_prompt(attention),
            self.choices.of_generated(attention),
        );
        if choices == (PromptAttention::Classic, GeneratedAttention::Classic) {
            return Ok(attention::attention(encode, attention, y, inputs)?);
        }
        let prompt = self.task.output.rows.prompt;
        let [prompt_y, y] = y.split_at(prompt);
        let [prompt_inputs, inputs] = inputs.split_at(prompt);
        self.attend_prompt(encode, attention, prompt_y, prompt_inputs)?;
        self.attend_generated(encode, attention, y, inputs)
    }

    fn attend_prompt(
        &self,
        encode: &mut Encode<'_, D>,
        attention: &Attention,
        y: Rows<'_, D::Buffer>,
        inputs: Inputs<'_, D::Buffer>,
    ) -> Result<(), NodeError> {
        let scores = self.operands.memory.prompt.as_ref();
        match (self.choices.of_prompt(attention), scores) {
            (PromptAttention::Flash, _) => flash_prefill(encode, attention, y, inputs)?,
            (PromptAttention::ThreePass, Some(scores)) => {
                let scores = self.buffers.rows(scores)?;
                three_pass(encode, attention, y, inputs, scores)?;
            }
            _ => attention::attention(encode, attention, y, inputs)?,
        }
        Ok(())
    }

    fn attend_generated(
        &self,
        encode: &mut Encode<'_, D>,
        attention: &Attention,
        y: Rows<'_, D::Buffer>,
        inputs: Inputs<'_, D::Buffer>,
    ) -> Result<(), NodeError> {
        let Some(memory) = &self.operands.memory.generated else {
            return Ok(attention::attention(encode, attention, y, inputs)?);
        };
        let memory = self.buffers.rows(memory)?;
        match self.choices.of_generated(attention) {
            GeneratedAttention::Flash { chunks } => {
                let chunks = Chunks {
                    most: chunks,
                    partials: memory,
                };
                flash_decode::flash_decode(encode, attention, y, inputs, chunks)?;
            }
            GeneratedAttention::Split => split_attention(encode, attention, y, inputs, memory)?,
            GeneratedAttention::Classic => attention::attention(encode, attention, y, inputs)?,
        }
        Ok(())
    }
}
