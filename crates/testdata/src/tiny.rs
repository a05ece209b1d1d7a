//! Random models of two layers, made and evaluated with llama.cpp: see `tests/fixtures/tiny/README.md`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use minfer_gguf::{Gguf, Tensor, TensorBytes, TensorType, Writer, quantize};
use serde::Deserialize;

use crate::fixture;

/// Names of all tiny models.
pub const TINY_MODELS: [&str; 17] = [
    "tiny-qwen2-f32",
    "tiny-qwen2-f16",
    "tiny-qwen2-bf16",
    "tiny-qwen2-q4_0",
    "tiny-qwen2-q4_1",
    "tiny-qwen2-q5_0",
    "tiny-qwen2-q5_1",
    "tiny-qwen2-q8_0",
    "tiny-qwen2-q2_k",
    "tiny-qwen2-q3_k",
    "tiny-qwen2-q4_k",
    "tiny-qwen2-q5_k",
    "tiny-qwen2-q6_k",
    "tiny-qwen2-iq4_nl",
    "tiny-qwen2-iq4_xs",
    "tiny-qwen3-q4_k",
    "tiny-llama-q4_k",
];

/// The models that are made here from `tiny-qwen2-f32`: weight type and `general.file_type`, the number
/// of the mixture in llama.cpp's `llama_ftype`.
const QUANTIZED: [(&str, TensorType, u32); 14] = [
    ("tiny-qwen2-f16", TensorType::F16, 1),
    ("tiny-qwen2-bf16", TensorType::BF16, 32),
    ("tiny-qwen2-q4_0", TensorType::Q4_0, 2),
    ("tiny-qwen2-q4_1", TensorType::Q4_1, 3),
    ("tiny-qwen2-q5_0", TensorType::Q5_0, 8),
    ("tiny-qwen2-q5_1", TensorType::Q5_1, 9),
    ("tiny-qwen2-q8_0", TensorType::Q8_0, 7),
    ("tiny-qwen2-q2_k", TensorType::Q2_K, 10),
    ("tiny-qwen2-q3_k", TensorType::Q3_K, 12),
    ("tiny-qwen2-q4_k", TensorType::Q4_K, 15),
    ("tiny-qwen2-q5_k", TensorType::Q5_K, 17),
    ("tiny-qwen2-q6_k", TensorType::Q6_K, 18),
    ("tiny-qwen2-iq4_nl", TensorType::IQ4_NL, 25),
    ("tiny-qwen2-iq4_xs", TensorType::IQ4_XS, 30),
];

/// What the exact reference computed with a tiny model: weights dequantized to f32, f32 activations.
#[derive(Clone, Debug, Deserialize)]
pub struct TinyLogits {
    /// File name of the model, for example `tiny-qwen2-q4_0.gguf`.
    pub file: String,
    /// Names of the element types in the file.
    pub types: Vec<String>,
    /// The prompt.
    pub ids: Vec<u32>,
    /// Logits after the prompt's last token.
    pub last_logits: Vec<f32>,
    /// Most likely token after each token of the prompt.
    pub row_argmax: Vec<u32>,
    /// Greedy continuation of the prompt.
    pub greedy: Vec<u32>,
    /// By how much the best logit exceeded the second at each token of `greedy`.
    pub margins: Vec<f32>,
}

/// The recorded values of every tiny model, also of some that [`tiny_model`] does not have.
pub fn tiny_logits() -> Vec<TinyLogits> {
    let path = fixture("tiny/logits.json");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The file of a tiny model, one of [`TINY_MODELS`] (`.gguf` may be appended).
///
/// Models that the repository does not hold as files are decompressed or quantized once per process into
/// the target folder. A file there is replaced as a whole, so other processes may have it open.
pub fn tiny_model(name: &str) -> PathBuf {
    static MADE: LazyLock<Mutex<HashMap<String, PathBuf>>> = LazyLock::new(Default::default);
    let name = name.strip_suffix(".gguf").unwrap_or(name);
    assert!(TINY_MODELS.contains(&name), "no tiny model `{name}`");
    let stored = fixture(format!("tiny/{name}.gguf"));
    if stored.is_file() {
        return stored;
    }
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = made.get(name) {
        return path.clone();
    }
    let path = made_models_dir().join(format!("{name}.gguf"));
    make(name)
        .write(&path)
        .unwrap_or_else(|e| panic!("cannot make {name}: {e}"));
    made.insert(name.to_owned(), path.clone());
    path
}

/// A folder beside the `deps` folder that holds the running test.
fn made_models_dir() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile_dir = test.ancestors().nth(2).unwrap_or(Path::new("."));
    let dir = profile_dir.join("testdata");
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    dir
}

fn make(name: &str) -> Writer {
    let source = f32_model();
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    let names = source.tensors().iter().map(|t| t.name.as_str());
    let mut tensors: Vec<Tensor> = names.filter_map(|name| source.tensor(name)).collect();
    if let Some(&(_, ty, file_type)) = QUANTIZED.iter().find(|(model, ..)| *model == name) {
        writer.remove("general.file_type");
        writer.set("general.quantization_version", 2u32);
        writer.set("general.file_type", file_type);
        tensors.sort_by_key(|t| (layer(&t.name), t.name.clone()));
        tensors = tensors.into_iter().map(|t| quantized(t, ty)).collect();
    }
    for tensor in tensors {
        writer.add(tensor);
    }
    writer
}

/// The number in `blk.<number>.`; other tensors come first.
fn layer(tensor: &str) -> Option<u32> {
    let (number, _) = tensor.strip_prefix("blk.")?.split_once('.')?;
    number.parse().ok()
}

/// Matrices get the type `ty`; biases and norms stay as they are.
fn quantized(mut tensor: Tensor, ty: TensorType) -> Tensor {
    if tensor.shape.len() < 2 {
        return tensor;
    }
    let mut values = vec![0.0; tensor.shape.iter().product()];
    quantize::dequantize(tensor.ty, &tensor.bytes, &mut values).expect("f32 weights");
    let bytes = quantize::quantize(ty, &values).expect("whole blocks of a type with a quantizer");
    tensor.ty = ty;
    tensor.bytes = TensorBytes::from_vec(bytes);
    tensor
}

fn f32_model() -> Gguf {
    let path = fixture("tiny/tiny-qwen2-f32.gguf.zst");
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(file)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .read_to_end(&mut bytes)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Gguf::parse_bytes(path, bytes).unwrap_or_else(|e| panic!("{e}"))
}
