//! Dispatches and barriers of a decode step, on models with the layers of real ones but a fraction of their width.

use minfer_gguf::{Gguf, Tensor, TensorBytes, TensorType, Value, Writer, quantize};
use minfer_graph::KvFormat;
use minfer_metal::device::Device;

use crate::decoder::{Decoder, MOST_ROWS, Step};
use crate::fast_device;

const VOCABULARY: usize = 64;

/// Structure of a model; widths are smaller than the real ones.
struct Structure {
    arch: &'static str,
    layers: usize,
    /// Features of the residual stream.
    width: usize,
    /// Features of a head, heads of q, heads of k and v.
    heads: [usize; 3],
    biases: bool,
    head_norms: bool,
    /// Whether there is an `output.weight`.
    output: bool,
    /// Type of a matrix of a layer, or of one outside of the layers.
    ty: fn(&str, Option<usize>) -> TensorType,
}

const FFN: usize = 256;

/// Qwen2.5-0.5B.
const QWEN2_24: Structure = Structure {
    arch: "qwen2",
    layers: 24,
    width: 128,
    heads: [64, 2, 1],
    biases: true,
    head_norms: false,
    output: false,
    ty: |_, _| TensorType::Q4_0,
};

/// Qwen2.5-1.5B, as llama.cpp's Q4_K_M: more bits for some matrices of the first and last eighth of the layers, and
/// of every third layer between.
const QWEN2_28: Structure = Structure {
    layers: 28,
    width: 256,
    heads: [128, 2, 1],
    ty: |name, layer| {
        let more = layer.is_none_or(|i| !(3..24).contains(&i) || (i - 3) % 3 == 2);
        match name {
            "attn_v" | "ffn_down" | "token_embd" if more => TensorType::Q6_K,
            _ => TensorType::Q4_K,
        }
    },
    ..QWEN2_24
};

/// Types of the file Qwen2.5-Coder-0.5B-Instruct Q4_K_M, whose widths but one are no whole blocks of 256.
fn q4_k_m_of_05b(name: &str, layer: Option<usize>) -> TensorType {
    const MORE: [usize; 12] = [0, 1, 3, 6, 7, 8, 9, 10, 13, 16, 19, 21];
    let more = layer.is_none_or(|layer| MORE.contains(&layer));
    match (name, more) {
        ("attn_v" | "output", true) => TensorType::Q8_0,
        ("ffn_down", true) => TensorType::Q6_K,
        ("ffn_down", false) => TensorType::Q4_K,
        _ => TensorType::Q5_0,
    }
}

impl Structure {
    fn model(&self) -> Gguf {
        let [head_dim, heads, kv_heads] = self.heads;
        let mut writer = Writer::new();
        writer.set("general.architecture", self.arch);
        let mut set = |key: &str, value: Value| {
            writer.set(format!("{}.{key}", self.arch), value);
        };
        for (key, value) in [
            ("block_count", self.layers),
            ("context_length", 128),
            ("embedding_length", self.width),
            ("feed_forward_length", FFN),
            ("attention.head_count", heads),
            ("attention.head_count_kv", kv_heads),
            ("attention.key_length", head_dim),
            ("attention.value_length", head_dim),
        ] {
            set(key, Value::from(value as u32));
        }
        set("attention.layer_norm_rms_epsilon", Value::from(1e-6f32));
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        self.matrix(&mut writer, None, "token_embd", [self.width, VOCABULARY]);
        if self.output {
            self.matrix(&mut writer, None, "output", [self.width, VOCABULARY]);
        }
        vector(&mut writer, "output_norm.weight", self.width);
        for layer in 0..self.layers {
            for (name, shape) in [
                ("attn_q", [self.width, q]),
                ("attn_k", [self.width, kv]),
                ("attn_v", [self.width, kv]),
                ("attn_output", [q, self.width]),
                ("ffn_gate", [self.width, FFN]),
                ("ffn_up", [self.width, FFN]),
                ("ffn_down", [FFN, self.width]),
            ] {
                self.matrix(&mut writer, Some(layer), name, shape);
            }
            let mut vectors = vec![
                ("attn_norm.weight", self.width),
                ("ffn_norm.weight", self.width),
            ];
            if self.biases {
                vectors.extend([("attn_q.bias", q), ("attn_k.bias", kv), ("attn_v.bias", kv)]);
            }
            if self.head_norms {
                let norms = ["attn_q_norm.weight", "attn_k_norm.weight"];
                vectors.extend(norms.map(|name| (name, head_dim)));
            }
            for (name, width) in vectors {
                vector(&mut writer, &format!("blk.{layer}.{name}"), width);
            }
        }
        Gguf::parse_bytes(self.arch, writer.to_bytes().unwrap()).unwrap()
    }

    fn matrix(&self, writer: &mut Writer, layer: Option<usize>, name: &str, shape: [usize; 2]) {
        let ty = (self.ty)(name, layer);
        let count = shape[0] * shape[1];
        let values: Vec<_> = (0..count).map(|i| (i % 13) as f32 / 130.0 - 0.04).collect();
        let name = match layer {
            Some(layer) => format!("blk.{layer}.{name}.weight"),
            None => format!("{name}.weight"),
        };
        let bytes = quantize::quantize(ty, &values).unwrap();
        add(writer, &name, ty, &shape, bytes);
    }

    /// Dispatches and barriers of a decode step of so many rows, the first after a prompt.
    fn decode<D: Device + 'static>(&self, device: D, gguf: &Gguf, rows: usize) -> [u64; 2] {
        let mut decoder = Decoder::new(gguf, device, KvFormat::F16, true);
        decoder.prompt(&[1, 2, 3]);
        let before = decoder.work();
        let ids: Vec<_> = (0..rows as u32).collect();
        decoder.decode(Step {
            first: 3,
            ids: &ids,
            wanted: &(0..rows).collect::<Vec<_>>(),
        });
        let after = decoder.work();
        assert_eq!(after.submits - before.submits, 1);
        [
            after.dispatches - before.dispatches,
            after.barriers - before.barriers,
        ]
    }
}

fn vector(writer: &mut Writer, name: &str, width: usize) {
    let bytes = (0..width).flat_map(|_| 1f32.to_le_bytes()).collect();
    add(writer, name, TensorType::F32, &[width], bytes);
}

fn add(writer: &mut Writer, name: &str, ty: TensorType, shape: &[usize], bytes: Vec<u8>) {
    writer.add(Tensor {
        name: name.to_owned(),
        ty,
        shape: shape.to_vec(),
        bytes: TensorBytes::from_vec(bytes),
    });
}

/// Six dispatches for each layer, two for embeddings and logits; each but the first waits for the one before.
#[test]
fn decode_steps_take_six_dispatches_a_layer() {
    let qwen2_mixed = Structure {
        output: true,
        ty: q4_k_m_of_05b,
        ..QWEN2_24
    };
    // Qwen3-0.6B.
    let qwen3 = Structure {
        arch: "qwen3",
        biases: false,
        head_norms: true,
        heads: [128, 4, 2],
        ..QWEN2_28
    };
    // SmolLM2-135M.
    let smollm2 = Structure {
        arch: "llama",
        layers: 30,
        width: 192,
        heads: [64, 3, 1],
        biases: false,
        ty: |name, _| match name {
            "token_embd" => TensorType::Q8_0,
            _ => TensorType::Q4_1,
        },
        ..QWEN2_24
    };
    for (structure, most) in [
        (QWEN2_24, 150),
        (qwen2_mixed, 150),
        (QWEN2_28, 170),
        (qwen3, 6 * 28 + 2),
        (smollm2, 6 * 30 + 2),
    ] {
        let gguf = structure.model();
        let layers = structure.layers as u64;
        let expected = 6 * layers + 2;
        assert!(expected <= most);
        for rows in [1, MOST_ROWS] {
            let Some(device) = fast_device() else { return };
            let [dispatches, barriers] = structure.decode(device, &gguf, rows);
            let name = structure.arch;
            assert_eq!(dispatches, expected, "{name}, {layers} layers, {rows} rows");
            assert_eq!(
                barriers,
                expected - 1,
                "{name}, {layers} layers, {rows} rows"
            );
        }
    }
}
