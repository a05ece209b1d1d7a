//! Vocabularies and recorded token ids under `tests/fixtures`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::sync::LazyLock;

use minfer_gguf::Gguf;
use minfer_testdata::fixture;
use minfer_text::Tokenizer;
use serde::Deserialize;

/// The files in `vocab/vocabularies.zst`, in order, and their sizes in bytes.
const FILES: [(&str, usize); 4] = [
    ("gpt-2", 1_766_807),
    ("llama-spm", 723_869),
    ("llama-bpe", 7_818_140),
    ("qwen35", 5_928_682),
];

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
        let file = File::open(fixture("vocab/vocabularies.zst")).expect("the archive");
        let mut archive = ruzstd::decoding::StreamingDecoder::new(file).expect("a zstd frame");
        let tokenizers = FILES.map(|(name, size)| {
            let mut bytes = vec![0; size];
            archive
                .read_exact(&mut bytes)
                .expect("as many bytes as listed");
            let gguf = Gguf::parse_bytes(name, bytes).expect("a GGUF file");
            (name, Tokenizer::from_gguf(&gguf).expect("a vocabulary"))
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
