//! A rendered conversation, and its encoding whole or in pieces.

use serde::{Deserialize, Serialize};

use crate::Tokenizer;
use crate::special::Fragment;

/// The text of a conversation, and which stretches of it are special tokens. The same characters elsewhere in
/// the text are only characters: somebody wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatText {
    text: String,
    special: Vec<SpecialToken>,
}

/// A special token in a text, at the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecialToken {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last one.
    pub end: usize,
    /// The token.
    pub id: u32,
}

/// Token ids of a [`ChatText`] from some byte on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodedChat {
    /// The ids.
    pub ids: Vec<u32>,
    /// Index in `ids` of every special token of the text that starts at that byte or after it.
    pub special: Vec<usize>,
}

impl ChatText {
    /// Takes `text` apart, in which `marker` breaks up the spellings that are no tokens.
    pub(crate) fn parse(tokenizer: &Tokenizer, marked: &str, marker: char) -> Self {
        let mut parsed = ChatText::default();
        tokenizer.partition_marked(marked, marker, |fragment| match fragment {
            Fragment::Text(text) => parsed.text.extend(text.chars().filter(|&c| c != marker)),
            Fragment::Token(id, spelling) => parsed.push_token(id, spelling),
        });
        parsed
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The special tokens, in order.
    pub fn special(&self) -> &[SpecialToken] {
        &self.special
    }

    /// Whether this is a result of rendering or of appending to one: special tokens in order, apart, and inside
    /// the text. What was read from a file may be anything.
    pub fn is_well_formed(&self) -> bool {
        let mut end = 0;
        self.special.iter().all(|token| {
            let follows = end <= token.start && token.start < token.end;
            end = token.end;
            follows && self.text.get(token.start..token.end).is_some()
        })
    }

    /// Appends text without special tokens.
    pub fn push_text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Appends a special token, spelled `spelling`.
    pub fn push_token(&mut self, id: u32, spelling: &str) {
        let start = self.text.len();
        self.text.push_str(spelling);
        let end = self.text.len();
        self.special.push(SpecialToken { start, end, id });
    }

    /// Drops what starts at byte `start` or later. A `start` inside of a character drops the whole character.
    pub fn truncate(&mut self, start: usize) {
        self.text.truncate(self.text.floor_char_boundary(start));
        let len = self.text.len();
        self.special.retain(|token| token.end <= len);
    }

    /// Bytes at the beginning in which `other` has the same text and the same special tokens.
    pub fn common_prefix(&self, other: &ChatText) -> usize {
        let same = |(a, b): &(u8, u8)| a == b;
        let pairs = self.text.bytes().zip(other.text.bytes());
        let mut end = self
            .text
            .floor_char_boundary(pairs.take_while(same).count());
        let n = self.special.iter().zip(&other.special);
        let n = n.take_while(|(a, b)| a == b && a.end <= end).count();
        for token in [self.special.get(n), other.special.get(n)] {
            end = end.min(token.map_or(end, |token| token.start));
        }
        end
    }

    /// Whether the text from byte `start` on is that of `other` from `other_start` on, special tokens included.
    pub fn same_from(&self, start: usize, other: &ChatText, other_start: usize) -> bool {
        let offsets = |special: &[SpecialToken], start: usize| -> Vec<(usize, u32)> {
            let tokens = special.iter().filter(|token| token.start >= start);
            tokens.map(|t| (t.start - start, t.id)).collect()
        };
        let texts = (self.text.get(start..), other.text.get(other_start..));
        matches!(texts, (Some(a), Some(b)) if a == b)
            && offsets(&self.special, start) == offsets(&other.special, other_start)
    }

    /// The ids of the text from byte `start` on. From the very start BOS comes first if the model wants it
    /// and the text does not have it. Where a special token starts, the ids before and after are those of the
    /// whole text; anywhere else they are those of two texts, of which the second does not begin one. A start
    /// inside of a special token or of a character, or beyond the end, encodes what starts after it.
    pub fn encode_from(&self, tokenizer: &Tokenizer, start: usize) -> EncodedChat {
        let first = self.special.partition_point(|token| token.start < start);
        let (before, rest) = self.special.split_at(first);
        let before_end = before.last().map_or(0, |token| token.end);
        let mut encoded = EncodedChat::default();
        let ids = &mut encoded.ids;
        let mut done = start.max(before_end);
        let mut begins = done == before_end;
        for token in rest {
            tokenizer.encode_text(self.between(done, token.start), begins, ids);
            encoded.special.push(ids.len());
            ids.push(token.id);
            (done, begins) = (token.end, true);
        }
        tokenizer.encode_text(self.between(done, self.text.len()), begins, ids);
        let bos = tokenizer
            .bos()
            .filter(|_| start == 0 && tokenizer.adds_bos());
        if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
            encoded.special.iter_mut().for_each(|index| *index += 1);
        }
        encoded
    }

    fn between(&self, start: usize, end: usize) -> &str {
        let start = self.text.ceil_char_boundary(start.min(self.text.len()));
        self.text.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
