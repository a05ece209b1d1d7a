//! The tiny models are the files that llama.cpp wrote, byte for byte.

use std::fs;

use minfer_testdata::{TINY_MODELS, fixture, tiny_logits, tiny_model};
use sha2::{Digest, Sha256};

#[test]
fn made_models_are_llama_cpps_files() {
    let list = fs::read_to_string(fixture("tiny/files.sha256")).unwrap();
    assert_eq!(list.lines().count(), 15);
    for line in list.lines() {
        let (expected, file) = line.split_once("  ").unwrap();
        let bytes = fs::read(tiny_model(file)).unwrap();
        let found: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(found, expected, "{file}");
    }
}

#[test]
fn every_model_exists_and_has_logits() {
    let logits = tiny_logits();
    for name in TINY_MODELS {
        assert!(tiny_model(name).is_file(), "{name}");
        let entry = logits.iter().find(|l| l.file == format!("{name}.gguf"));
        assert_eq!(entry.unwrap().last_logits.len(), 320, "{name}");
    }
}
