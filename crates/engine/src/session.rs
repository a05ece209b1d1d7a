//! A sequence of tokens that has the engine to itself.

use std::ops::Range;

use minfer_graph::SequenceId;

use crate::{Chunk, Engine, Error, Role, Wanted};

/// One sequence on an engine: its tokens, and the logits that follow the last one. It is released when
/// the session is dropped.
pub struct Session<'e> {
    engine: &'e mut Engine,
    sequence: SequenceId,
    /// Rows of logits that the engine's last step computed for this sequence.
    logit_rows: usize,
}

impl<'e> Session<'e> {
    pub(crate) fn new(engine: &'e mut Engine) -> Self {
        let sequence = engine.create_sequence();
        Session {
            engine,
            sequence,
            logit_rows: 0,
        }
    }

    /// Goes on with a sequence that exists. There are no logits until tokens are added.
    ///
    /// # Errors
    /// An unknown sequence.
    pub fn adopt(engine: &'e mut Engine, sequence: SequenceId) -> Result<Self, Error> {
        // Reserving nothing fails only for a sequence that does not exist.
        engine.reserve(sequence, 0)?;
        Ok(Session {
            engine,
            sequence,
            logit_rows: 0,
        })
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// The engine, to change something beside this session's sequence.
    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        self.engine
    }

    /// Goes on with another sequence, as [`Session::adopt`] does, and releases its own.
    ///
    /// # Errors
    /// An unknown sequence.
    pub(crate) fn replace(&mut self, sequence: SequenceId) -> Result<(), Error> {
        self.engine.reserve(sequence, 0)?;
        self.logit_rows = 0;
        let own = std::mem::replace(&mut self.sequence, sequence);
        self.engine.release_sequence(own)
    }

    /// The sequence.
    pub fn sequence(&self) -> SequenceId {
        self.sequence
    }

    /// Tokens so far.
    pub fn tokens(&self) -> &[u32] {
        self.engine.tokens(self.sequence)
    }

    /// Tokens that still fit the context.
    pub fn room(&self) -> usize {
        self.engine.n_ctx() - self.tokens().len()
    }

    /// Keeps the first `n` tokens. Of logits only those of the last [`Session::verify`] remain, as far as
    /// their tokens do.
    pub fn truncate(&mut self, n: usize) {
        if let Some(removed) = self.tokens().len().checked_sub(n) {
            self.logit_rows = self.logit_rows.saturating_sub(removed);
            // It fails only for a sequence that does not exist, and this one belongs to the session.
            let _ = self.engine.truncate_sequence(self.sequence, n);
        }
    }

    /// Removes tokens; those after them move down, see [`Engine::shift_sequence`]. There are no logits
    /// until tokens are added.
    ///
    /// # Errors
    /// A range beyond the end.
    pub fn shift(&mut self, removed: Range<usize>) -> Result<(), Error> {
        self.logit_rows = 0;
        self.engine.shift_sequence(self.sequence, removed)
    }

    /// Logits after the last token, one per token of the vocabulary; empty if there are none.
    pub fn logits(&self) -> &[f32] {
        match self.logit_rows.checked_sub(1) {
            Some(last) => self.logits_at(last),
            None => &[],
        }
    }

    /// Logits after the token of this index among those of the last [`Session::verify`].
    pub fn logits_at(&self, row: usize) -> &[f32] {
        match row < self.logit_rows {
            true => self.engine.logits(0, row),
            false => &[],
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
        self.engine.check_tokens(tokens)?;
        if tokens.len() > self.room() {
            return Err(Error::PromptTooLong {
                prompt: tokens.len(),
                used: self.tokens().len(),
                n_ctx: self.engine.n_ctx(),
            });
        }
        let mut chunks = tokens.chunks(self.engine.ubatch()).peekable();
        while let Some(chunk) = chunks.next() {
            if !proceed() {
                return Ok(false);
            }
            let logits = match chunks.peek() {
                Some(_) => Wanted::None,
                None => Wanted::Last,
            };
            self.step(chunk, Role::Prompt, logits)?;
        }
        Ok(true)
    }

    /// Appends one generated token.
    ///
    /// # Errors
    /// An unknown token or a full context: nothing has changed then. After a failed step no token was
    /// added, but there are no logits.
    pub fn decode(&mut self, token: u32) -> Result<(), Error> {
        self.verify(&[token])
    }

    /// Appends generated or drafted tokens in one step and computes the logits after each, which are those
    /// that [`Session::decode`] would give one by one.
    ///
    /// # Errors
    /// As [`Session::decode`], or more than [`Engine::max_logits`] tokens.
    pub fn verify(&mut self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.len() > self.room() {
            return Err(Error::ContextFull {
                n_ctx: self.engine.n_ctx(),
            });
        }
        self.engine.check_tokens(tokens)?;
        self.step(tokens, Role::Generated, Wanted::All)
    }

    fn step(&mut self, tokens: &[u32], role: Role, logits: Wanted) -> Result<(), Error> {
        let chunk = Chunk {
            sequence: self.sequence,
            tokens,
            role,
            logits,
        };
        self.logit_rows = 0;
        self.engine.step(&[chunk])?;
        self.logit_rows = chunk.logit_rows();
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // As in `truncate`.
        let _ = self.engine.release_sequence(self.sequence);
    }
}
