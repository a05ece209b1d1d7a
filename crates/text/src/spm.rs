//! SentencePiece-style encoding: the adjacent pair whose joined text is the token with the highest score is
//! joined until no pair is a token; what is left and is no token is spelled in bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::{Error, TokenType, Vocabulary};

/// The character that stands for a space.
pub const SPACE: char = '\u{2581}';

/// A SentencePiece vocabulary.
pub struct Spm {
    pieces: FxHashMap<Box<str>, Piece>,
    longest: usize,
    /// Whether no piece goes on with a space after other characters. Then nothing is ever joined across the
    /// beginning of a word, and words are merged one by one.
    by_words: bool,
    fallback: Fallback,
    add_space_prefix: bool,
}

#[derive(Clone, Copy)]
struct Piece {
    id: u32,
    score: f32,
}

/// How a character that is no token is encoded.
enum Fallback {
    Bytes(Box<[u32; 256]>),
    Unknown(u32),
}

impl Spm {
    /// Builds the piece table. Only normal, user-defined and unused tokens are results of merging: text
    /// that spells a control or byte token stays text.
    pub fn new(vocabulary: &Vocabulary) -> Result<Self, Error> {
        let scores = vocabulary.scores.as_deref().unwrap_or_default();
        let mut pieces = FxHashMap::default();
        let mut byte_ids = [None; 256];
        for (id, text) in vocabulary.tokens.iter().enumerate() {
            match vocabulary.type_of(id) {
                TokenType::Control | TokenType::Unknown => {}
                TokenType::Byte => byte_ids[usize::from(byte_of(id, text)?)] = Some(id as u32),
                _ if text.is_empty() => {}
                _ => {
                    let score = scores.get(id).copied().unwrap_or_default();
                    pieces.insert(
                        text.clone().into_boxed_str(),
                        Piece {
                            id: id as u32,
                            score,
                        },
                    );
                }
            }
        }
        Ok(Spm {
            longest: pieces
                .keys()
                .map(|text| text.len())
                .max()
                .unwrap_or_default(),
            by_words: pieces.keys().all(|text| next_word(text).is_none()),
            pieces,
            fallback: fallback(vocabulary, &byte_ids)?,
            add_space_prefix: vocabulary.add_space_prefix.unwrap_or(true),
        })
    }

    /// Whether text at the start, and after a special token, gets a space before it.
    pub fn add_space_prefix(&self) -> bool {
        self.add_space_prefix
    }

    /// Appends the ids of `text`; `starts` says that it begins the whole text or follows a special token.
    pub fn encode(&self, text: &str, starts: bool, ids: &mut Vec<u32>) {
        let mut spaced = String::with_capacity(text.len() + 3);
        if starts && self.add_space_prefix {
            spaced.push(SPACE);
        }
        spaced.extend(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let mut merging = Merging::default();
        let mut rest = spaced.as_str();
        while !rest.is_empty() {
            let end = next_word(rest).filter(|_| self.by_words);
            let (word, tail) = rest.split_at(end.unwrap_or(rest.len()));
            merging.run(self, word);
            for symbol in merging
                .symbols
                .iter()
                .filter(|symbol| symbol.end > symbol.start)
            {
                self.push_symbol(&word[symbol.start..symbol.end], ids);
            }
            rest = tail;
        }
    }

    fn push_symbol(&self, text: &str, ids: &mut Vec<u32>) {
        match (self.pieces.get(text), &self.fallback) {
            (Some(piece), _) => ids.push(piece.id),
            (None, Fallback::Bytes(bytes)) => {
                ids.extend(text.bytes().map(|byte| bytes[usize::from(byte)]));
            }
            (None, Fallback::Unknown(id)) => ids.push(*id),
        }
    }
}

/// Merging in O(n log n): candidate pairs wait in a heap, and a pair whose symbols have changed since is
/// recognised by its length.
#[derive(Default)]
struct Merging {
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Candidate>,
}

/// A stretch of the text; empty once joined to the one before it.
struct Symbol {
    start: usize,
    end: usize,
    previous: usize,
    next: usize,
}

/// Highest score first, then leftmost; the length only identifies the pair.
type Candidate = (OrderedScore, Reverse<usize>, usize);

#[derive(PartialEq)]
struct OrderedScore(f32);

impl Eq for OrderedScore {}

impl PartialOrd for OrderedScore {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedScore {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Merging {
    /// Splits `text` into characters, joins pairs until none is a token, and returns the number of
    /// candidates that were considered.
    fn run(&mut self, spm: &Spm, text: &str) -> usize {
        self.symbols.clear();
        let characters = text.char_indices().enumerate();
        self.symbols
            .extend(characters.map(|(i, (start, c))| Symbol {
                start,
                end: start + c.len_utf8(),
                previous: i.saturating_sub(1),
                next: i + 1,
            }));
        for left in 0..self.symbols.len() {
            self.consider(spm, text, left);
        }
        let mut considered = 0;
        while let Some((_, Reverse(left), len)) = self.candidates.pop() {
            considered += 1;
            let symbol = &self.symbols[left];
            let Some(right) = self.symbols.get(symbol.next) else {
                continue;
            };
            if symbol.end > symbol.start && right.end - symbol.start == len {
                self.join(left);
                self.consider(spm, text, left);
                if left > 0 {
                    self.consider(spm, text, self.symbols[left].previous);
                }
            }
        }
        considered
    }

    /// Queues the pair of the symbol at `left` and the one after it, if together they are a token.
    fn consider(&mut self, spm: &Spm, text: &str, left: usize) {
        let symbol = &self.symbols[left];
        let Some(right) = self.symbols.get(symbol.next) else {
            return;
        };
        let len = right.end - symbol.start;
        if len > spm.longest {
            return;
        }
        if let Some(piece) = spm.pieces.get(&text[symbol.start..right.end]) {
            // Adding zero makes the two zeros equal in the total order.
            let score = OrderedScore(piece.score + 0.0);
            self.candidates.push((score, Reverse(left), len));
        }
    }

    /// Makes the symbol at `left` and the one after it one symbol.
    fn join(&mut self, left: usize) {
        let right = self.symbols[left].next;
        let after = self.symbols[right].next;
        self.symbols[left].end = self.symbols[right].end;
        self.symbols[left].next = after;
        self.symbols[right].end = self.symbols[right].start;
        if let Some(symbol) = self.symbols.get_mut(after) {
            symbol.previous = left;
        }
    }
}

/// Where the second word of `text` begins: at the first space that follows another character.
fn next_word(text: &str) -> Option<usize> {
    let first = text.find(|c| c != SPACE)?;
    text[first..].find(SPACE).map(|at| first + at)
}

/// The byte that a byte token spells.
pub fn byte_of(id: usize, text: &str) -> Result<u8, Error> {
    let digits = text.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
    let is_hex = |d: &&str| d.len() == 2 && d.bytes().all(|b| b.is_ascii_hexdigit());
    let byte = digits
        .filter(is_hex)
        .and_then(|d| u8::from_str_radix(d, 16).ok());
    byte.ok_or_else(|| Error::ByteToken {
        id,
        text: text.to_owned(),
    })
}

fn fallback(vocabulary: &Vocabulary, byte_ids: &[Option<u32>; 256]) -> Result<Fallback, Error> {
    let mut complete = Box::new([0; 256]);
    for (byte, (id, found)) in complete.iter_mut().zip(byte_ids).enumerate() {
        *id = match (*found, vocabulary.unknown) {
            (Some(found), _) => found,
            (None, Some(unknown)) => return Ok(Fallback::Unknown(unknown)),
            (None, None) => return Err(Error::NoFallback { byte: byte as u8 }),
        };
    }
    Ok(Fallback::Bytes(complete))
}

#[cfg(test)]
mod tests;
