//! Nodes that treat each row on its own: arithmetic, activations, norms, views.

use super::shape::{Expected, Shape};
use super::{GraphBuilder, parameter};
use crate::assign::layer_of;
use crate::error::GraphError;
use crate::ir::{NodeId, Norm, Op};

impl GraphBuilder<'_> {
    /// `a + b`, equal shapes.
    pub fn add(&mut self, a: NodeId, b: NodeId, name: &str) -> Result<NodeId, GraphError> {
        self.binary(Op::Add, a, b, name)
    }

    /// `a * b` element by element, equal shapes.
    pub fn mul(&mut self, a: NodeId, b: NodeId, name: &str) -> Result<NodeId, GraphError> {
        self.binary(Op::Mul, a, b, name)
    }

    /// `silu(gate) * up`, equal shapes.
    pub fn swiglu(&mut self, gate: NodeId, up: NodeId, name: &str) -> Result<NodeId, GraphError> {
        self.binary(Op::SwiGlu, gate, up, name)
    }

    /// `factor * x`.
    pub fn scale(&mut self, x: NodeId, factor: f32, name: &str) -> Result<NodeId, GraphError> {
        let op = Op::Scale { factor };
        self.expect(name, &op, x, Expected::ACTIVATION)?;
        if !factor.is_finite() {
            let reason = format!("factor {factor} is not finite");
            return Err(parameter(&self.scoped(name), &op, reason));
        }
        self.push_like(name, op, &[x], x)
    }

    /// `x / (1 + exp(-x))`.
    pub fn silu(&mut self, x: NodeId) -> Result<NodeId, GraphError> {
        let name = self.derived_name(x, "silu");
        self.expect(&name, &Op::Silu, x, Expected::ACTIVATION)?;
        self.push_like(&name, Op::Silu, &[x], x)
    }

    /// RMS normalization of each row with the gain `<name>.weight` `[width]`.
    pub fn rms_norm(&mut self, x: NodeId, name: &str, eps: f32) -> Result<NodeId, GraphError> {
        let norm = self.norm(name, self.node(x).width, eps)?;
        let op = Op::RmsNorm(norm);
        self.expect(name, &op, x, Expected::ACTIVATION)?;
        self.push_like(name, op, &[x], x)
    }

    /// RMS normalization of each head with the gain `<name>.weight` `[head_dim]`.
    pub fn qk_norm(
        &mut self,
        x: NodeId,
        name: &str,
        head_dim: usize,
        eps: f32,
    ) -> Result<NodeId, GraphError> {
        let norm = self.norm(name, head_dim, eps)?;
        let op = Op::QkNorm { norm, head_dim };
        self.expect(name, &op, x, Expected::ACTIVATION)?;
        self.expect_heads(name, &op, x, head_dim)?;
        self.push_like(name, op, &[x], x)
    }

    /// Softmax of `scale * x` over each of `groups` equal parts of a row; with `positions` I32
    /// `[1, rows]`, parts are scores over cells and those after the row's position get 0.
    pub fn softmax(
        &mut self,
        x: NodeId,
        positions: Option<NodeId>,
        groups: usize,
        scale: f32,
    ) -> Result<NodeId, GraphError> {
        let op = Op::Softmax { groups, scale };
        let name = self.derived_name(x, "softmax");
        let (width, rows) = (self.node(x).width, self.node(x).rows);
        self.expect(&name, &op, x, Expected::ACTIVATION)?;
        if groups == 0 || !width.is_multiple_of(groups) || !scale.is_finite() {
            let reason = format!("width {width} in {groups} groups, scale {scale}");
            return Err(parameter(&self.scoped(&name), &op, reason));
        }
        let mut inputs = vec![x];
        if let Some(positions) = positions {
            self.expect(&name, &op, positions, Expected::indices(1, rows))?;
            inputs.push(positions);
        }
        self.push_like(&name, op, &inputs, x)
    }

    /// Features `offset .. offset + width` of each row of `x`, without moving data.
    pub fn view(
        &mut self,
        x: NodeId,
        offset: usize,
        width: usize,
        name: &str,
    ) -> Result<NodeId, GraphError> {
        let op = Op::View { offset };
        let source = self.node(x);
        let (rows, dtype) = (source.rows, source.dtype);
        let inside = offset
            .checked_add(width)
            .is_some_and(|end| end <= source.width);
        if !inside {
            let reason = format!(
                "features {offset}..+{width} lie outside {} of width {}",
                source.name, source.width
            );
            return Err(parameter(&self.scoped(name), &op, reason));
        }
        self.push(name, op, &[x], Shape { width, rows, dtype })
    }

    /// Checks that the rows of `x` are whole heads.
    pub(super) fn expect_heads(
        &self,
        name: &str,
        op: &Op,
        x: NodeId,
        head_dim: usize,
    ) -> Result<(), GraphError> {
        let width = self.node(x).width;
        if head_dim == 0 || !width.is_multiple_of(head_dim) {
            let reason = format!("width {width} is not whole heads of {head_dim}");
            return Err(parameter(&self.scoped(name), op, reason));
        }
        Ok(())
    }

    /// Name, within the scope, of a node that only transforms `x`: `attn_q` to `attn_q.rope`. The layer
    /// of `x` is left out, as the scope adds its own.
    pub(super) fn derived_name(&self, x: NodeId, suffix: &str) -> String {
        let name = self.node(x).name.as_str();
        let local = match (self.prefix.as_str(), layer_of(name)) {
            ("", _) | (_, None) => name,
            (_, Some(layer)) => &name[format!("blk.{layer}.").len()..],
        };
        format!("{local}.{suffix}")
    }

    fn norm(&mut self, name: &str, width: usize, eps: f32) -> Result<Norm, GraphError> {
        let gain = self.vector(name, &format!("{name}.weight"), width)?;
        let norm = Norm { gain, eps };
        if !(eps.is_finite() && eps >= 0.0) {
            let reason = format!("epsilon {eps} is not a finite number >= 0");
            return Err(parameter(&self.scoped(name), &Op::RmsNorm(norm), reason));
        }
        Ok(norm)
    }

    fn binary(&mut self, op: Op, a: NodeId, b: NodeId, name: &str) -> Result<NodeId, GraphError> {
        let (width, rows) = (self.node(a).width, self.node(a).rows);
        self.expect(name, &op, a, Expected::ACTIVATION)?;
        self.expect(name, &op, b, Expected::ACTIVATION.width(width).rows(rows))?;
        self.push_like(name, op, &[a, b], a)
    }
}
