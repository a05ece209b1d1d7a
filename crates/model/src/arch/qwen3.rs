//! Qwen3: no biases, RMS norms on every query and key head, a head dimension of its own.

use minfer_graph::{GraphBuilder, GraphError, KeyRope, NodeId, Rope, RopeStyle, WeightCatalog};

use super::Architecture;
use crate::{Hparams, block};

pub(super) struct Qwen3;

impl Architecture for Qwen3 {
    fn name(&self) -> &'static str {
        "qwen3"
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
            let q = b.qk_norm(q, "attn_q_norm", h.head_dim, h.rms_eps)?;
            let k = b.matmul(normed, "attn_k")?;
            let k = b.qk_norm(k, "attn_k_norm", h.head_dim, h.rms_eps)?;
            let v = b.matmul(normed, "attn_v")?;
            let q = b.rope(q, rope)?;
            let k = b.rope(k, rope)?;
            let stored = b.kv_store(k, v, layer)?;
            let attention = b.attention(q, stored, block::heads(h))?;
            x = block::finish_layer(b, h, x, attention, layer + 1 == h.n_layer)?;
        }
        block::logits(b, h, x)
    }
}
