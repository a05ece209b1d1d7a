//! GPT-2's words:
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.

use super::class::Class;
use super::{run_len, whitespace_len};

const CONTRACTIONS: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];

/// Calls `emit` with each word of `text`.
pub fn split<'t>(text: &'t str, emit: &mut impl FnMut(&'t str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let (word, tail) = rest.split_at(word_len(rest));
        emit(word);
        rest = tail;
    }
}

/// Length in bytes of the word at the start of `text`, which is not empty.
fn word_len(text: &str) -> usize {
    if let Some(contraction) = CONTRACTIONS.iter().find(|c| text.starts_with(**c)) {
        return contraction.len();
    }
    let space = usize::from(text.starts_with(' '));
    let body = &text[space..];
    match body.chars().next().map(Class::of) {
        None | Some(Class::Space) => whitespace_len(text),
        Some(Class::Letter) => space + run_len(body, Class::is_letter),
        Some(Class::Number) => space + run_len(body, Class::is_number),
        Some(_) => space + run_len(body, |c| !c.is_space() && !c.is_letter() && !c.is_number()),
    }
}
