//! A small transformer on executors of CPU backends.
#![allow(dead_code)]

use std::sync::Arc;

use minfer_cpu::{CpuBackend, CpuOptions, Pool};
use minfer_gguf::quantize::quantize;
use minfer_gguf::{Tensor, TensorBytes, TensorType};
use minfer_graph::{
    AttentionHeads, Backend, Executor, Fusion, Graph, GraphBuilder, GraphError, GraphParams, Input,
    KvFormat, KvLayout, KvShape, Rope, RopeStyle, RowCount, StepInputs, StepRows, WeightCatalog,
    WindowLayout,
};

pub const LAYERS: usize = 3;
pub const VOCABULARY: usize = 301;
pub const CELLS: usize = 700;
const WIDTH: usize = 128;
const FFN: usize = 320;
const HEADS: AttentionHeads = AttentionHeads {
    n_head: 4,
    n_head_kv: 2,
    head_dim: 32,
    scale: 0.177,
};
const KV_WIDTH: usize = HEADS.n_head_kv * HEADS.head_dim;

pub fn prompt(prompt: usize) -> RowCount {
    RowCount {
        prompt,
        generated: 0,
    }
}

pub fn generated(generated: usize) -> RowCount {
    RowCount {
        prompt: 0,
        generated,
    }
}

pub fn params(max_tokens: usize, kv_format: KvFormat, fusion: Fusion) -> GraphParams {
    GraphParams {
        max_tokens,
        max_outputs: max_tokens,
        window: WindowLayout::Span,
        kv_format,
        generated_only: false,
        fusion,
    }
}

pub const UNFUSED: Fusion = Fusion::NONE;

/// An executor with `backends` CPU backends on one pool; layers alternate between them.
pub fn executor(backends: usize, threads: usize, format: KvFormat) -> Executor {
    let pool = Arc::new(Pool::new(threads).expect("threads"));
    let backend = |i: usize| -> Box<dyn Backend> {
        let options = CpuOptions {
            name: Some(format!("cpu{i}")),
            ..CpuOptions::default()
        };
        Box::new(CpuBackend::new(Arc::clone(&pool), options).expect("an instruction set"))
    };
    let shape = KvShape {
        cells: CELLS,
        width: KV_WIDTH,
        head_dim: HEADS.head_dim,
        format,
    };
    let layout = KvLayout::uniform(LAYERS, shape);
    let mut executor = Executor::new((0..backends).map(backend).collect(), layout);
    executor.set_preference(Some(Box::new(move |_, node| {
        Some(minfer_graph::layer_of(&node.name)? % backends)
    })));
    for tensor in weights() {
        executor.register_weight(&tensor, None).expect("a weight");
    }
    executor
}

fn weights() -> Vec<Tensor> {
    let mut list = vec![
        matrix("token_embd.weight", TensorType::Q8_0, WIDTH, VOCABULARY),
        vector("output_norm.weight", WIDTH),
    ];
    for layer in 0..LAYERS {
        let name = |suffix: &str| format!("blk.{layer}.{suffix}");
        let ty = [TensorType::Q4_0, TensorType::Q5_1, TensorType::F16][layer];
        list.extend([
            vector(&name("attn_norm.weight"), WIDTH),
            vector(&name("ffn_norm.weight"), WIDTH),
            matrix(&name("attn_q.weight"), ty, WIDTH, WIDTH),
            matrix(&name("attn_k.weight"), ty, WIDTH, KV_WIDTH),
            matrix(&name("attn_v.weight"), TensorType::Q8_0, WIDTH, KV_WIDTH),
            vector(&name("attn_q.bias"), WIDTH),
            vector(&name("attn_k.bias"), KV_WIDTH),
            vector(&name("attn_v.bias"), KV_WIDTH),
            matrix(&name("attn_output.weight"), ty, WIDTH, WIDTH),
            matrix(&name("ffn_gate.weight"), ty, WIDTH, FFN),
            matrix(&name("ffn_up.weight"), ty, WIDTH, FFN),
            matrix(&name("ffn_down.weight"), ty, FFN, WIDTH),
        ]);
    }
    list
}

fn noise(name: &str, n: usize, scale: f32) -> Vec<f32> {
    let seed = name
        .bytes()
        .fold(1u64, |h, b| h.wrapping_mul(0x100_0000_01b3) ^ u64::from(b));
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| scale * next()).collect()
}

fn tensor(name: &str, ty: TensorType, shape: &[usize], values: &[f32]) -> Tensor {
    let bytes = quantize(ty, values).expect("a type that can be quantized");
    Tensor {
        name: name.to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(bytes),
    }
}

fn matrix(name: &str, ty: TensorType, in_dim: usize, out_dim: usize) -> Tensor {
    let scale = 1.7 / (in_dim as f32).sqrt();
    let values = noise(name, in_dim * out_dim, scale);
    tensor(name, ty, &[in_dim, out_dim], &values)
}

fn vector(name: &str, len: usize) -> Tensor {
    let values: Vec<f32> = noise(name, len, 0.5).iter().map(|x| 1.0 + x).collect();
    tensor(name, TensorType::F32, &[len], &values)
}

fn build(
    catalog: &WeightCatalog,
    kv: &KvLayout,
    params: &GraphParams,
) -> Result<Graph, GraphError> {
    let mut b = GraphBuilder::new(catalog, *params, kv);
    let tokens = b.input(Input::Tokens)?;
    let mut x = b.embed(tokens, "token_embd")?;
    for layer in 0..LAYERS {
        let b = &mut b.layer(layer);
        let normed = b.rms_norm(x, "attn_norm", 1e-5)?;
        let mut project = |name: &str| {
            let y = b.matmul(normed, name)?;
            b.add_bias(y, name)
        };
        let (q, k, v) = (project("attn_q")?, project("attn_k")?, project("attn_v")?);
        let rope = Rope {
            style: RopeStyle::Split,
            head_dim: HEADS.head_dim,
            n_rot: HEADS.head_dim,
            freq_base: 1e4,
            freq_scale: 1.0,
            factors: None,
        };
        let (q, k) = (b.rope(q, rope)?, b.rope(k, rope)?);
        let stored = b.kv_store(k, v, layer)?;
        let attended = b.attention(q, stored, HEADS)?;
        let attended = b.matmul(attended, "attn_output")?;
        x = b.add(x, attended, "attn_residual")?;
        let normed = b.rms_norm(x, "ffn_norm", 1e-5)?;
        let gate = b.matmul(normed, "ffn_gate")?;
        let up = b.matmul(normed, "ffn_up")?;
        let gate = b.silu(gate)?;
        let hidden = b.mul(gate, up, "ffn_hidden")?;
        let down = b.matmul(hidden, "ffn_down")?;
        x = b.add(x, down, "ffn_residual")?;
    }
    let picked = b.input(Input::OutputRows)?;
    let x = b.get_rows(x, picked)?;
    let x = b.rms_norm(x, "output_norm", 1e-5)?;
    let logits = b.matmul_named(x, "token_embd", "output")?;
    b.output(logits)?;
    Ok(b.finish())
}

/// A token of a sequence whose cells start at `base`.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub id: i32,
    pub position: i32,
    pub base: i32,
}

/// Tokens `range` of a sequence.
pub fn sequence(seed: usize, base: i32, range: std::ops::Range<usize>) -> Vec<Token> {
    range
        .map(|i| Token {
            id: ((i * 7919 + seed * 104_729) % VOCABULARY) as i32,
            position: i as i32,
            base,
        })
        .collect()
}

/// Plans `params` unless it was planned before.
pub fn prepare(executor: &mut Executor, params: &GraphParams) {
    let catalog = executor.catalog().clone();
    let kv = executor.kv().layout().clone();
    executor
        .prepare(params, |params| build(&catalog, &kv, params))
        .expect("a plan");
}

/// Logits of every token of a step, prompt tokens first.
pub fn step(
    executor: &mut Executor,
    params: &GraphParams,
    tokens: &[Token],
    rows: RowCount,
) -> Vec<Vec<u32>> {
    prepare(executor, params);
    let column = |f: fn(&Token) -> i32| tokens.iter().map(f).collect::<Vec<_>>();
    let windows = tokens
        .iter()
        .flat_map(|t| [t.base, t.base + t.position + 1])
        .collect::<Vec<_>>();
    let output_rows = (0..tokens.len() as i32).collect::<Vec<_>>();
    let step = StepInputs {
        rows: StepRows {
            tokens: rows,
            outputs: rows,
        },
        tokens: &column(|t| t.id),
        positions: &column(|t| t.position),
        cells: &column(|t| t.base + t.position),
        window: &windows,
        output_rows: &output_rows,
        ..StepInputs::default()
    };
    let outputs = executor.run(params, &step).expect("a step");
    let logits = outputs.values(0);
    assert!(logits.iter().all(|x| x.is_finite()));
    let bits = logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits.chunks(VOCABULARY).map(<[u32]>::to_vec).collect()
}
