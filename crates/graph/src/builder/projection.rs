//! Nodes that multiply by, or look up rows of, a weight matrix.

use super::shape::{Expected, Shape};
use super::{GraphBuilder, parameter};
use crate::error::GraphError;
use crate::ir::{NodeId, Op, Rows, WeightId};
use crate::weights::WeightInfo;

impl<'a> GraphBuilder<'a> {
    /// Rows of the table `<name>.weight` `[width, n]` for I32 `indices` `[1, rows]`.
    pub fn embed(&mut self, indices: NodeId, name: &str) -> Result<NodeId, GraphError> {
        let (weight, info) = self.matrix(name, None)?;
        let op = Op::Embed { weight };
        let rows = self.node(indices).rows;
        self.expect(name, &op, indices, Expected::indices(1, rows))?;
        self.push(name, op, &[indices], Shape::f32(info.dim(0), rows))
    }

    /// `x` `[in, rows]` times `<name>.weight` `[in, out]`.
    pub fn matmul(&mut self, x: NodeId, name: &str) -> Result<NodeId, GraphError> {
        self.matmul_named(x, name, name)
    }

    /// [`GraphBuilder::matmul`] with a node name of its own, for tied weights: the output projection
    /// of a model without `output.weight` is `matmul_named(x, "token_embd", "output")`.
    pub fn matmul_named(
        &mut self,
        x: NodeId,
        name: &str,
        node: &str,
    ) -> Result<NodeId, GraphError> {
        let (width, rows) = (self.node(x).width, self.node(x).rows);
        let (weight, info) = self.matrix(name, Some(width))?;
        let op = Op::MatMul { weight };
        self.expect(node, &op, x, Expected::ACTIVATION)?;
        self.push(node, op, &[x], Shape::f32(info.dim(1), rows))
    }

    /// `x` plus `<name>.bias` `[width]`.
    pub fn add_bias(&mut self, x: NodeId, name: &str) -> Result<NodeId, GraphError> {
        let bias = format!("{name}.bias");
        let weight = self.vector(&bias, &bias, self.node(x).width)?;
        let op = Op::AddBias { weight };
        self.expect(&bias, &op, x, Expected::ACTIVATION)?;
        self.push_like(&bias, op, &[x], x)
    }

    /// Rows of `x` picked by I32 `indices` `[1, n]`; has the rows of `indices`.
    pub fn get_rows(&mut self, x: NodeId, indices: NodeId) -> Result<NodeId, GraphError> {
        let (width, rows) = (self.node(x).width, self.node(indices).rows);
        let name = self.derived_name(x, "rows");
        self.expect(&name, &Op::GetRows, x, Expected::ACTIVATION)?;
        self.expect(&name, &Op::GetRows, indices, Expected::indices(1, rows))?;
        self.push(&name, Op::GetRows, &[x, indices], Shape::f32(width, rows))
    }

    /// Per-head products of `a` `[heads * n, rows]` with the fixed rows of `b`; the two shapes and
    /// results are given at [`Op::BatchMatMul`].
    pub fn batch_matmul(
        &mut self,
        a: NodeId,
        b: NodeId,
        heads: usize,
        kv_heads: usize,
        transposed: bool,
    ) -> Result<NodeId, GraphError> {
        let op = Op::BatchMatMul {
            heads,
            kv_heads,
            transposed,
        };
        let name = if transposed {
            "attn_values"
        } else {
            "attn_scores"
        };
        let rows = self.node(a).rows;
        let (b_width, b_rows) = (self.node(b).width, self.node(b).rows);
        let fail = |reason| Err(parameter(&self.scoped(name), &op, reason));
        if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            return fail(format!(
                "{heads} heads do not group over {kv_heads} KV heads"
            ));
        }
        if !b_width.is_multiple_of(kv_heads) {
            return fail(format!(
                "width {b_width} of b is not {kv_heads} whole heads"
            ));
        }
        let Rows::Fixed(n) = b_rows else {
            return fail(format!("b has {b_rows:?} rows, not a fixed number"));
        };
        let head_dim = b_width / kv_heads;
        let (inner, outer) = if transposed {
            (n, head_dim)
        } else {
            (head_dim, n)
        };
        self.expect(name, &op, a, Expected::ACTIVATION.width(heads * inner))?;
        self.expect(name, &op, b, Expected::ACTIVATION)?;
        self.push(name, op, &[a, b], Shape::f32(heads * outer, rows))
    }

    /// Id of `<name>.weight`, a matrix whose rows are whole blocks of its type, with `input` features.
    fn matrix(
        &mut self,
        name: &str,
        input: Option<usize>,
    ) -> Result<(WeightId, &'a WeightInfo), GraphError> {
        let file_name = format!("{name}.weight");
        let (id, info) = self.weight(name, &file_name)?;
        let rank_fits = info.fits_rank(2) && info.shape.len() >= 2;
        if !rank_fits || input.is_some_and(|width| width != info.dim(0)) {
            let expected = input.map_or("[width, n]".into(), |width| format!("[{width}, out]"));
            return Err(self.misshapen(name, &file_name, info, expected));
        }
        if info.ty.row_bytes(info.dim(0)).is_none() {
            let expected = format!(
                "rows of whole {} blocks of {}",
                info.ty,
                info.ty.block_len()
            );
            return Err(self.misshapen(name, &file_name, info, expected));
        }
        Ok((id, info))
    }
}
