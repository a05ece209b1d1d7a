//! A sequence of tokens and its KV cells.

use crate::batch::Row;
use crate::{Engine, Error};

/// One sequence on an engine: its tokens, and the logits that follow the last one.
///
/// It owns the engine's whole KV cache while it lives.
pub struct Session<'e> {
    engine: &'e mut Engine,
    tokens: Vec<u32>,
    /// Whether the logits of the engine belong to the last token.
    has_logits: bool,
}

impl<'e> Session<'e> {
    pub(crate) fn new(engine: &'e mut Engine) -> Self {
        let tokens = Vec::with_capacity(engine.n_ctx());
        Session {
            engine,
            tokens,
            has_logits: false,
        }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// Tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Tokens that still fit the context.
    pub fn room(&self) -> usize {
        self.engine.n_ctx() - self.tokens.len()
    }

    /// Keeps the first `n` tokens. There are no logits until tokens are added.
    pub fn truncate(&mut self, n: usize) {
        if n < self.tokens.len() {
            self.tokens.truncate(n);
            self.has_logits = false;
        }
    }

    /// Logits after the last token, one per token of the vocabulary; empty before any token.
    pub fn logits(&self) -> &[f32] {
        if self.has_logits {
            self.engine.last_logits()
        } else {
            &[]
        }
    }

    /// Appends prompt tokens, in chunks of the engine's `ubatch`.
    ///
    /// # Errors
    /// No tokens, an unknown token, or more than [`Session::room`]: nothing has changed then. After a
    /// failed step the chunks before it remain.
    pub fn prefill(&mut self, tokens: &[u32]) -> Result<(), Error> {
        self.prefill_while(tokens, || true).map(|_| ())
    }

    /// [`Session::prefill`] for as long as `proceed` holds, asked before each chunk. Returns whether
    /// all tokens were appended.
    pub fn prefill_while(
        &mut self,
        tokens: &[u32],
        mut proceed: impl FnMut() -> bool,
    ) -> Result<bool, Error> {
        self.check(tokens)?;
        let mut rest = tokens;
        while !rest.is_empty() {
            if !proceed() {
                return Ok(false);
            }
            let (chunk, after) = rest.split_at(rest.len().min(self.engine.ubatch()));
            let rows = rows_at(chunk, self.tokens.len());
            self.has_logits = false;
            self.engine.run_prompt(rows, after.is_empty())?;
            self.has_logits = after.is_empty();
            self.tokens.extend_from_slice(chunk);
            rest = after;
        }
        Ok(true)
    }

    /// Appends one generated token.
    ///
    /// # Errors
    /// An unknown token or a full context: nothing has changed then. After a failed step no token was
    /// added, but there are no logits.
    pub fn decode(&mut self, token: u32) -> Result<(), Error> {
        if self.room() == 0 {
            return Err(Error::ContextFull {
                n_ctx: self.engine.n_ctx(),
            });
        }
        self.check(&[token])?;
        self.has_logits = false;
        self.engine
            .run_generated(row_at(token, self.tokens.len()))?;
        self.has_logits = true;
        self.tokens.push(token);
        Ok(())
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if tokens.len() > self.room() {
            return Err(Error::PromptTooLong {
                prompt: tokens.len(),
                used: self.tokens.len(),
                n_ctx: self.engine.n_ctx(),
            });
        }
        let n_vocab = self.engine.model().n_vocab();
        match tokens.iter().position(|&token| token as usize >= n_vocab) {
            Some(index) => Err(Error::UnknownToken {
                token: tokens[index],
                index,
                n_vocab,
            }),
            None => Ok(()),
        }
    }
}

fn rows_at(tokens: &[u32], first: usize) -> impl Iterator<Item = Row> {
    (first..)
        .zip(tokens)
        .map(|(position, &token)| row_at(token, position))
}

/// The row of a token at a position. A causal window reads the cells `0..=position`, so a sequence's
/// cells are its positions.
fn row_at(token: u32, position: usize) -> Row {
    Row {
        token,
        position,
        cell: position,
    }
}
