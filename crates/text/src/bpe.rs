//! Byte-level byte-pair encoding: within each word, the adjacent pair with the lowest merge rank is joined
//! until no pair has a rank.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::pretokenize::PreTokenizer;
use crate::{Error, TokenType, Vocabulary, byte_alphabet};

/// Words up to this many bytes are merged by scanning all pairs, longer ones with a queue.
const SCAN_LIMIT: usize = 32;

/// A symbol that no merge concerns: a byte the vocabulary lacks.
const NO_TOKEN: u32 = u32::MAX;

/// Marks a symbol that was joined to the one before it.
const JOINED: usize = usize::MAX;

/// A byte-level BPE vocabulary.
pub struct Bpe {
    pre_tokenizer: PreTokenizer,
    byte_ids: Box<[u32; 256]>,
    /// Rank and product of each pair that can be joined.
    merges: FxHashMap<(u32, u32), Merge>,
    /// Tokens by their bytes, where whole words are looked up before merging.
    words: Option<FxHashMap<Box<[u8]>, u32>>,
}

#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    product: u32,
}

impl Bpe {
    /// Builds the merge table. `ids` maps the texts of `vocabulary` to their ids.
    pub fn new(vocabulary: &Vocabulary, ids: &FxHashMap<&str, u32>) -> Result<Self, Error> {
        let pre = vocabulary.pre.as_deref().unwrap_or("default");
        let pre_tokenizer =
            PreTokenizer::from_name(pre).ok_or_else(|| Error::UnknownPreTokenizer {
                pre: pre.to_owned(),
            })?;
        let byte_ids = std::array::from_fn(|byte| {
            let character = byte_alphabet::character_of(byte as u8);
            ids.get(&*character.encode_utf8(&mut [0; 4]))
                .copied()
                .unwrap_or(NO_TOKEN)
        });
        let words = pre_tokenizer
            .takes_whole_words()
            .then(|| words(vocabulary, ids));
        Ok(Bpe {
            pre_tokenizer,
            byte_ids: Box::new(byte_ids),
            merges: merges(vocabulary, ids)?,
            words,
        })
    }

    /// Whether texts start with BOS if the file does not say.
    pub fn adds_bos(&self) -> bool {
        self.pre_tokenizer.adds_bos()
    }

    /// Appends the ids of `text`. Bytes that the vocabulary lacks are left out, as llama.cpp does.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut queue = Queue::default();
        self.pre_tokenizer.split(text, &mut |word| {
            let whole = self
                .words
                .as_ref()
                .and_then(|words| words.get(word.as_bytes()));
            match whole {
                Some(&id) => ids.push(id),
                None if word.len() <= SCAN_LIMIT => self.merge_by_scan(word, ids),
                None => {
                    queue.merge(self, word);
                    ids.extend(queue.remaining());
                }
            }
        });
    }

    fn merge_of(&self, left: u32, right: u32) -> Option<Merge> {
        self.merges.get(&(left, right)).copied()
    }

    /// Joins the lowest-ranked pair of a short word, again and again.
    fn merge_by_scan(&self, word: &str, ids: &mut Vec<u32>) {
        let mut symbols = [NO_TOKEN; SCAN_LIMIT];
        // The merge of each symbol with the one after it.
        let mut pairs = [None; SCAN_LIMIT];
        let mut len = word.len().min(SCAN_LIMIT);
        for (symbol, byte) in symbols.iter_mut().zip(word.bytes()) {
            *symbol = self.byte_ids[usize::from(byte)];
        }
        for i in 1..len {
            pairs[i - 1] = self.merge_of(symbols[i - 1], symbols[i]);
        }
        while let Some((at, merge)) = lowest(&pairs[..len.saturating_sub(1)]) {
            symbols[at] = merge.product;
            symbols.copy_within(at + 2..len, at + 1);
            pairs.copy_within(at + 1..len, at);
            len -= 1;
            pairs[len - 1] = None;
            if at > 0 {
                pairs[at - 1] = self.merge_of(symbols[at - 1], symbols[at]);
            }
            if at + 1 < len {
                pairs[at] = self.merge_of(symbols[at], symbols[at + 1]);
            }
        }
        ids.extend(symbols[..len].iter().copied().filter(|&id| id != NO_TOKEN));
    }
}

/// The leftmost of the lowest-ranked merges.
fn lowest(pairs: &[Option<Merge>]) -> Option<(usize, Merge)> {
    let merges = pairs
        .iter()
        .enumerate()
        .filter_map(|(at, pair)| pair.map(|merge| (at, merge)));
    merges.min_by_key(|(_, merge)| merge.rank)
}

/// Merging of a long word in O(n log n): candidate pairs wait in a heap, and a pair whose symbols have
/// changed since is recognised by its rank.
#[derive(Default)]
struct Queue {
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Reverse<(u32, usize)>>,
}

struct Symbol {
    id: u32,
    /// Index of the symbol before, [`JOINED`] if this symbol is no more.
    previous: usize,
    next: usize,
}

impl Queue {
    /// Merges `word` and returns the number of candidates that were considered.
    fn merge(&mut self, bpe: &Bpe, word: &str) -> usize {
        self.symbols.clear();
        self.symbols
            .extend(word.bytes().enumerate().map(|(i, byte)| Symbol {
                id: bpe.byte_ids[usize::from(byte)],
                previous: i.saturating_sub(1),
                next: i + 1,
            }));
        let pairs = (0..self.symbols.len()).filter_map(|left| self.candidate(bpe, left));
        self.candidates = pairs
            .map(|(merge, left)| Reverse((merge.rank, left)))
            .collect();
        let mut considered = 0;
        while let Some(Reverse((rank, left))) = self.candidates.pop() {
            considered += 1;
            match self.candidate(bpe, left) {
                Some((merge, _)) if merge.rank == rank => self.join(bpe, left, merge.product),
                _ => {}
            }
        }
        considered
    }

    /// The merge of the symbol at `left` with the one after it.
    fn candidate(&self, bpe: &Bpe, left: usize) -> Option<(Merge, usize)> {
        let symbol = &self.symbols[left];
        let next = self.symbols.get(symbol.next)?;
        if symbol.previous == JOINED {
            return None;
        }
        bpe.merge_of(symbol.id, next.id).map(|merge| (merge, left))
    }

    /// Replaces the symbol at `left` and the one after it by `product`.
    fn join(&mut self, bpe: &Bpe, left: usize, product: u32) {
        let right = self.symbols[left].next;
        let after = self.symbols[right].next;
        self.symbols[right].previous = JOINED;
        self.symbols[left].id = product;
        self.symbols[left].next = after;
        if let Some(symbol) = self.symbols.get_mut(after) {
            symbol.previous = left;
        }
        let before = self.symbols[left].previous;
        let neighbours = [Some(left), (left > 0).then_some(before)];
        for at in neighbours.into_iter().flatten() {
            if let Some((merge, _)) = self.candidate(bpe, at) {
                self.candidates.push(Reverse((merge.rank, at)));
            }
        }
    }

    fn remaining(&self) -> impl Iterator<Item = u32> {
        let alive = self
            .symbols
            .iter()
            .filter(|symbol| symbol.previous != JOINED);
        alive.map(|symbol| symbol.id).filter(|&id| id != NO_TOKEN)
    }
}

/// Maps pairs to merges. A merge that would make a control token is left out: text never becomes one.
fn merges(
    vocabulary: &Vocabulary,
    ids: &FxHashMap<&str, u32>,
) -> Result<FxHashMap<(u32, u32), Merge>, Error> {
    let mut table = FxHashMap::default();
    table.reserve(vocabulary.merges.len());
    let mut joined = String::new();
    // Vocabularies list products in the order of their merges: the id after the last one is a guess that
    // saves most look-ups.
    let mut guess = 0;
    for (index, merge) in vocabulary.merges.iter().enumerate() {
        let (left, right) = halves(merge).ok_or_else(|| Error::MergeSyntax {
            index,
            merge: merge.clone(),
        })?;
        let id_of = |text: &str| {
            ids.get(text).copied().ok_or_else(|| Error::MergeToken {
                index,
                merge: merge.clone(),
                missing: text.to_owned(),
            })
        };
        let pair = (id_of(left)?, id_of(right)?);
        let product = if vocabulary.is_joined(guess, left, right) {
            guess
        } else {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            id_of(&joined)?
        };
        guess = product.saturating_add(1);
        if vocabulary.type_of(product as usize) != TokenType::Control {
            let rank = index as u32;
            table.entry(pair).or_insert(Merge { rank, product });
        }
    }
    Ok(table)
}

/// The two sides of a merge. The left one is not empty, so it may itself start with a space.
fn halves(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let space = first + merge.get(first..)?.find(' ')?;
    let right = &merge[space + 1..];
    (!right.is_empty()).then_some((&merge[..space], right))
}

/// Ordinary tokens by the bytes they spell.
fn words(vocabulary: &Vocabulary, ids: &FxHashMap<&str, u32>) -> FxHashMap<Box<[u8]>, u32> {
    let ordinary = ids
        .iter()
        .filter(|&(_, &id)| vocabulary.type_of(id as usize) == TokenType::Normal);
    let spelled = ordinary.map(|(text, &id)| {
        let mut bytes = Vec::new();
        byte_alphabet::push_bytes(text, &mut bytes);
        (bytes.into_boxed_slice(), id)
    });
    spelled.collect()
}

#[cfg(test)]
mod tests;
