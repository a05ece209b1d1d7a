//! Llama 3's words and those of the models that took them over with changes:
//! `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`.

use super::class::Class;
use super::{run_len, whitespace_len};

/// What differs between the relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// Most digits in a word.
    digits: usize,
    /// Whether marks belong to words, `[\p{L}\p{M}]+`, and no longer to punctuation.
    marks: bool,
}

/// Llama 3.
pub const LLAMA3: Words = Words {
    digits: 3,
    marks: false,
};

/// Qwen 2, Qwen 2.5, Qwen 3.
pub const QWEN2: Words = Words {
    digits: 1,
    marks: false,
};

/// Qwen 3.5.
pub const QWEN35: Words = Words {
    digits: 1,
    marks: true,
};

impl Words {
    /// Calls `emit` with each word of `text`.
    pub fn split<'t>(self, text: &'t str, emit: &mut impl FnMut(&'t str)) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (word, tail) = rest.split_at(self.word_len(first, rest));
            emit(word);
            rest = tail;
        }
    }

    /// Length in bytes of the word at the start of `text`, which starts with `first`.
    fn word_len(self, first: char, text: &str) -> usize {
        if first == '\''
            && let Some(len) = contraction_len(text)
        {
            return len;
        }
        let class = Class::of(first);
        let after = &text[first.len_utf8()..];
        let second = after.chars().next().map(Class::of);
        if self.in_letters(class) {
            return run_len(text, |c| self.in_letters(c));
        }
        if class.is_number() {
            return self.digits_len(text);
        }
        if !matches!(first, '\r' | '\n') && second.is_some_and(|c| self.in_letters(c)) {
            return first.len_utf8() + run_len(after, |c| self.in_letters(c));
        }
        if self.in_symbols(class) {
            return self.symbols_len(text);
        }
        if first == ' ' && second.is_some_and(|c| self.in_symbols(c)) {
            return 1 + self.symbols_len(after);
        }
        newlines_len(text).unwrap_or_else(|| whitespace_len(text))
    }

    fn in_letters(self, class: Class) -> bool {
        class.is_letter() || (self.marks && class.is_mark())
    }

    fn in_symbols(self, class: Class) -> bool {
        !class.is_space() && !class.is_number() && !self.in_letters(class)
    }

    /// `\p{N}{1,digits}`.
    fn digits_len(self, text: &str) -> usize {
        let digits = text
            .chars()
            .take(self.digits)
            .take_while(|&c| Class::of(c).is_number());
        digits.map(char::len_utf8).sum()
    }

    /// `[^\s\p{L}\p{N}]+[\r\n]*`.
    fn symbols_len(self, text: &str) -> usize {
        let symbols = run_len(text, |c| self.in_symbols(c));
        let rest = text[symbols..].trim_start_matches(['\r', '\n']);
        text.len() - rest.len()
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at the start of `text`.
fn contraction_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let letter = |i: usize| bytes.get(i).map(u8::to_ascii_lowercase);
    match (letter(1)?, letter(2)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', Some(b'e')) | (b'l', Some(b'l')) => Some(3),
        _ => None,
    }
}

/// `\s*[\r\n]+` at the start of `text`: whitespace up to its last line break, if it has one.
fn newlines_len(text: &str) -> Option<usize> {
    let run = run_len(text, Class::is_space);
    text[..run].rfind(['\r', '\n']).map(|last| last + 1)
}
