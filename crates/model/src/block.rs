//! Parts that decoder-only architectures share.

use minfer_graph::{
    AttentionHeads, GraphBuilder, GraphError, Input, KeyRope, NodeId, Rope, RopeStyle,
};

use crate::Hparams;

/// Plain attention heads with scores scaled by `1 / sqrt(head_dim)`.
pub(crate) fn heads(h: &Hparams) -> AttentionHeads {
    AttentionHeads {
        n_head: h.n_head,
        n_head_kv: h.n_head_kv,
        head_dim: h.head_dim,
        scale: 1.0 / (h.head_dim as f32).sqrt(),
    }
}

/// The rotation that the hyperparameters describe, without factors.
pub(crate) fn key_rope(h: &Hparams, style: RopeStyle) -> KeyRope {
    KeyRope {
        style,
        n_rot: h.n_rot,
        freq_base: h.rope_freq_base,
        freq_scale: h.rope_freq_scale,
        factors: None,
    }
}

/// The rotation of queries and keys in the graph.
pub(crate) fn rope(
    b: &mut GraphBuilder<'_>,
    h: &Hparams,
    keys: &KeyRope,
) -> Result<Rope, GraphError> {
    let factors = match &keys.factors {
        Some(name) => Some(b.rope_factors(name, h.n_rot)?),
        None => None,
    };
    Ok(keys.in_graph(h.head_dim, factors))
}

/// Embeddings of the step's tokens, `[n_embd, tokens]`.
pub(crate) fn embed_tokens(b: &mut GraphBuilder<'_>) -> Result<NodeId, GraphError> {
    let tokens = b.input(Input::Tokens)?;
    b.embed(tokens, "token_embd")
}

/// A projection with its bias where the model has one.
pub(crate) fn project(
    b: &mut GraphBuilder<'_>,
    x: NodeId,
    name: &str,
) -> Result<NodeId, GraphError> {
    let y = b.matmul(x, name)?;
    if b.has_weight(&format!("{name}.bias")) {
        return b.add_bias(y, name);
    }
    Ok(y)
}

/// The second half of a layer: attention output and feed-forward, each added to the residual stream
/// `x`. The last layer goes on with the output rows only.
pub(crate) fn finish_layer(
    b: &mut GraphBuilder<'_>,
    h: &Hparams,
    x: NodeId,
    attention: NodeId,
    is_last: bool,
) -> Result<NodeId, GraphError> {
    let (mut x, mut attention) = (x, attention);
    if is_last {
        let rows = b.input(Input::OutputRows)?;
        x = b.get_rows(x, rows)?;
        attention = b.get_rows(attention, rows)?;
    }
    let projected = project(b, attention, "attn_output")?;
    // The projection first: a sum may be made in place of its first input, and `x` has other readers.
    let x = b.add(projected, x, "attn_residual")?;
    let normed = b.rms_norm(x, "ffn_norm", h.rms_eps)?;
    let gate = b.matmul(normed, "ffn_gate")?;
    let gate = b.silu(gate)?;
    let up = b.matmul(normed, "ffn_up")?;
    let hidden = b.mul(gate, up, "ffn_hidden")?;
    let down = b.matmul(hidden, "ffn_down")?;
    b.add(down, x, "ffn_residual")
}

/// Final norm and output projection, tied to the embeddings where the model has no `output.weight`.
pub(crate) fn logits(
    b: &mut GraphBuilder<'_>,
    h: &Hparams,
    x: NodeId,
) -> Result<NodeId, GraphError> {
    let x = b.rms_norm(x, "output_norm", h.rms_eps)?;
    if b.has_weight("output.weight") {
        b.matmul(x, "output")
    } else {
        b.matmul_named(x, "token_embd", "output")
    }
}
