//! Nodes that stand for several. Their kernels give generated rows the bits of the parts.

use minfer_graph::{FusedMatMul, FusedQkv, Norm, WeightId};

use super::Call;
use crate::backend::error::NodeError;
use crate::device::Device;
use crate::ops::norm::Normalization;
use crate::ops::{Encode, Matrix, fused_ffn, fused_matmul, fused_qkv};

impl<'a, D: Device> Call<'a, D> {
    pub(super) fn fused_matmul(
        &self,
        encode: &mut Encode<'_, D>,
        node: &FusedMatMul,
    ) -> Result<(), NodeError> {
        let (x, y) = (self.input(0)?, self.output()?);
        let bias = match node.bias {
            Some(bias) => Some(self.vector(bias, y.width)?),
            None => None,
        };
        let residual = match node.residual {
            true => Some(self.input(1)?),
            false => None,
        };
        let gathered = match node.gathered {
            true => Some(self.indices(node.inputs() - 1)?),
            false => None,
        };
        let operands = fused_matmul::FusedMatMul {
            weight: self.projection(node.weight, y.width)?,
            x,
            input_norm: self.input_norm(node.input_norm)?,
            bias,
            residual,
            gathered,
        };
        Ok(fused_matmul::fused_matmul(encode, y, operands)?)
    }

    pub(super) fn fused_ffn(
        &self,
        encode: &mut Encode<'_, D>,
        [gate, up]: [WeightId; 2],
        input_norm: Option<Norm>,
    ) -> Result<(), NodeError> {
        let y = self.output()?;
        let operands = fused_ffn::FusedFfn {
            gate: self.projection(gate, y.width)?,
            up: self.projection(up, y.width)?,
            x: self.input(0)?,
            input_norm: self.input_norm(input_norm)?,
        };
        Ok(fused_ffn::fused_ffn(encode, y, operands)?)
    }

    pub(super) fn fused_qkv(
        &self,
        encode: &mut Encode<'_, D>,
        node: &FusedQkv,
    ) -> Result<(), NodeError> {
        let y = self.output()?;
        let [q, k, v] = node.weights;
        let biases = match node.biases {
            Some([q, k, v]) => Some([
                self.vector(q, y.width)?,
                self.vector(k, node.kv_width)?,
                self.vector(v, node.kv_width)?,
            ]),
            None => None,
        };
        let head_dim = node.rope.head_dim;
        let head_norms = match node.norms {
            Some([q, k]) => Some([
                self.normalization(q, head_dim)?,
                self.normalization(k, head_dim)?,
            ]),
            None => None,
        };
        let region = self.region()?;
        let operands = fused_qkv::FusedQkv {
            weights: [
                self.projection(q, y.width)?,
                self.projection(k, node.kv_width)?,
                self.projection(v, node.kv_width)?,
            ],
            x: self.input(0)?,
            input_norm: self.input_norm(node.input_norm)?,
            biases,
            head_norms,
            rope: &node.rope,
            turns: self.turns.ok_or(NodeError::NoTable)?,
            positions: self.input(1)?,
            keys: self.cells(&region, region.keys)?,
            values: self.cells(&region, region.values)?,
            cells: self.indices(2)?,
        };
        Ok(fused_qkv::fused_qkv(encode, y, operands)?)
    }

    /// A weight that input 0 is multiplied by.
    fn projection(
        &self,
        weight: WeightId,
        out_width: usize,
    ) -> Result<Matrix<'a, D::Buffer>, NodeError> {
        let shape = [self.operands.inputs[0].width, out_width];
        let node = &self.task.node.op;
        self.weights
            .matrix(self.task.graph, weight, shape, node.name())
    }

    fn input_norm(
        &self,
        norm: Option<Norm>,
    ) -> Result<Option<Normalization<'a, D::Buffer>>, NodeError> {
        let width = self.operands.inputs[0].width;
        norm.map(|norm| self.normalization(norm, width)).transpose()
    }

    fn normalization(
        &self,
        norm: Norm,
        width: usize,
    ) -> Result<Normalization<'a, D::Buffer>, NodeError> {
        Ok(Normalization {
            gain: self.vector(norm.gain, width)?,
            eps: norm.eps,
        })
    }
}
