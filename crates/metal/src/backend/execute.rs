//! Nodes to operations.

use minfer_graph::{
    Attention, BufferId, DType, KvRegion, Op, Operand, RowCount, Rows as GraphRows, Task, WeightId,
    WindowLayout,
};

use super::MetalBackend;
use super::buffers::{Buffers, Overlap, Pending, overlap};
use super::check;
use super::error::{NodeError, require};
use super::weights::Weights;
use crate::device::Device;
use crate::ops::attention::attention as attend;
use crate::ops::elementwise::{self, Binary};
use crate::ops::kv::{self, Cells};
use crate::ops::rope::{self, Turns};
use crate::ops::{Encode, Indices, Rows, matvec, norm, rows};

/// Most inputs of an operation.
const MAX_INPUTS: usize = 4;
/// Bytes of an integer.
const INTEGER: usize = 4;

/// Operands as kernels take them.
struct Operands {
    inputs: [Operand; MAX_INPUTS],
    output: Operand,
    /// Buffers made for this node.
    made: [Option<BufferId>; MAX_INPUTS],
}

impl<D: Device> MetalBackend<D> {
    /// Appends a node to the open command buffer.
    pub(super) fn encode(&mut self, task: &Task<'_>) -> Result<(), NodeError> {
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
        self.mark(task, operands);
        let turns = match &task.node.op {
            Op::Rope(rope) => {
                let factors = rope
                    .factors
                    .and_then(|id| task.graph.weights.get(id.0 as usize));
                let factors = factors.map(String::as_str);
                Some(self.rotations.turns(rope, factors, &self.weights)?)
            }
            _ => None,
        };
        let call = Call::<D> {
            task,
            operands,
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
            Op::KvStore { .. } => 2,
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
        let mut bytes = vec![0; INTEGER * operand.width * operand.rows.total()];
        self.read_bytes(operand.buffer, INTEGER * operand.offset, &mut bytes)?;
        let (values, _) = bytes.as_chunks();
        self.indices
            .extend(values.iter().map(|bytes| i32::from_le_bytes(*bytes)));
        Ok(())
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
            Op::KvStore { .. } => Pending::Writes,
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

/// The input that says which cells each row sees: positions, or a window.
fn windows_input(attention: &Attention) -> usize {
    match attention.window {
        WindowLayout::Causal => 1,
        WindowLayout::Span | WindowLayout::Map => 3,
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
        let is_free = matches!(node.rows, GraphRows::Fixed(_)) || node.rows != task.node.rows;
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

/// A checked node with the memory it refers to.
struct Call<'a, D: Device> {
    task: &'a Task<'a>,
    operands: &'a Operands,
    /// Row numbers on the host, where the operation has any.
    indices: &'a [i32],
    /// Of a rotation.
    turns: Option<&'a Turns>,
    buffers: &'a Buffers<D::Buffer>,
    weights: &'a Weights<D::Buffer>,
}

impl<'a, D: Device> Call<'a, D> {
    fn run(&self, encode: &mut Encode<'_, D>) -> Result<(), NodeError> {
        let width = self.task.output.width;
        match &self.task.node.op {
            Op::Embed { weight } => {
                let table = self
                    .weights
                    .table(self.task.graph, *weight, width, "Embed")?;
                Ok(rows::embed(
                    encode,
                    self.output()?,
                    table,
                    self.indices(0)?,
                )?)
            }
            Op::GetRows => {
                let (x, indices) = (self.input(0)?, self.indices(1)?);
                Ok(rows::get_rows(encode, self.output()?, x, indices)?)
            }
            Op::MatMul { weight } => {
                let x = self.input(0)?;
                let (graph, shape) = (self.task.graph, [x.width, width]);
                let weight = self.weights.matrix(graph, *weight, shape, "MatMul")?;
                Ok(matvec::matvec(encode, self.output()?, weight, x)?)
            }
            Op::AddBias { weight } => {
                let bias = self.vector(*weight, width)?;
                let (y, x) = (self.output()?, self.input(0)?);
                Ok(elementwise::binary(encode, Binary::Add, y, x, bias)?)
            }
            Op::Add => self.binary(encode, Binary::Add),
            Op::Mul => self.binary(encode, Binary::Mul),
            Op::SwiGlu => self.binary(encode, Binary::SwiGlu),
            Op::Scale { factor } => Ok(elementwise::scale(
                encode,
                self.output()?,
                self.input(0)?,
                *factor,
            )?),
            Op::Silu => Ok(elementwise::silu(encode, self.output()?, self.input(0)?)?),
            Op::RmsNorm(norm) => {
                let gain = self.vector(norm.gain, width)?;
                Ok(norm::rms_norm(
                    encode,
                    self.output()?,
                    self.input(0)?,
                    gain,
                    norm.eps,
                )?)
            }
            Op::QkNorm { norm, head_dim } => {
                let gain = self.vector(norm.gain, *head_dim)?;
                Ok(norm::rms_norm(
                    encode,
                    self.output()?,
                    self.input(0)?,
                    gain,
                    norm.eps,
                )?)
            }
            Op::Rope(rope) => {
                let turns = self.turns.ok_or(NodeError::NoTable)?;
                let (y, x, positions) = (self.output()?, self.input(0)?, self.input(1)?);
                Ok(rope::rope(encode, rope, y, x, positions, turns)?)
            }
            Op::KvStore { .. } => {
                let region = self.region()?;
                let cells = self.indices(2)?;
                kv::store(
                    encode,
                    self.cells(&region, region.keys)?,
                    self.input(0)?,
                    cells,
                )?;
                Ok(kv::store(
                    encode,
                    self.cells(&region, region.values)?,
                    self.input(1)?,
                    cells,
                )?)
            }
            Op::KvLoad { values, .. } => {
                let region = self.region()?;
                let part = if *values { region.values } else { region.keys };
                let cells = self.cells(&region, part)?;
                Ok(kv::load(encode, self.output()?, cells, self.indices(1)?)?)
            }
            Op::Attention(attention) => {
                let region = self.region()?;
                let keys = self.cells(&region, region.keys)?;
                let values = self.cells(&region, region.values)?;
                let windows = self.indices(windows_input(attention))?;
                let (y, q) = (self.output()?, self.input(0)?);
                Ok(attend(encode, attention, y, q, keys, values, windows)?)
            }
            op => Err(NodeError::Unsupported {
                op: op.name(),
                why: "nothing encodes it",
            }),
        }
    }

    fn binary(&self, encode: &mut Encode<'_, D>, op: Binary) -> Result<(), NodeError> {
        let (a, b) = (self.input(0)?, self.input(1)?);
        // One row would go with every row of the other.
        require(a.rows == b.rows, "rows of input 1", b.rows, a.rows)?;
        Ok(elementwise::binary(encode, op, self.output()?, a, b)?)
    }

    fn input(&self, i: usize) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.buffers.rows(&self.operands.inputs[i])
    }

    fn output(&self) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.buffers.rows(&self.operands.output)
    }

    fn indices(&self, i: usize) -> Result<Indices<'a, D::Buffer>, NodeError> {
        Ok(Indices {
            rows: self.input(i)?,
            values: self.indices,
        })
    }

    fn vector(&self, weight: WeightId, len: usize) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.weights.vector(self.task.graph, weight, len)
    }

    /// The layer's region, which none of the operands lies in.
    fn region(&self) -> Result<KvRegion, NodeError> {
        let region = self.task.kv.ok_or(NodeError::NoRegion)?;
        let both = [region.keys, region.values];
        require(
            both[0] != both[1],
            "the buffer of values",
            format!("{:?}", both[1]),
            "another than of keys",
        )?;
        let operands = self.task.inputs.iter().chain([&self.task.output]);
        match operands
            .enumerate()
            .find(|(_, operand)| both.contains(&operand.buffer))
        {
            None => Ok(region),
            Some((input, found)) => Err(NodeError::Overlap {
                input,
                found: *found,
                output: self.task.output,
            }),
        }
    }

    fn cells(&self, region: &KvRegion, part: BufferId) -> Result<Cells<'a, D::Buffer>, NodeError> {
        self.buffers.cells(region, part)
    }
}
