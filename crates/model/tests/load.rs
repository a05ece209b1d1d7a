//! What a model description must have, and what its graph looks like, on models built in memory.

use minfer_gguf::{Gguf, Tensor, TensorBytes, TensorType, Writer};
use minfer_graph::{
    Fusion, Graph, GraphParams, KeyRope, KvFormat, Node, Op, RopeStyle, Rows, WindowLayout,
};
use minfer_model::Model;

const LAYERS: usize = 2;
const EMBD: usize = 64;
const FF: usize = 96;
const HEAD_DIM: usize = 32;
const HEADS: usize = 4;
const HEADS_KV: usize = 2;
const VOCAB: usize = 10;

fn f32_tensor(name: &str, shape: &[usize]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        ty: TensorType::F32,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(vec![0; 4 * shape.iter().product::<usize>()]),
    }
}

/// A model of the architecture whose head dimension is not `EMBD / HEADS`.
struct Parts {
    arch: &'static str,
    tensors: Vec<Tensor>,
    extra: Vec<(&'static str, minfer_gguf::Value)>,
}

impl Parts {
    fn new(arch: &'static str) -> Self {
        let (q, kv) = (HEADS * HEAD_DIM, HEADS_KV * HEAD_DIM);
        let mut tensors = vec![
            f32_tensor("token_embd.weight", &[EMBD, VOCAB]),
            f32_tensor("output_norm.weight", &[EMBD]),
            f32_tensor("output.weight", &[EMBD, VOCAB]),
        ];
        for layer in 0..LAYERS {
            let mut add = |name: &str, shape: &[usize]| {
                tensors.push(f32_tensor(&format!("blk.{layer}.{name}"), shape));
            };
            add("attn_norm.weight", &[EMBD]);
            add("attn_q.weight", &[EMBD, q]);
            add("attn_k.weight", &[EMBD, kv]);
            add("attn_v.weight", &[EMBD, kv]);
            add("attn_output.weight", &[q, EMBD]);
            add("ffn_norm.weight", &[EMBD]);
            add("ffn_gate.weight", &[EMBD, FF]);
            add("ffn_up.weight", &[EMBD, FF]);
            add("ffn_down.weight", &[FF, EMBD]);
            if arch == "qwen2" {
                add("attn_q.bias", &[q]);
                add("attn_k.bias", &[kv]);
                add("attn_v.bias", &[kv]);
            }
            if arch == "qwen3" {
                add("attn_q_norm.weight", &[HEAD_DIM]);
                add("attn_k_norm.weight", &[HEAD_DIM]);
            }
        }
        Parts {
            arch,
            tensors,
            extra: Vec::new(),
        }
    }

    fn without(mut self, name: &str) -> Self {
        self.tensors.retain(|t| t.name != name);
        self
    }

    fn with(mut self, tensor: Tensor) -> Self {
        self = self.without(&tensor.name.clone());
        self.tensors.push(tensor);
        self
    }

    fn set(mut self, key: &'static str, value: impl Into<minfer_gguf::Value>) -> Self {
        self.extra.push((key, value.into()));
        self
    }

    fn load(self) -> Result<Model, String> {
        let mut writer = Writer::new();
        writer.set("general.architecture", self.arch);
        for (key, value) in [
            ("block_count", LAYERS),
            ("context_length", 128),
            ("embedding_length", EMBD),
            ("feed_forward_length", FF),
            ("attention.head_count", HEADS),
            ("attention.head_count_kv", HEADS_KV),
            ("attention.key_length", HEAD_DIM),
            ("attention.value_length", HEAD_DIM),
        ] {
            writer.set(format!("{}.{key}", self.arch), value as u32);
        }
        let eps = format!("{}.attention.layer_norm_rms_epsilon", self.arch);
        writer.set(eps, 1e-6_f32);
        for (key, value) in self.extra {
            writer.set(format!("{}.{key}", self.arch), value);
        }
        for tensor in self.tensors {
            writer.add(tensor);
        }
        let bytes = writer.to_bytes().expect("a valid file");
        let file = Gguf::parse_bytes("model.gguf", bytes).expect("a readable file");
        Model::load(&file).map_err(|error| error.to_string())
    }

    fn error(self) -> String {
        self.load().err().expect("the model was accepted")
    }
}

fn graph(model: &Model) -> Graph {
    let params = GraphParams {
        max_tokens: 8,
        max_outputs: 1,
        window: WindowLayout::Causal,
        kv_format: KvFormat::F32,
        generated_only: false,
        fusion: Fusion::default(),
    };
    let kv = model.kv_layout(16, KvFormat::F32);
    model.build_graph(params, &kv).expect("a graph")
}

fn nodes<'g>(graph: &'g Graph, name: &str) -> Vec<&'g Node> {
    let named = |node: &&Node| node.op.name() == name;
    graph.nodes.iter().filter(named).collect()
}

#[test]
fn every_architecture_has_its_own_attention_inputs() {
    for (arch, biases, norms, style) in [
        ("llama", 0, 0, RopeStyle::Interleaved),
        ("qwen2", 3 * LAYERS, 0, RopeStyle::Split),
        ("qwen3", 0, 2 * LAYERS, RopeStyle::Split),
    ] {
        let graph = graph(&Parts::new(arch).load().expect(arch));
        assert_eq!(nodes(&graph, "AddBias").len(), biases, "{arch}");
        assert_eq!(nodes(&graph, "QkNorm").len(), norms, "{arch}");
        let ropes = nodes(&graph, "Rope");
        assert_eq!(ropes.len(), 2 * LAYERS, "{arch}");
        for node in ropes {
            assert!(
                matches!(node.op, Op::Rope(rope) if rope.style == style),
                "{arch}"
            );
        }
    }
}

#[test]
fn only_output_rows_run_the_end_of_the_last_layer() {
    let graph = graph(&Parts::new("llama").load().expect("llama"));
    let rows_of = |name: &str| {
        let node = graph.nodes.iter().find(|node| node.name == name);
        node.unwrap_or_else(|| panic!("no node {name}")).rows
    };
    assert_eq!(rows_of("blk.0.ffn_down"), Rows::Tokens);
    assert_eq!(rows_of("blk.1.attn_k"), Rows::Tokens);
    assert_eq!(rows_of("blk.1.attn_output"), Rows::Outputs);
    assert_eq!(rows_of("blk.1.ffn_down"), Rows::Outputs);
    assert_eq!(rows_of("output"), Rows::Outputs);
}

#[test]
fn a_model_without_output_weight_projects_with_its_embeddings() {
    let model = Parts::new("qwen3").without("output.weight").load();
    let graph = graph(&model.expect("tied embeddings"));
    let last = graph.nodes.last().expect("nodes");
    let Op::MatMul { weight } = last.op else {
        panic!("{last:?}");
    };
    assert_eq!(graph.weights[weight.0 as usize], "token_embd.weight");
    assert_eq!(last.width, VOCAB);
}

#[test]
fn linear_scaling_shrinks_positions() {
    let model = Parts::new("llama")
        .set("rope.scaling.type", "linear")
        .set("rope.scaling.factor", 4.0_f32)
        .load();
    assert_eq!(model.expect("llama").hparams().rope_freq_scale, 0.25);
}

#[test]
fn llama3_factors_reach_the_rotation() {
    let factors = f32_tensor("rope_freqs.weight", &[HEAD_DIM / 2]);
    let graph = graph(&Parts::new("llama").with(factors).load().expect("llama"));
    for node in nodes(&graph, "Rope") {
        let Op::Rope(rope) = node.op else {
            unreachable!()
        };
        let weight = rope.factors.expect("factors");
        assert_eq!(graph.weights[weight.0 as usize], "rope_freqs.weight");
    }
}

#[test]
fn stored_keys_are_rotated_as_the_graph_does() {
    let factors = || f32_tensor("rope_freqs.weight", &[HEAD_DIM / 2 - 4]);
    for (arch, style) in [
        ("llama", RopeStyle::Interleaved),
        ("qwen2", RopeStyle::Split),
        ("qwen3", RopeStyle::Split),
    ] {
        let mut parts = Parts::new(arch)
            .set("rope.freq_base", 5e5_f32)
            .set("rope.scaling.factor", 4.0_f32)
            .set("rope.dimension_count", HEAD_DIM as u32 - 8);
        let is_llama = arch == "llama";
        if is_llama {
            parts = parts.with(factors());
        }
        let model = parts.load().expect(arch);
        let expected = KeyRope {
            style,
            n_rot: HEAD_DIM - 8,
            freq_base: 5e5,
            freq_scale: 0.25,
            factors: is_llama.then(|| "rope_freqs.weight".to_owned()),
        };
        assert_eq!(model.key_rope(), expected);
        let graph = graph(&model);
        for node in nodes(&graph, "Rope") {
            let Op::Rope(rope) = node.op else {
                unreachable!()
            };
            let factors = rope.factors.map(|id| graph.weight_name(id));
            assert_eq!(factors, expected.factors.as_deref(), "{arch}");
            assert_eq!(rope, expected.in_graph(HEAD_DIM, rope.factors), "{arch}");
        }
    }
}

#[test]
fn an_unknown_architecture_is_named_with_the_known_ones() {
    let error = Parts::new("mamba").error();
    assert_eq!(
        error,
        "architecture 'mamba' is not supported; supported are llama, qwen2, qwen3"
    );
}

#[test]
fn a_missing_tensor_is_named() {
    for (arch, name) in [
        ("llama", "blk.1.ffn_up.weight"),
        ("llama", "output_norm.weight"),
        ("qwen2", "blk.0.attn_v.bias"),
        ("qwen3", "blk.1.attn_k_norm.weight"),
    ] {
        let error = Parts::new(arch).without(name).error();
        assert!(error.contains(name) && error.contains("missing"), "{error}");
    }
}

#[test]
fn a_misshapen_tensor_is_named_with_its_shape() {
    let wide = f32_tensor("blk.1.attn_k.weight", &[EMBD, 3 * HEAD_DIM]);
    let error = Parts::new("llama").with(wide).error();
    assert!(error.contains("blk.1"), "{error}");
    assert!(error.contains("96") && error.contains("64"), "{error}");

    let tall = f32_tensor("blk.0.ffn_gate.weight", &[EMBD + 1, FF]);
    let error = Parts::new("llama").with(tall).error();
    assert!(error.contains("blk.0.ffn_gate.weight"), "{error}");
    assert!(error.contains("[65, 96]"), "{error}");
}

#[test]
fn a_tensor_the_architecture_does_not_use_is_refused() {
    let norm = f32_tensor("blk.0.attn_q_norm.weight", &[HEAD_DIM]);
    let error = Parts::new("llama").with(norm).error();
    assert_eq!(
        error,
        "tensor blk.0.attn_q_norm.weight is not part of architecture 'llama'"
    );
}

#[test]
fn hyperparameters_out_of_range_are_named_with_their_value() {
    for (key, value, expected) in [
        (
            "attention.head_count_kv",
            3_u32,
            "llama.attention.head_count_kv is 3: must divide attention.head_count",
        ),
        (
            "block_count",
            0,
            "llama.block_count is 0: must be at least 1",
        ),
        (
            "block_count",
            u32::MAX,
            "llama.block_count is 4294967295: the file has fewer tensors than that",
        ),
        (
            "rope.dimension_count",
            33,
            "llama.rope.dimension_count is 33: must be even and no larger than the head dimension",
        ),
        (
            "attention.value_length",
            16,
            "llama.attention.value_length is 16: must equal attention.key_length",
        ),
    ] {
        assert_eq!(Parts::new("llama").set(key, value).error(), expected);
    }
    let yarn = Parts::new("llama").set("rope.scaling.type", "yarn").error();
    assert_eq!(
        yarn,
        "llama.rope.scaling.type is yarn: only none and linear are supported"
    );
}
