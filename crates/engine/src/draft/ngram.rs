//! Where the last tokens of a text occurred before.

/// A text and, for each length of n-gram, where every distinct one ends that is followed by a token.
///
/// Appending a token and finding a match take time independent of the text's length.
#[derive(Debug)]
pub(super) struct NgramIndex {
    tokens: Vec<u32>,
    /// The longest first.
    tables: Vec<Table>,
}

/// An earlier occurrence of a text's last tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// Tokens that are equal.
    pub length: usize,
    /// Index of the token that followed them.
    pub end: usize,
}

impl NgramIndex {
    /// Of an empty text, for n-grams of `shortest..=longest` tokens; `shortest` is at least one.
    pub fn new(shortest: usize, longest: usize) -> Self {
        NgramIndex {
            tokens: Vec::new(),
            tables: (shortest..=longest).rev().map(Table::new).collect(),
        }
    }

    /// Appends a token.
    pub fn push(&mut self, token: u32) {
        // Now that the n-grams at the end have a follower they can serve as a match. Recorded earlier,
        // the end would only ever match itself.
        for table in &mut self.tables {
            table.record(&self.tokens);
        }
        self.tokens.push(token);
    }

    /// The longest n-gram that ends the text and occurred before; of its occurrences the most recent.
    pub fn find(&self) -> Option<Match> {
        self.tables
            .iter()
            .find_map(|table| table.find(&self.tokens))
    }

    /// Fills `continuation` with the `count` tokens that follow a match. Where the text ends it is
    /// continued by the continuation itself: a text that repeats goes on repeating.
    pub fn continue_match(&self, found: Match, count: usize, continuation: &mut Vec<u32>) {
        continuation.clear();
        let period = self.tokens.len() - found.end;
        for i in 0..count {
            let token = match self.tokens.get(found.end + i) {
                Some(&token) => token,
                None => continuation[i - period],
            };
            continuation.push(token);
        }
    }
}

/// A hash table with linear probing. Its keys are n-grams of the text, held as the place where the most
/// recent occurrence ends.
#[derive(Debug)]
struct Table {
    length: usize,
    /// A power of two of slots, at least half of them vacant.
    ends: Vec<u32>,
    occupied: usize,
}

/// No n-gram ends before the first token.
const VACANT: u32 = 0;

impl Table {
    fn new(length: usize) -> Self {
        Table {
            length,
            ends: vec![VACANT; 64],
            occupied: 0,
        }
    }

    /// Records the n-gram at the end of `tokens`, if they are that many.
    fn record(&mut self, tokens: &[u32]) {
        let (Some(ngram), Ok(end)) = (self.last(tokens), u32::try_from(tokens.len())) else {
            return;
        };
        if 2 * (self.occupied + 1) > self.ends.len() {
            self.grow(tokens);
        }
        let slot = self.slot(tokens, ngram);
        self.occupied += usize::from(self.ends[slot] == VACANT);
        self.ends[slot] = end;
    }

    fn find(&self, tokens: &[u32]) -> Option<Match> {
        let slot = self.slot(tokens, self.last(tokens)?);
        (self.ends[slot] != VACANT).then_some(Match {
            length: self.length,
            end: self.ends[slot] as usize,
        })
    }

    fn last<'t>(&self, tokens: &'t [u32]) -> Option<&'t [u32]> {
        Some(&tokens[tokens.len().checked_sub(self.length)?..])
    }

    /// The slot that holds `ngram`, or the vacant one where it belongs.
    fn slot(&self, tokens: &[u32], ngram: &[u32]) -> usize {
        let mask = self.ends.len() - 1;
        let mut slot = hash(ngram) as usize & mask;
        while self.ends[slot] != VACANT {
            let end = self.ends[slot] as usize;
            if &tokens[end - self.length..end] == ngram {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self, tokens: &[u32]) {
        let slots = 2 * self.ends.len();
        let old = std::mem::replace(&mut self.ends, vec![VACANT; slots]);
        for end in old.into_iter().filter(|&end| end != VACANT) {
            let ngram = &tokens[end as usize - self.length..end as usize];
            let slot = self.slot(tokens, ngram);
            self.ends[slot] = end;
        }
    }
}

/// Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4), token by token. The
/// high half of a product, which depends on all bits of its factors, becomes the low one.
fn hash(ngram: &[u32]) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    ngram.iter().fold(0, |hash: u64, &token| {
        (hash ^ u64::from(token))
            .wrapping_mul(GOLDEN)
            .rotate_left(32)
    })
}
