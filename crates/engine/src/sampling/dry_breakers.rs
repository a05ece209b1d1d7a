//! Sequence breakers of the DRY penalty, from text to tokens.

use minfer_text::{EncodeOptions, Tokenizer};

/// The breakers that DRY's author proposes.
pub const DEFAULT_BREAKERS: [&str; 4] = ["\n", ":", "\"", "*"];

/// Every way in which a breaker appears in a text of tokens: inside a token, or begun by the end of a
/// token and completed by the following ones.
pub fn breaker_tokens(tokenizer: &Tokenizer, breakers: &[&str]) -> Vec<Vec<u32>> {
    let breakers = breakers.iter().filter(|breaker| !breaker.is_empty());
    breakers
        .flat_map(|breaker| occurrences(tokenizer, breaker))
        .collect()
}

fn occurrences(tokenizer: &Tokenizer, breaker: &str) -> Vec<Vec<u32>> {
    // What remains of the breaker after each of its proper beginnings, tokenized once.
    let remainders: Vec<(&str, Vec<u32>)> = breaker
        .char_indices()
        .skip(1)
        .map(|(at, _)| breaker.split_at(at))
        .map(|(begun, rest)| (begun, tokenizer.encode(rest, EncodeOptions::default())))
        .collect();
    let mut sequences = Vec::new();
    for id in 0..u32::try_from(tokenizer.n_vocab()).unwrap_or(u32::MAX) {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        if contains(bytes, breaker.as_bytes()) {
            sequences.push(vec![id]);
            continue;
        }
        for (begun, rest) in &remainders {
            if bytes.ends_with(begun.as_bytes()) {
                sequences.push(std::iter::once(id).chain(rest.iter().copied()).collect());
            }
        }
    }
    sequences
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
