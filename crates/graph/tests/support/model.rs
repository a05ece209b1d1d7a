//! A two-layer transformer for structure tests, and the parameters of steps.

use minfer_gguf::Tensor;
use minfer_graph::{
    AttentionHeads, Fusion, Graph, GraphBuilder, GraphError, GraphParams, Input, KvFormat,
    KvLayout, KvShape, NodeId, Rope, RopeStyle, RowCount, StepRows, WeightCatalog, WindowLayout,
};

use super::tensor;

pub const LAYERS: usize = 2;
pub const WIDTH: usize = 8;
pub const VOCABULARY: usize = 5;
pub const CELLS: usize = 16;
const HEAD_DIM: usize = 4;
const KV_WIDTH: usize = 4;
const FFN: usize = 12;

pub const ROPE: Rope = Rope {
    style: RopeStyle::Split,
    head_dim: HEAD_DIM,
    n_rot: HEAD_DIM,
    freq_base: 100.0,
    freq_scale: 1.0,
    factors: None,
};

pub const HEADS: AttentionHeads = AttentionHeads {
    n_head: 2,
    n_head_kv: 1,
    head_dim: HEAD_DIM,
    scale: 0.5,
};

pub fn params(max_tokens: usize) -> GraphParams {
    GraphParams {
        max_tokens,
        max_outputs: max_tokens,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        generated_only: false,
        fusion: Fusion::default(),
    }
}

pub fn kv_layout() -> KvLayout {
    let shape = KvShape {
        cells: CELLS,
        width: KV_WIDTH,
        head_dim: HEAD_DIM,
        format: KvFormat::F32,
    };
    KvLayout::uniform(LAYERS, shape)
}

pub fn prompt(rows: usize) -> RowCount {
    RowCount {
        prompt: rows,
        generated: 0,
    }
}

pub fn generated(rows: usize) -> RowCount {
    RowCount {
        prompt: 0,
        generated: rows,
    }
}

pub fn rows(tokens: RowCount, outputs: RowCount) -> StepRows {
    StepRows { tokens, outputs }
}

/// Values that differ from weight to weight and stay small.
fn ramp(seed: usize, len: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7 + seed * 13) % 11) as f32 / 11.0 - 0.45;
    (0..len).map(value).collect()
}

/// Weights of the transformer; the second layer has biases and per-head norms.
pub fn weights() -> Vec<Tensor> {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("token_embd.weight".into(), vec![WIDTH, VOCABULARY]),
        ("output_norm.weight".into(), vec![WIDTH]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| {
            shapes.push((format!("blk.{layer}.{name}"), shape.to_vec()));
        };
        add("attn_norm.weight", &[WIDTH]);
        add("attn_q.weight", &[WIDTH, WIDTH]);
        add("attn_k.weight", &[WIDTH, KV_WIDTH]);
        add("attn_v.weight", &[WIDTH, KV_WIDTH]);
        add("attn_output.weight", &[WIDTH, WIDTH]);
        add("ffn_norm.weight", &[WIDTH]);
        add("ffn_gate.weight", &[WIDTH, FFN]);
        add("ffn_up.weight", &[WIDTH, FFN]);
        add("ffn_down.weight", &[FFN, WIDTH]);
        if layer == 1 {
            add("attn_q.bias", &[WIDTH]);
            add("attn_k.bias", &[KV_WIDTH]);
            add("attn_v.bias", &[KV_WIDTH]);
            add("attn_q_norm.weight", &[HEAD_DIM]);
            add("attn_k_norm.weight", &[HEAD_DIM]);
        }
    }
    let make = |(seed, (name, shape)): (usize, &(String, Vec<usize>))| {
        tensor(name, shape, &ramp(seed, shape.iter().product()))
    };
    shapes.iter().enumerate().map(make).collect()
}

pub fn transformer(catalog: &WeightCatalog, params: &GraphParams) -> Result<Graph, GraphError> {
    let layout = kv_layout();
    let mut b = GraphBuilder::new(catalog, *params, &layout);
    let tokens = b.input(Input::Tokens)?;
    let mut x = b.embed(tokens, "token_embd")?;
    for layer in 0..LAYERS {
        x = block(&mut b.layer(layer), x, layer)?;
    }
    let wanted = b.input(Input::OutputRows)?;
    x = b.get_rows(x, wanted)?;
    x = b.rms_norm(x, "output_norm", 1e-5)?;
    let logits = b.matmul_named(x, "token_embd", "output")?;
    b.output(logits)?;
    Ok(b.finish())
}

fn block(b: &mut GraphBuilder<'_>, x: NodeId, layer: usize) -> Result<NodeId, GraphError> {
    let h = b.rms_norm(x, "attn_norm", 1e-5)?;
    let q = head_projection(b, h, "attn_q")?;
    let k = head_projection(b, h, "attn_k")?;
    let v = projection(b, h, "attn_v")?;
    let q = b.rope(q, ROPE)?;
    let k = b.rope(k, ROPE)?;
    let stored = b.kv_store(k, v, layer)?;
    let a = b.attention(q, stored, HEADS)?;
    let a = b.matmul(a, "attn_output")?;
    let x = b.add(a, x, "attn_residual")?;
    let h = b.rms_norm(x, "ffn_norm", 1e-5)?;
    let gate = b.matmul(h, "ffn_gate")?;
    let gate = b.silu(gate)?;
    let up = b.matmul(h, "ffn_up")?;
    let h = b.mul(gate, up, "ffn_act")?;
    let h = b.matmul(h, "ffn_down")?;
    b.add(h, x, "ffn_residual")
}

fn projection(b: &mut GraphBuilder<'_>, x: NodeId, name: &str) -> Result<NodeId, GraphError> {
    let y = b.matmul(x, name)?;
    match b.has_weight(&format!("{name}.bias")) {
        true => b.add_bias(y, name),
        false => Ok(y),
    }
}

fn head_projection(b: &mut GraphBuilder<'_>, x: NodeId, name: &str) -> Result<NodeId, GraphError> {
    let y = projection(b, x, name)?;
    let norm = format!("{name}_norm");
    match b.has_weight(&format!("{norm}.weight")) {
        true => b.qk_norm(y, &norm, HEAD_DIM, 1e-5),
        false => Ok(y),
    }
}
