//! A model that counts: after token `n` it expects `n + 1`, whatever came before.

use minfer_engine::{Engine, EngineOptions};
use minfer_gguf::{Gguf, OpenOptions, Tensor, TensorBytes, TensorType, Value, Writer};
use minfer_testdata::tiny_model;

pub fn counting_engine(options: &EngineOptions) -> Engine {
    load(&counting_model(), options)
}

/// With `end` as the token that ends a text.
pub fn counting_engine_with_end(end: u32, options: &EngineOptions) -> Engine {
    let mut writer = counting_model();
    writer.set("tokenizer.ggml.eos_token_id", Value::from(end));
    load(&writer, options)
}

fn load(model: &Writer, options: &EngineOptions) -> Engine {
    let bytes = model.to_bytes().unwrap_or_else(|e| panic!("{e}"));
    let gguf = Gguf::parse_bytes("counting.gguf", bytes).unwrap_or_else(|e| panic!("{e}"));
    Engine::from_gguf(&gguf, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Layers that add nothing leave a token's embedding as it is, and the output row of the token after it
/// is that embedding.
fn counting_model() -> Writer {
    let path = tiny_model("tiny-qwen2-f32");
    let source = Gguf::open(path, OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in source.tensors() {
        let mut tensor = source.tensor(&info.name).expect("listed");
        assert_eq!(tensor.ty, TensorType::F32);
        if info.name.ends_with("attn_output.weight") || info.name.ends_with("ffn_down.weight") {
            tensor.bytes = TensorBytes::from_vec(vec![0; tensor.bytes.len()]);
        }
        if info.name != "output.weight" {
            writer.add(tensor);
        }
    }
    let embedding = source.tensor("token_embd.weight").expect("a model has one");
    let mut rows = embedding.bytes.to_vec();
    let row = rows.len() / embedding.shape[1];
    rows.rotate_right(row);
    writer.add(Tensor {
        name: "output.weight".to_owned(),
        bytes: TensorBytes::from_vec(rows),
        ..embedding
    });
    writer
}
