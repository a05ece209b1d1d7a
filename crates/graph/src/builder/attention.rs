//! Rotation, KV cache and attention nodes.

use super::shape::{Expected, Shape};
use super::{GraphBuilder, parameter};
use crate::error::GraphError;
use crate::ir::{Attention, Input, NodeId, Op, Rope, Rows, WeightId, WindowLayout};
use crate::kv::KvShape;

impl GraphBuilder<'_> {
    /// The frequency divisors for [`Rope::factors`]: the weight of this full name, `n_rot / 2` of them.
    pub fn rope_factors(&mut self, weight: &str, n_rot: usize) -> Result<WeightId, GraphError> {
        self.vector("rope", weight, n_rot / 2)
    }

    /// Rotates the heads of `x` by its rows' positions.
    pub fn rope(&mut self, x: NodeId, rope: Rope) -> Result<NodeId, GraphError> {
        let positions = self.input(Input::Positions)?;
        let op = Op::Rope(rope);
        let name = self.derived_name(x, "rope");
        let activation = Expected::ACTIVATION.rows(Rows::Tokens);
        self.expect(&name, &op, x, activation)?;
        self.expect_heads(&name, &op, x, rope.head_dim)?;
        self.check_rope(&name, &rope)?;
        self.push_like(&name, op, &[x, positions], x)
    }

    /// Writes keys and values to the cells of a layer's KV region. The value is `k`.
    pub fn kv_store(&mut self, k: NodeId, v: NodeId, layer: usize) -> Result<NodeId, GraphError> {
        let cells = self.input(Input::Cells)?;
        let op = Op::KvStore { layer };
        let shape = self.kv_shape("kv_store", &op, layer)?;
        let activation = Expected::ACTIVATION.rows(Rows::Tokens).width(shape.width);
        self.expect("kv_store", &op, k, activation)?;
        self.expect("kv_store", &op, v, activation)?;
        self.push_like("kv_store", op, &[k, v, cells], k)
    }

    /// The first `cells` keys (or values) of the region that `stored` wrote, as f32 rows.
    pub fn kv_load(
        &mut self,
        stored: NodeId,
        cells: usize,
        values: bool,
    ) -> Result<NodeId, GraphError> {
        let name = if values { "kv_values" } else { "kv_keys" };
        let layer = self.stored_layer(name, "KvLoad", stored)?;
        let op = Op::KvLoad { layer, values };
        let shape = self.kv_shape(name, &op, layer)?;
        if cells > shape.cells {
            let reason = format!("{cells} cells of a region of {}", shape.cells);
            return Err(parameter(&self.scoped(name), &op, reason));
        }
        let rows = Rows::Fixed(cells);
        self.push(name, op, &[stored], Shape::f32(shape.width, rows))
    }

    /// Attention of `q` over the region that `stored` wrote, in the window layout of the parameters.
    pub fn attention(
        &mut self,
        q: NodeId,
        stored: NodeId,
        heads: AttentionHeads,
    ) -> Result<NodeId, GraphError> {
        let positions = self.input(Input::Positions)?;
        let window = self.params.window;
        let attention = Attention {
            layer: self.stored_layer("attn", "Attention", stored)?,
            n_head: heads.n_head,
            n_head_kv: heads.n_head_kv,
            head_dim: heads.head_dim,
            scale: heads.scale,
            window,
        };
        let op = Op::Attention(attention);
        self.check_heads(&op, &attention)?;
        let width = heads.n_head * heads.head_dim;
        let activation = Expected::ACTIVATION.rows(Rows::Tokens).width(width);
        self.expect("attn", &op, q, activation)?;
        let mut inputs = vec![q, positions, stored];
        if window != WindowLayout::Causal {
            let input = self.input(Input::Window)?;
            let expected = Expected::indices(window.input_width(), Rows::Tokens);
            self.expect("attn", &op, input, expected)?;
            inputs.push(input);
        }
        self.push_like("attn", op, &inputs, q)
    }

    /// Layer of the KV store that a node named `name` reads through.
    fn stored_layer(
        &self,
        name: &str,
        op: &'static str,
        stored: NodeId,
    ) -> Result<usize, GraphError> {
        let node = self.node(stored);
        match node.op {
            Op::KvStore { layer } => Ok(layer),
            _ => Err(GraphError::Parameter {
                node: self.scoped(name),
                op,
                reason: format!("reads {} ({}), not a KvStore", node.name, node.op.name()),
            }),
        }
    }

    /// Shape of the layer's region, in the format of the parameters.
    fn kv_shape(&self, name: &str, op: &Op, layer: usize) -> Result<KvShape, GraphError> {
        let fail = |reason| Err(parameter(&self.scoped(name), op, reason));
        let Some(shape) = self.kv.layer(layer) else {
            return fail(format!("layer {layer} of {} KV regions", self.kv.len()));
        };
        if shape.format != self.params.kv_format {
            let (region, params) = (shape.format, self.params.kv_format);
            return fail(format!(
                "the region holds {region:?}, the parameters ask for {params:?}"
            ));
        }
        Ok(shape)
    }

    fn check_rope(&self, name: &str, rope: &Rope) -> Result<(), GraphError> {
        let fail = |reason| Err(parameter(&self.scoped(name), &Op::Rope(*rope), reason));
        if let Some(reason) = rope_refusal(rope) {
            return fail(reason);
        }
        let Some(factors) = rope.factors else {
            return Ok(());
        };
        let weight = self.graph.weight_name(factors);
        let len = self.catalog.get(weight).map_or(0, |info| info.dim(0));
        let n_rot = rope.n_rot;
        if len != n_rot / 2 {
            return fail(format!(
                "{weight} has {len} factors for n_rot {n_rot}, not half as many"
            ));
        }
        Ok(())
    }

    fn check_heads(&self, op: &Op, attention: &Attention) -> Result<(), GraphError> {
        let fail = |reason| Err(parameter(&self.scoped("attn"), op, reason));
        let shape = self.kv_shape("attn", op, attention.layer)?;
        let Attention {
            n_head,
            n_head_kv,
            head_dim,
            ..
        } = *attention;
        if n_head == 0 || n_head_kv == 0 || !n_head.is_multiple_of(n_head_kv) {
            return fail(format!(
                "{n_head} heads do not group over {n_head_kv} KV heads"
            ));
        }
        if head_dim != shape.head_dim || n_head_kv * head_dim != shape.width {
            return fail(format!(
                "{n_head_kv} KV heads of {head_dim} do not make rows of {} with heads of {}",
                shape.width, shape.head_dim
            ));
        }
        if !(attention.scale.is_finite() && attention.scale > 0.0) {
            return fail(format!("scale {} is not positive", attention.scale));
        }
        Ok(())
    }
}

/// Why no row can be rotated like this; the factors are not looked at.
pub(crate) fn rope_refusal(rope: &Rope) -> Option<String> {
    let Rope {
        n_rot, head_dim, ..
    } = *rope;
    if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > head_dim {
        return Some(format!("n_rot {n_rot} is not even and in 2..={head_dim}"));
    }
    let positive = |x: f32| x.is_finite() && x > 0.0;
    if !positive(rope.freq_base) || !positive(rope.freq_scale) {
        let (base, scale) = (rope.freq_base, rope.freq_scale);
        return Some(format!(
            "freq_base {base} and freq_scale {scale} must be positive"
        ));
    }
    None
}

/// Heads of an attention node; layer and window follow from its other arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionHeads {
    /// Query heads; a multiple of `n_head_kv`.
    pub n_head: usize,
    /// Key and value heads.
    pub n_head_kv: usize,
    /// Features per head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
}
