//! Arbitrary tables must be refused or usable, and arbitrary text must survive encoding and decoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use minfer_text::{EncodeOptions, StopStrings, TokenType, Tokenizer, TokenizerModel, Vocabulary};

/// The printable spelling of a byte in a byte-level vocabulary.
fn spelled(byte: u8) -> String {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let code = if printable(byte) {
        u32::from(byte)
    } else {
        0x100 + (0..byte).filter(|&b| !printable(b)).count() as u32
    };
    char::from_u32(code).map(String::from).unwrap_or_default()
}

/// A vocabulary of all bytes and of whatever `extra` lists, one entry a line: a merge if it contains a space,
/// else a token.
fn vocabulary(model: TokenizerModel, pre: &str, extra: &str) -> Vocabulary<'static> {
    let bytes = 0..=255_u8;
    let mut tokens: Vec<String> = match model {
        TokenizerModel::Bpe => bytes.map(spelled).collect(),
        TokenizerModel::Spm => bytes.map(|byte| format!("<0x{byte:02X}>")).collect(),
    };
    let byte_type = match model {
        TokenizerModel::Bpe => TokenType::Normal,
        TokenizerModel::Spm => TokenType::Byte,
    };
    let mut types = vec![byte_type; tokens.len()];
    let mut merges = Vec::new();
    for line in extra.lines().take(64) {
        let is_merge = line.contains(' ');
        let token = line.replacen(' ', "", 1);
        if is_merge {
            merges.push(line.to_owned());
        }
        if !tokens.contains(&token) {
            types.push(match line.as_bytes().first() {
                _ if is_merge => TokenType::Normal,
                Some(b'<') => TokenType::Control,
                Some(b'[') => TokenType::UserDefined,
                _ => TokenType::Normal,
            });
            tokens.push(token);
        }
    }
    let scores = (0..tokens.len()).map(|id| -(id as f32)).collect();
    Vocabulary {
        model,
        pre: Some(pre.to_owned()),
        types: Some(types),
        scores: Some(scores),
        tokens: tokens.into(),
        merges: merges.into(),
        bos: None,
        eos: None,
        eot: None,
        unknown: None,
        add_bos: None,
        add_space_prefix: None,
    }
}

fuzz_target!(|input: (u8, &str, &str)| {
    let (choice, extra, text) = input;
    let pre = ["default", "gpt-2", "smollm", "qwen2", "qwen35", "llama-bpe"]
        [usize::from(choice >> 2) % 6];
    let model = if choice & 1 == 0 {
        TokenizerModel::Bpe
    } else {
        TokenizerModel::Spm
    };
    let Ok(tokenizer) = Tokenizer::new(vocabulary(model, pre, extra)) else {
        return;
    };
    let options = EncodeOptions {
        parse_special: choice & 2 != 0,
        add_bos: true,
    };
    let ids = tokenizer.encode(text, options);
    assert!(ids.iter().all(|&id| (id as usize) < tokenizer.n_vocab()));
    let decoded = tokenizer.decode(&ids);
    if model == TokenizerModel::Bpe && !options.parse_special {
        assert_eq!(decoded, text);
    }
    let mut matcher = StopStrings::new(extra.lines()).matcher();
    let mut answer = String::new();
    for c in text.chars() {
        answer.push_str(matcher.push(c.encode_utf8(&mut [0; 4])).text);
    }
    answer.push_str(matcher.finish());
    assert!(text.starts_with(&answer));
});
