//! Fused decode steps of whole models have the bits of the steps that run node by node.

use minfer_gguf::{Gguf, OpenOptions, Tensor, TensorBytes, TensorType, Writer, quantize};
use minfer_graph::KvFormat;
use minfer_metal::device::Device;
use minfer_testdata::tiny_model;

use crate::decoder::{Decoder, MOST_ROWS, Step};
use crate::{assert_no_reports, checked_device, fast_device};

const PROMPT: [u32; 5] = [11, 3, 250, 7, 96];

/// The types of matrices, by a part of their name; others stay.
type Mixture = &'static [(&'static str, TensorType)];

/// As the files of 0.5B models mix them, whose widths are no whole blocks of 256.
const SMALL_BLOCKS: Mixture = &[
    ("attn_q", TensorType::Q5_0),
    ("attn_k", TensorType::Q5_0),
    ("blk.0.attn_v", TensorType::Q8_0),
    ("blk.1.attn_v", TensorType::Q5_0),
    ("attn_output", TensorType::Q5_0),
    ("ffn_gate", TensorType::Q5_0),
    ("ffn_up", TensorType::Q4_0),
    ("blk.0.ffn_down", TensorType::Q6_K),
    ("blk.1.ffn_down", TensorType::Q4_K),
    ("token_embd", TensorType::Q5_0),
    ("output.weight", TensorType::Q8_0),
];
/// As files of larger models do.
const LARGE_BLOCKS: Mixture = &[
    ("blk.0.attn_v", TensorType::Q6_K),
    ("blk.1.attn_k", TensorType::Q5_K),
    ("blk.1.ffn_up", TensorType::Q4_1),
    ("ffn_down", TensorType::Q6_K),
    ("token_embd", TensorType::Q6_K),
];
/// Three types in one node.
const THREE: Mixture = &[
    ("attn_q", TensorType::F16),
    ("attn_k", TensorType::BF16),
    ("blk.0.attn_v", TensorType::F32),
    ("blk.1.attn_v", TensorType::Q5_1),
    ("ffn_gate", TensorType::BF16),
];

/// A tiny model with matrices of other types.
fn mixed(name: &str, mixture: Mixture) -> Gguf {
    let source = Gguf::open(tiny_model(name), OpenOptions::default()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in source.tensors() {
        let tensor = source.tensor(&info.name).unwrap();
        let ty = mixture.iter().find(|(part, _)| info.name.contains(part));
        let is_matrix = info.shape.len() == 2;
        writer.add(match ty.filter(|_| is_matrix) {
            Some((_, ty)) => quantized(tensor, *ty),
            None => tensor,
        });
    }
    Gguf::parse_bytes(name, writer.to_bytes().unwrap()).unwrap()
}

fn quantized(mut tensor: Tensor, ty: TensorType) -> Tensor {
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quantize::dequantize(tensor.ty, &tensor.bytes, &mut values).unwrap();
    tensor.bytes = TensorBytes::from_vec(quantize::quantize(ty, &values).unwrap());
    tensor.ty = ty;
    tensor
}

/// Decodes steps of these numbers of rows, all from the same position on, both ways.
fn compare<D: Device + Clone + 'static>(
    device: &D,
    gguf: &Gguf,
    format: KvFormat,
    counts: impl IntoIterator<Item = usize>,
) {
    let name = gguf.paths().next().unwrap().display().to_string();
    let new = |fused| Decoder::new(gguf, device.clone(), format, fused);
    let (mut fused, mut plain) = (new(true), new(false));
    assert_eq!(fused.prompt(&PROMPT), plain.prompt(&PROMPT), "{name}");
    for rows in counts {
        let ids: Vec<_> = (0..rows as u32).map(|i| (i * 37 + 5) % 300).collect();
        // All but the third, backwards.
        let wanted: Vec<_> = (0..rows).rev().filter(|&row| row != 2).collect();
        let step = Step {
            first: PROMPT.len(),
            ids: &ids,
            wanted: &wanted,
        };
        let (found, expected) = (fused.decode(step), plain.decode(step));
        assert!(
            found == expected,
            "{name}, {format:?}, {rows} rows: logits differ"
        );
        assert!(
            fused.stored() == plain.stored(),
            "{name}, {format:?}, {rows} rows: keys or values differ"
        );
    }
}

/// Every operation of the layers is fused, the attention apart.
fn assert_fused<D: Device + Clone + 'static>(device: &D, gguf: &Gguf) {
    let decoder = Decoder::new(gguf, device.clone(), KvFormat::F32, true);
    let graph = decoder.decode_graph();
    let count = |name: &str| {
        let nodes = graph.nodes.iter();
        nodes.filter(|node| node.op.name() == name).count()
    };
    let names = ["FusedQkv", "Attention", "FusedMatMul", "FusedFfn", "Embed"];
    // Two layers and the logits.
    assert_eq!(names.map(count), [2, 2, 5, 2, 1]);
    assert_eq!(
        names.map(count).iter().sum::<usize>() + count("Input"),
        graph.nodes.len()
    );
}

#[test]
fn the_three_architectures_have_the_same_bits_in_every_format() {
    let Some(device) = fast_device() else { return };
    for (name, mixture) in [
        ("tiny-qwen2-f32", SMALL_BLOCKS),
        ("tiny-qwen3-q4_k", LARGE_BLOCKS),
        ("tiny-llama-q4_k", THREE),
    ] {
        let gguf = mixed(name, mixture);
        assert_fused(&device, &gguf);
        compare(&device, &gguf, KvFormat::F32, 1..=MOST_ROWS);
        // Rows are split into batches alike, whatever the format.
        for format in [KvFormat::F16, KvFormat::Q8_0] {
            compare(&device, &gguf, format, [1, 3, 8, MOST_ROWS]);
        }
    }
}

#[test]
fn every_type_has_the_same_bits() {
    let Some(device) = fast_device() else { return };
    for ty in [
        "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k",
    ] {
        let gguf = mixed(&format!("tiny-qwen2-{ty}"), &[]);
        compare(&device, &gguf, KvFormat::F16, [1, 8, 9]);
    }
}

#[test]
fn fused_steps_run_without_reports() {
    let (Some(checked), Some(fast)) = (checked_device(), fast_device()) else {
        return;
    };
    for (name, mixture, format) in [
        ("tiny-qwen2-f32", SMALL_BLOCKS, KvFormat::Q8_0),
        ("tiny-qwen3-q4_k", LARGE_BLOCKS, KvFormat::F16),
        ("tiny-llama-q4_k", THREE, KvFormat::F32),
    ] {
        let gguf = mixed(name, mixture);
        let run = |device| {
            let mut decoder = Decoder::new(&gguf, device, format, true);
            decoder.prompt(&PROMPT[..2]);
            let step = |first, ids, wanted| Step { first, ids, wanted };
            let alone = decoder.decode(step(2, &PROMPT[2..3], &[0]));
            let batch = decoder.decode(step(3, &[9, 8, 7], &[2, 0]));
            (alone, batch, decoder.stored())
        };
        let found = run(checked.clone());
        assert_no_reports(&checked);
        assert!(found == run(fast.clone()), "{name}");
    }
}
