//! Token ids equal llama.cpp's.

use minfer_gguf::{Gguf, OpenOptions};
use minfer_text::{EncodeOptions, Tokenizer};

use crate::vocabularies::{recorded, tokenizer};

const PLAIN: EncodeOptions = EncodeOptions {
    parse_special: false,
    add_bos: false,
};

const SPECIAL: EncodeOptions = EncodeOptions {
    parse_special: true,
    add_bos: false,
};

fn assert_equal_ids(tokenizer: &Tokenizer, recording: &str) {
    let lines = recorded(recording);
    assert!(lines.len() >= 119, "{recording} has {} lines", lines.len());
    for line in lines {
        let text = &line.text;
        assert_eq!(tokenizer.encode(text, PLAIN), line.ids, "{text:?}");
        assert_eq!(
            tokenizer.encode(text, SPECIAL),
            line.ids_parse_special,
            "special {text:?}"
        );
    }
}

#[test]
fn gpt2() {
    assert_equal_ids(tokenizer("gpt-2"), "vocab/gpt-2.jsonl");
}

#[test]
fn llama_spm() {
    assert_equal_ids(tokenizer("llama-spm"), "vocab/llama-spm.jsonl");
}

#[test]
fn llama_bpe() {
    assert_equal_ids(tokenizer("llama-bpe"), "vocab/llama-bpe.jsonl");
}

#[test]
fn qwen35() {
    assert_equal_ids(tokenizer("qwen35"), "vocab/qwen35.jsonl");
}

fn assert_equal_ids_of_real_model(name: &str, recording: &str) {
    let path = minfer_testdata::real_model(name).unwrap_or_else(|e| panic!("{e}"));
    let gguf = Gguf::open(&path, OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"));
    assert_equal_ids(&tokenizer, recording);
}

#[test]
fn smollm2() {
    assert_equal_ids_of_real_model("smollm2", "tokenize/smollm2.jsonl");
}

#[test]
fn qwen2_5_coder() {
    assert_equal_ids_of_real_model("qwen2.5-coder:0.5b", "tokenize/qwen2.5-coder-0.5b.jsonl");
}
