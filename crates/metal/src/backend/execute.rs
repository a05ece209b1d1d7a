//! From a node to a call of its operation: checks of operands, integers on the host.

use minfer_graph::{BufferId, DType, Op, Operand, RowCount, Rows, Task};

use super::MetalBackend;
use super::attend::{Memory, windows_input};
use super::buffers::{Overlap, Pending, overlap};
use super::call::Call;
use super::check;
use super::error::{NodeError, require};
use crate::device::Device;

/// Most inputs of an operation.
const MAX_INPUTS: usize = 4;
/// Bytes of an integer.
pub(super) const INTEGER: usize = 4;

/// Operands as kernels take them.
pub(super) struct Operands {
    pub(super) inputs: [Operand; MAX_INPUTS],
    pub(super) output: Operand,
    /// Buffers made for this node.
    pub(super) made: [Option<BufferId>; MAX_INPUTS],
    /// Of an attention.
    pub(super) memory: Memory,
}

impl<D: Device> MetalBackend<D> {
    /// Appends a node to the open command buffer.
    pub(super) fn encode(&mut self, task: &Task<'_>) -> Result<(), NodeError> {
        check_rows(task)?;
        check::check(task.graph, task.node, &self.weights)?;
        // Their values are where the caller, or their input, put them.
        if matches!(task.node.op, Op::Input(_) | Op::View { .. }) {
            return Ok(());
        }
        check_operands(task)?;
        let mut operands = Operands {
            inputs: [task.output; MAX_INPUTS],
            output: task.output,
            made: [None; MAX_INPUTS],
            memory: Memory::default(),
        };
        operands.inputs[..task.inputs.len()].copy_from_slice(task.inputs);
        let encoded = self.encode_with(task, &mut operands);
        for made in operands.made.into_iter().flatten() {
            self.buffers.free(&self.commands.device, made);
        }
        encoded
    }

    fn encode_with(&mut self, task: &Task<'_>, operands: &mut Operands) -> Result<(), NodeError> {
        self.pack_integers(task, operands)?;
        self.read_indices(task, operands)?;
        self.make_room(task, operands)?;
        self.mark(task, operands);
        let rope = match &task.node.op {
            Op::Rope(rope) => Some(rope),
            Op::FusedQkv(node) => Some(&node.rope),
            _ => None,
        };
        let turns = match rope {
            Some(rope) => {
                let factors = rope
                    .factors
                    .and_then(|id| task.graph.weights.get(id.0 as usize));
                let factors = factors.map(String::as_str);
                Some(self.rotations.turns(rope, factors, &self.weights)?)
            }
            None => None,
        };
        let call = Call::<D> {
            task,
            operands,
            choices: &self.choices,
            indices: &self.indices,
            turns,
            buffers: &self.buffers,
            weights: &self.weights,
        };
        call.run(&mut self.commands.encode(&task.node.name)?)
    }

    /// Kernels read integers as lists without gaps. Those of a graph are such; only a view of an input is not.
    fn pack_integers(&mut self, task: &Task<'_>, operands: &mut Operands) -> Result<(), NodeError> {
        for (i, input) in task.inputs.iter().enumerate() {
            let dtype = task.graph.node(task.node.inputs[i]).dtype;
            if dtype != DType::I32 || input.stride == input.width || input.rows.total() <= 1 {
                continue;
            }
            let row_bytes = INTEGER * input.width;
            let mut packed = vec![0; row_bytes * input.rows.total()];
            for (row, bytes) in packed.chunks_exact_mut(row_bytes.max(1)).enumerate() {
                let first = input.offset + row * input.stride;
                self.read_bytes(input.buffer, INTEGER * first, bytes)?;
            }
            let buffer = self.made(&packed)?;
            operands.made[i] = Some(buffer);
            operands.inputs[i] = Operand {
                buffer,
                offset: 0,
                stride: input.width,
                ..*input
            };
        }
        Ok(())
    }

    /// A buffer for one node.
    pub(super) fn made(&mut self, bytes: &[u8]) -> Result<BufferId, NodeError> {
        let buffer = self
            .buffers
            .alloc_scratch(&self.commands.device, bytes.len())?;
        self.write_bytes(buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Makes the integers that kernels trust known to the host.
    fn read_indices(&mut self, task: &Task<'_>, operands: &mut Operands) -> Result<(), NodeError> {
        self.indices.clear();
        let input = match task.node.op {
            Op::Embed { .. } => 0,
            Op::GetRows => 1,
            Op::KvStore { .. } | Op::FusedQkv(_) => 2,
            Op::FusedMatMul(ref node) if node.gathered => node.inputs() - 1,
            Op::Attention(ref attention) => windows_input(attention),
            // The cells from the first on.
            Op::KvLoad { .. } => {
                let count = task.output.rows.total();
                let numbers = (0..count).map_while(|cell| i32::try_from(cell).ok());
                self.indices.extend(numbers);
                let buffer = self.made(&to_bytes(&self.indices))?;
                operands.made[1] = Some(buffer);
                operands.inputs[1] = list(buffer, count);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let operand = operands.inputs[input];
        let mut bytes = std::mem::take(&mut self.index_bytes);
        bytes.resize(INTEGER * operand.width * operand.rows.total(), 0);
        let read = self.read_bytes(operand.buffer, INTEGER * operand.offset, &mut bytes);
        let (values, _) = bytes.as_chunks();
        let values = values.iter().map(|bytes| i32::from_le_bytes(*bytes));
        self.indices.extend(values);
        self.index_bytes = bytes;
        read
    }

    /// Notes what the node does with buffers.
    fn mark(&mut self, task: &Task<'_>, operands: &Operands) {
        for input in &operands.inputs {
            self.buffers.mark(input.buffer, Pending::Reads);
        }
        if !task.node.op.shares_input() {
            self.buffers.mark(operands.output.buffer, Pending::Writes);
        }
        let on_region = match task.node.op {
            Op::KvStore { .. } | Op::FusedQkv(_) => Pending::Writes,
            _ => Pending::Reads,
        };
        for buffer in task
            .kv
            .iter()
            .flat_map(|region| [region.keys, region.values])
        {
            self.buffers.mark(buffer, on_region);
        }
    }
}

/// Integers as bytes.
pub(super) fn to_bytes(values: &[i32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// A whole buffer of integers.
pub(super) fn list(buffer: BufferId, count: usize) -> Operand {
    Operand {
        buffer,
        offset: 0,
        width: 1,
        stride: 1,
        rows: RowCount {
            prompt: count,
            generated: 0,
        },
    }
}

/// Fused nodes are for generated rows: prompt rows have kernels of other bits. Says so whatever else is wrong.
fn check_rows(task: &Task<'_>) -> Result<(), NodeError> {
    let prompt = task.output.rows.prompt;
    match task.node.op {
        Op::FusedMatMul(_) | Op::FusedQkv(_) | Op::FusedFfn { .. } => {
            require(prompt == 0, "the number of prompt rows", prompt, 0)
        }
        _ => Ok(()),
    }
}

/// The operands are those of the node, and none overlaps the output but the first, all of it.
fn check_operands(task: &Task<'_>) -> Result<(), NodeError> {
    let nodes = task.node.inputs.iter().map(|id| task.graph.node(*id));
    let expected = nodes.len();
    require(
        task.inputs.len() == expected,
        "the number of inputs",
        task.inputs.len(),
        expected,
    )?;
    require(
        expected <= MAX_INPUTS,
        "the number of inputs",
        expected,
        MAX_INPUTS,
    )?;
    let width = task.node.width;
    require(
        task.output.width == width,
        "the output's width",
        task.output.width,
        width,
    )?;
    let in_place = task.node.op.runs_in_place() || task.node.op.shares_input();
    let rows = task.output.rows.total();
    for (input, (operand, node)) in task.inputs.iter().zip(nodes).enumerate() {
        require(
            operand.width == node.width,
            "an input's width",
            operand.width,
            node.width,
        )?;
        let found = operand.rows.total();
        let is_free = matches!(node.rows, Rows::Fixed(_)) || node.rows != task.node.rows;
        require(is_free || found == rows, "an input's rows", found, rows)?;
        let is_allowed = match overlap(operand, &task.output) {
            Overlap::Apart => true,
            Overlap::Same => input == 0 && in_place,
            Overlap::Partial => false,
        };
        if !is_allowed {
            return Err(NodeError::Overlap {
                input,
                found: *operand,
                output: task.output,
            });
        }
    }
    Ok(())
}
