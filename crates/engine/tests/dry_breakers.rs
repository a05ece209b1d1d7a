//! DRY's sequence breakers in a model's own tokens.

use minfer_engine::sampling::{DEFAULT_BREAKERS, breaker_tokens};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_testdata::tiny_model;
use minfer_text::{EncodeOptions, Tokenizer};

fn tokenizer() -> Tokenizer {
    let gguf = Gguf::open(tiny_model("tiny-qwen2-q2_k"), OpenOptions::default());
    Tokenizer::from_gguf(&gguf.unwrap_or_else(|e| panic!("{e}"))).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_breaker_is_found_wherever_tokens_spell_it() {
    let tokenizer = tokenizer();
    let sequences = breaker_tokens(&tokenizer, &["e:\n"]);
    assert!(!sequences.is_empty());
    for sequence in &sequences {
        let text = tokenizer.decode(sequence);
        assert!(text.contains("e:\n"), "{sequence:?} is {text:?}");
    }
    // The usual spelling is among them: a token that ends in "e", then the rest.
    let rest = tokenizer.encode(":\n", EncodeOptions::default());
    let usual = tokenizer.encode("e", EncodeOptions::default());
    assert!(sequences.contains(&[usual, rest].concat()));
}

#[test]
fn every_token_with_a_default_breaker_in_it_breaks() {
    let tokenizer = tokenizer();
    let sequences = breaker_tokens(&tokenizer, &DEFAULT_BREAKERS);
    for id in 0..tokenizer.n_vocab() as u32 {
        let text = String::from_utf8_lossy(tokenizer.token_bytes(id).unwrap_or_default());
        let breaks = DEFAULT_BREAKERS
            .iter()
            .any(|breaker| text.contains(breaker));
        assert_eq!(sequences.contains(&vec![id]), breaks, "{id}: {text:?}");
    }
}
