//! Properties of whole vocabularies, on arbitrary text.

use minfer_text::{Detokenizer, EncodeOptions, Tokenizer};
use proptest::prelude::*;

use crate::vocabularies::tokenizer;

/// Text of all kinds: any characters, and runs of those that splitting distinguishes.
fn text() -> impl Strategy<Value = String> {
    let any = proptest::collection::vec(any::<char>(), 0..40).prop_map(String::from_iter);
    let alphabet = "aB1² \t\r\n'sR<|>é\u{301}中😀▁Ġ.\u{3000}\u{85}";
    let letters: Vec<char> = alphabet.chars().collect();
    let picked = proptest::collection::vec(proptest::sample::select(letters), 0..80);
    prop_oneof![any, picked.prop_map(String::from_iter)]
}

fn options() -> impl Strategy<Value = EncodeOptions> {
    any::<(bool, bool)>().prop_map(|(parse_special, add_bos)| EncodeOptions {
        parse_special,
        add_bos,
    })
}

fn decode_in_pieces(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let mut detokenizer = Detokenizer::continuing(tokenizer);
    let mut pieces: Vec<String> = ids
        .iter()
        .map(|&id| detokenizer.push(id).to_owned())
        .collect();
    pieces.push(detokenizer.finish().to_owned());
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bpe_ids_decode_to_the_text(text in text()) {
        for name in ["gpt-2", "llama-bpe", "qwen35"] {
            let tokenizer = tokenizer(name);
            let ids = tokenizer.encode(&text, EncodeOptions::default());
            prop_assert_eq!(tokenizer.decode(&ids), text.as_str(), "{}", name);
        }
    }

    #[test]
    fn sentencepiece_ids_decode_to_the_text(text in text()) {
        let tokenizer = tokenizer("llama-spm");
        let ids = tokenizer.encode(&text, EncodeOptions::default());
        prop_assert_eq!(tokenizer.decode(&ids), text.replace('▁', " "));
    }

    #[test]
    fn encoding_yields_ids_of_the_vocabulary(text in text(), options in options()) {
        for name in ["gpt-2", "llama-spm", "llama-bpe", "qwen35"] {
            let tokenizer = tokenizer(name);
            let ids = tokenizer.encode(&text, options);
            prop_assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
        }
    }

    #[test]
    fn pieces_are_the_bytes_of_the_tokens(ids in proptest::collection::vec(0_u32..50_256, 0..60)) {
        let tokenizer = tokenizer("gpt-2");
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| tokenizer.token_bytes(id)).flatten().copied().collect();
        let pieces = decode_in_pieces(tokenizer, &ids);
        prop_assert_eq!(pieces.concat(), String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn pieces_of_valid_text_have_no_replacement_character(text in text()) {
        prop_assume!(!text.contains('\u{FFFD}'));
        let tokenizer = tokenizer("llama-bpe");
        let ids = tokenizer.encode(&text, EncodeOptions::default());
        let pieces = decode_in_pieces(tokenizer, &ids);
        let replaced = pieces.iter().any(|piece| piece.contains('\u{FFFD}'));
        prop_assert!(!replaced);
    }
}
