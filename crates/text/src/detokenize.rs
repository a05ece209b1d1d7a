//! Token ids to text, as they come.

use std::ops::Deref;

use crate::{TokenType, Tokenizer};

/// Turns ids into text one at a time, holding back the bytes of an unfinished character.
///
/// The pieces returned, joined, are the bytes of all tokens with invalid UTF-8 replaced by U+FFFD as
/// [`String::from_utf8_lossy`] does, however the text is cut into tokens. Control and unknown tokens add
/// nothing. `T` is a borrowed or shared [`Tokenizer`].
pub struct Detokenizer<T> {
    tokenizer: T,
    /// Bytes that may still become a character: at most three.
    pending: Vec<u8>,
    text: String,
    /// Whether a space at the beginning is still to be taken off.
    strip_space: bool,
}

impl<T: Deref<Target = Tokenizer>> Detokenizer<T> {
    /// Decodes a whole text: the space that encoding put before it is taken off.
    pub fn new(tokenizer: T) -> Self {
        let strip_space = tokenizer.adds_space_prefix();
        Detokenizer {
            tokenizer,
            pending: Vec::new(),
            text: String::new(),
            strip_space,
        }
    }

    /// Decodes the continuation of a text, where a space at the beginning belongs to it.
    pub fn continuing(tokenizer: T) -> Self {
        Detokenizer {
            strip_space: false,
            ..Detokenizer::new(tokenizer)
        }
    }

    /// The text that `id` completes; possibly none. An id outside the vocabulary adds nothing.
    pub fn push(&mut self, id: u32) -> &str {
        self.text.clear();
        match self.tokenizer.token_type(id) {
            None | Some(TokenType::Control | TokenType::Unknown) => {}
            Some(_) => {
                let mut bytes = self.tokenizer.token_bytes(id).unwrap_or_default();
                if self.strip_space && !bytes.is_empty() {
                    self.strip_space = false;
                    bytes = bytes.strip_prefix(b" ").unwrap_or(bytes);
                }
                self.pending.extend_from_slice(bytes);
                self.take_complete();
            }
        }
        &self.text
    }

    /// Whether nothing is held back.
    pub fn is_at_boundary(&self) -> bool {
        self.pending.is_empty()
    }

    /// The text of what was held back: one U+FFFD if bytes are left that are no character.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.pending));
        self.pending.clear();
        &self.text
    }

    /// Moves everything that later bytes cannot change from `pending` to `text`.
    fn take_complete(&mut self) {
        let mut taken = 0;
        for chunk in self.pending.utf8_chunks() {
            self.text.push_str(chunk.valid());
            taken += chunk.valid().len();
            let at_end = taken + chunk.invalid().len() == self.pending.len();
            if chunk.invalid().is_empty() || (at_end && is_unfinished(chunk.invalid())) {
                break;
            }
            self.text.push(char::REPLACEMENT_CHARACTER);
            taken += chunk.invalid().len();
        }
        self.pending.drain(..taken);
    }
}

/// Whether `bytes`, which are no character, could be the beginning of one.
fn is_unfinished(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

impl Tokenizer {
    /// The text of `ids`, as a [`Detokenizer`] gives it.
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut detokenizer = Detokenizer::new(self);
        let mut text = String::new();
        for &id in ids {
            text.push_str(detokenizer.push(id));
        }
        text.push_str(detokenizer.finish());
        text
    }
}

#[cfg(test)]
mod tests;
