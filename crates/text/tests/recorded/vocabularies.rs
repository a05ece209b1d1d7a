//! Vocabularies and recorded token ids under `tests/fixtures`.

use std::collections::HashMap;
use std::fs;
use std::sync::LazyLock;

use minfer_testdata::{VOCABULARIES, fixture, vocabulary};
use minfer_text::Tokenizer;
use serde::Deserialize;

/// One line of a recording.
#[derive(Deserialize)]
pub struct Recorded {
    pub text: String,
    pub ids: Vec<u32>,
    pub ids_parse_special: Vec<u32>,
}

/// The tokenizer of one of the four vocabularies.
pub fn tokenizer(name: &str) -> &'static Tokenizer {
    static TOKENIZERS: LazyLock<HashMap<&str, Tokenizer>> = LazyLock::new(|| {
        let tokenizers = VOCABULARIES.map(|name| {
            let tokenizer = Tokenizer::from_gguf(&vocabulary(name));
            (name, tokenizer.expect("a vocabulary"))
        });
        tokenizers.into()
    });
    &TOKENIZERS[name]
}

/// The lines of a recording under `tests/fixtures`.
pub fn recorded(path: &str) -> Vec<Recorded> {
    let lines = fs::read_to_string(fixture(path)).expect("the recording");
    lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("a recorded line"))
        .collect()
}
