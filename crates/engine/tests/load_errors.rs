//! Models that cannot be run are refused when they are loaded, with the reason.

use minfer_engine::{Engine, EngineOptions, Error};
use minfer_gguf::{Gguf, OpenOptions, Value, Writer};
use minfer_graph::KvFormat;
use minfer_testdata::tiny_model;

/// A tiny model with changes, loaded.
fn load(change: impl FnOnce(&mut Writer), options: &EngineOptions) -> Result<Engine, Error> {
    let path = tiny_model("tiny-qwen2-q2_k");
    let original = Gguf::open(path, OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let mut writer = Writer::new();
    for (key, value) in original.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in original.tensors() {
        writer.add(original.tensor(&info.name).expect("listed"));
    }
    change(&mut writer);
    let bytes = writer.to_bytes().unwrap_or_else(|e| panic!("{e}"));
    let gguf = Gguf::parse_bytes("changed.gguf", bytes).unwrap_or_else(|e| panic!("{e}"));
    Engine::from_gguf(&gguf, options)
}

fn refusal(change: impl FnOnce(&mut Writer), options: &EngineOptions) -> String {
    match load(change, options) {
        Ok(_) => panic!("loaded"),
        Err(error) => error.to_string(),
    }
}

fn assert_names(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}

#[test]
fn an_unchanged_copy_loads() {
    let engine = load(|_| {}, &EngineOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(engine.model().architecture(), "qwen2");
    assert_eq!(engine.kv_format(), KvFormat::F32);
}

#[test]
fn an_unknown_architecture_is_named() {
    let change = |writer: &mut Writer| {
        writer.set("general.architecture", "perceptron".to_owned());
    };
    let message = refusal(change, &EngineOptions::default());
    assert_names(&message, &["perceptron", "qwen2"]);
}

#[test]
fn an_unknown_pre_tokenizer_is_named() {
    let change = |writer: &mut Writer| {
        writer.set("tokenizer.ggml.pre", "morse".to_owned());
    };
    let message = refusal(change, &EngineOptions::default());
    assert_names(&message, &["morse"]);
}

#[test]
fn a_template_that_cannot_be_rendered_is_refused_with_line_and_construct() {
    let change = |writer: &mut Writer| {
        let template = "{{ messages[0].content }}\n{{ messages | shout }}".to_owned();
        writer.set("tokenizer.chat_template", template);
    };
    let message = refusal(change, &EngineOptions::default());
    assert_names(&message, &["line 2", "shout"]);
}

#[test]
fn an_option_out_of_range_is_named() {
    let options = EngineOptions {
        ubatch: 0,
        ..EngineOptions::default()
    };
    let message = refusal(|_| {}, &options);
    assert_eq!(message, "ubatch is 0, but must be at least 1");
}

#[test]
fn q8_0_is_refused_for_heads_that_are_not_whole_blocks() {
    // The same weights read as four times as many heads, of 16 features instead of 64.
    let quartered = |writer: &mut Writer| {
        writer.set("qwen2.attention.head_count", Value::from(16u32));
        writer.set("qwen2.attention.head_count_kv", Value::from(8u32));
        writer.set("qwen2.rope.dimension_count", Value::from(16u32));
    };
    let with = |format| EngineOptions {
        kv_format: Some(format),
        ..EngineOptions::default()
    };
    let message = refusal(quartered, &with(KvFormat::Q8_0));
    let parts = ["q8_0", "use f16 or f32", "heads of 16 features"];
    assert_names(&message, &parts);
    assert!(load(quartered, &with(KvFormat::F16)).is_ok());
    assert!(load(|_| {}, &with(KvFormat::Q8_0)).is_ok());
}
