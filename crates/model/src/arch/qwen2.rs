//! Qwen2 and Qwen2.5: biased query, key and value projections.

use minfer_graph::{GraphBuilder, GraphError, KeyRope, NodeId, Rope, RopeStyle, WeightCatalog};

use super::Architecture;
use crate::{Hparams, block};

pub(super) struct Qwen2;

impl Architecture for Qwen2 {
    fn name(&self) -> &'static str {
        "qwen2"
    }

    fn key_rope(&self, h: &Hparams, _weights: &WeightCatalog) -> KeyRope {
        block::key_rope(h, RopeStyle::Split)
    }

    fn build(
        &self,
        h: &Hparams,
        rope: Rope,
        b: &mut GraphBuilder<'_>,
    ) -> Result<NodeId, GraphError> {
        let mut x = block::embed_tokens(b)?;
        for layer in 0..h.n_layer {
            let b = &mut *b.layer(layer);
            let normed = b.rms_norm(x, "attn_norm", h.rms_eps)?;
            let q = b.matmul(normed, "attn_q")?;
            let q = b.add_bias(q, "attn_q")?;
            let k = b.matmul(normed, "attn_k")?;
            let k = b.add_bias(k, "attn_k")?;
            let v = b.matmul(normed, "attn_v")?;
            let v = b.add_bias(v, "attn_v")?;
            let q = b.rope(q, rope)?;
            let k = b.rope(k, rope)?;
            let stored = b.kv_store(k, v, layer)?;
            let attention = b.attention(q, stored, block::heads(h))?;
            x = block::finish_layer(b, h, x, attention, layer + 1 == h.n_layer)?;
        }
        block::logits(b, h, x)
    }
}
