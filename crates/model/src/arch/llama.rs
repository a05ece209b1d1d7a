//! Llama 2 and 3, SmolLM2, Mistral and others that GGUF files call `llama`.
//!
//! GGUF stores query and key rows permuted so that rotated pairs are neighbours. Llama 3 position
//! scaling comes as the tensor `rope_freqs.weight`.

use minfer_graph::{GraphBuilder, GraphError, KeyRope, NodeId, Rope, RopeStyle, WeightCatalog};

use super::Architecture;
use crate::{Hparams, block};

pub(super) struct Llama;

impl Architecture for Llama {
    fn name(&self) -> &'static str {
        "llama"
    }

    fn key_rope(&self, h: &Hparams, weights: &WeightCatalog) -> KeyRope {
        const FACTORS: &str = "rope_freqs.weight";
        KeyRope {
            factors: weights.get(FACTORS).map(|_| FACTORS.to_owned()),
            ..block::key_rope(h, RopeStyle::Interleaved)
        }
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
            let q = block::project(b, normed, "attn_q")?;
            let k = block::project(b, normed, "attn_k")?;
            let v = block::project(b, normed, "attn_v")?;
            let q = b.rope(q, rope)?;
            let k = b.rope(k, rope)?;
            let stored = b.kv_store(k, v, layer)?;
            let attention = b.attention(q, stored, block::heads(h))?;
            x = block::finish_layer(b, h, x, attention, layer + 1 == h.n_layer)?;
        }
        block::logits(b, h, x)
    }
}
