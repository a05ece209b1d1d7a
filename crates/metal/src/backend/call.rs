//! A node's operands handed to its operation.

mod fused;

use minfer_graph::{BufferId, KvRegion, Op, Task, WeightId};

use super::buffers::Buffers;
use super::choices::KernelChoices;
use super::error::{NodeError, require};
use super::execute::Operands;
use super::weights::Weights;
use crate::device::Device;
use crate::ops::elementwise::{self, Binary};
use crate::ops::kv::{self, Cells};
use crate::ops::rope::{self, Turns};
use crate::ops::{Encode, Indices, Matrix, Rows, gemm, matvec, norm, rows};

/// A checked node with the memory it refers to.
pub(super) struct Call<'a, D: Device> {
    pub(super) task: &'a Task<'a>,
    pub(super) operands: &'a Operands,
    pub(super) choices: &'a KernelChoices,
    /// Row numbers on the host, where the operation has any.
    pub(super) indices: &'a [i32],
    /// Of a rotation.
    pub(super) turns: Option<&'a Turns>,
    pub(super) buffers: &'a Buffers<D::Buffer>,
    pub(super) weights: &'a Weights<D::Buffer>,
}

impl<'a, D: Device> Call<'a, D> {
    pub(super) fn run(&self, encode: &mut Encode<'_, D>) -> Result<(), NodeError> {
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
                self.multiply(encode, weight, x)
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
            Op::Attention(attention) => self.attend(encode, attention),
            Op::FusedQkv(node) => self.fused_qkv(encode, node),
            Op::FusedFfn {
                gate,
                up,
                input_norm,
            } => self.fused_ffn(encode, [*gate, *up], *input_norm),
            Op::FusedMatMul(node) => self.fused_matmul(encode, node),
            op => Err(NodeError::Unsupported {
                op: op.name(),
                why: "nothing encodes it",
            }),
        }
    }

    /// A row's role chooses the kernel, so that its bits do not depend on the other rows.
    fn multiply(
        &self,
        encode: &mut Encode<'_, D>,
        weight: Matrix<'_, D::Buffer>,
        x: Rows<'_, D::Buffer>,
    ) -> Result<(), NodeError> {
        let prompt = self.task.output.rows.prompt;
        let [prompt_y, generated_y] = self.output()?.split_at(prompt);
        let [prompt_x, generated_x] = x.split_at(prompt);
        match self.choices.gemm {
            true => gemm::gemm(encode, prompt_y, weight, prompt_x)?,
            false => matvec::matvec(encode, prompt_y, weight, prompt_x)?,
        }
        Ok(matvec::matvec(encode, generated_y, weight, generated_x)?)
    }

    fn binary(&self, encode: &mut Encode<'_, D>, op: Binary) -> Result<(), NodeError> {
        let (a, b) = (self.input(0)?, self.input(1)?);
        // One row would go with every row of the other.
        require(a.rows == b.rows, "rows of input 1", b.rows, a.rows)?;
        Ok(elementwise::binary(encode, op, self.output()?, a, b)?)
    }

    pub(super) fn input(&self, i: usize) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.buffers.rows(&self.operands.inputs[i])
    }

    pub(super) fn output(&self) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.buffers.rows(&self.operands.output)
    }

    pub(super) fn indices(&self, i: usize) -> Result<Indices<'a, D::Buffer>, NodeError> {
        Ok(Indices {
            rows: self.input(i)?,
            values: self.indices,
        })
    }

    fn vector(&self, weight: WeightId, len: usize) -> Result<Rows<'a, D::Buffer>, NodeError> {
        self.weights.vector(self.task.graph, weight, len)
    }

    /// The layer's region, which none of the operands lies in.
    pub(super) fn region(&self) -> Result<KvRegion, NodeError> {
        let region = self.task.kv.ok_or(NodeError::NoRegion)?;
        let both = [region.keys, region.values];
        require(
            both[0] != both[1],
            "the buffer of values",
            format_args!("{:?}", both[1]),
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

    pub(super) fn cells(
        &self,
        region: &KvRegion,
        part: BufferId,
    ) -> Result<Cells<'a, D::Buffer>, NodeError> {
        self.buffers.cells(region, part)
    }
}
