//! Guessing the tokens that come next.
//!
//! Several guessed tokens are verified in one forward, which costs less than as many steps. The draft here is
//! prompt lookup: text that occurred before is likely to go on as it did (Saxena 2023, "Prompt Lookup
//! Decoding"). A wrong guess costs time and changes nothing else.

mod acceptance;
mod ngram;

use acceptance::Acceptance;
use ngram::NgramIndex;

use crate::Error;

/// Longer matches say little more, and each length has a table.
const LONGEST_NGRAM: usize = 16;

/// Whether and how tokens are guessed ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftOptions {
    /// Where guesses come from.
    pub method: DraftMethod,
    /// Most tokens guessed at once, at most [`EngineOptions::draft`](crate::EngineOptions::draft).
    pub max_tokens: usize,
}

/// Where guesses come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DraftMethod {
    /// There are none.
    #[default]
    None,
    /// What followed the last tokens where they occurred before in the context: the longest n-gram that
    /// did counts.
    Ngram {
        /// Fewest tokens that must be equal, at least 1.
        shortest: usize,
        /// Most tokens compared, at most 16.
        longest: usize,
    },
}

impl DraftMethod {
    /// [`DraftMethod::Ngram`] of 2 to 4 tokens.
    pub const NGRAM: DraftMethod = DraftMethod::Ngram {
        shortest: 2,
        longest: 4,
    };
}

impl Default for DraftOptions {
    /// No drafts; of 8 tokens once there is a method.
    fn default() -> Self {
        DraftOptions {
            method: DraftMethod::None,
            max_tokens: 8,
        }
    }
}

/// Guesses the next tokens of a text and learns from what they turn out to be.
#[derive(Debug)]
pub(crate) struct Drafter {
    index: NgramIndex,
    max_tokens: usize,
    shortest: usize,
    /// By length of the match, the shortest first.
    acceptance: Vec<Acceptance>,
    /// What was guessed last.
    guess: Vec<u32>,
    /// How much of it has come true.
    confirmed: usize,
    /// Length of the match that the guess comes from.
    matched: usize,
}

impl Drafter {
    /// For a text without tokens so far, of which `most` tokens can be verified at once.
    ///
    /// # Errors
    /// Longer drafts than `most`, or lengths of n-grams that make no sense.
    pub fn new(options: &DraftOptions, most: usize) -> Result<Self, Error> {
        let DraftMethod::Ngram { shortest, longest } = options.method else {
            // Without n-grams of any length nothing is ever found.
            return Ok(Self::with_ngrams(1, 0, 0));
        };
        if options.max_tokens > most {
            return Err(Error::DraftTooLong {
                draft: options.max_tokens,
                most,
            });
        }
        if shortest == 0 || longest < shortest || longest > LONGEST_NGRAM {
            return Err(Error::NgramLengths { shortest, longest });
        }
        Ok(Self::with_ngrams(shortest, longest, options.max_tokens))
    }

    fn with_ngrams(shortest: usize, longest: usize, max_tokens: usize) -> Self {
        Drafter {
            index: NgramIndex::new(shortest, longest),
            max_tokens,
            shortest,
            acceptance: vec![Acceptance::UNKNOWN; longest + 1 - shortest],
            guess: Vec::with_capacity(max_tokens),
            confirmed: 0,
            matched: 0,
        }
    }

    /// Appends tokens of the text.
    pub fn extend(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.push(token);
        }
    }

    /// Appends a token of the text.
    pub fn push(&mut self, token: u32) {
        if let Some(&guessed) = self.guess.get(self.confirmed) {
            let accepted = guessed == token;
            self.acceptance[self.matched - self.shortest].observe(accepted);
            self.confirmed += 1;
            if !accepted {
                self.guess.clear();
            }
        }
        self.index.push(token);
    }

    /// Guesses up to `most` tokens that come next; as few as are worth verifying, which may be none.
    pub fn draft(&mut self, most: usize) -> &[u32] {
        self.guess.clear();
        self.confirmed = 0;
        let Some(found) = self.index.find() else {
            return &[];
        };
        self.matched = found.length;
        let acceptance = self.acceptance[found.length - self.shortest];
        let length = acceptance.best_length(most.min(self.max_tokens));
        // A token that is not worth verifying is guessed all the same: whether it comes true is learnt
        // for nothing, and shows when it would be.
        self.index
            .continue_match(found, length.max(1), &mut self.guess);
        &self.guess[..length]
    }
}

#[cfg(test)]
mod tests;
