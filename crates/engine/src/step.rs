//! One forward pass over tokens of any sequences.

use std::ops::Range;

use minfer_graph::{RowEdit, SequenceId, WindowLayout};

use crate::{Engine, Error};

/// Which arithmetic a row gets. Role and position decide a row's bits, its company never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A token that was given: kernels for many rows at once.
    Prompt,
    /// A token that was generated or drafted: kernels for few rows.
    Generated,
}

/// Rows of a [`Chunk`] whose logits are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// None.
    None,
    /// That of the last token.
    Last,
    /// All, in the order of the tokens.
    All,
}

/// Tokens to append to a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// The tokens, at least one.
    pub tokens: &'a [u32],
    /// Their role.
    pub role: Role,
    /// Which of them yield logits.
    pub logits: Wanted,
}

/// Sequences and the steps that let them grow.
impl Engine {
    /// A new sequence without tokens.
    pub fn create_sequence(&mut self) -> SequenceId {
        self.sequences.create()
    }

    /// A new sequence that starts with the first `tokens` tokens of `parent` and shares their rows.
    ///
    /// # Errors
    /// An unknown parent, or one with fewer tokens.
    pub fn fork_sequence(
        &mut self,
        parent: SequenceId,
        tokens: usize,
    ) -> Result<SequenceId, Error> {
        Ok(self.sequences.fork(parent, tokens)?)
    }

    /// Ends a sequence. Its cells are free unless others share them.
    ///
    /// # Errors
    /// An unknown sequence.
    pub fn release_sequence(&mut self, sequence: SequenceId) -> Result<(), Error> {
        Ok(self.sequences.release(sequence)?)
    }

    /// Sets cells aside for the next `tokens` tokens of a sequence: sequences that grow side by side
    /// would otherwise take turns in the cells and be moved.
    ///
    /// # Errors
    /// An unknown sequence, or too few free cells.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), Error> {
        Ok(self.sequences.reserve(sequence, tokens)?)
    }

    /// Tokens of a sequence; none of an unknown one.
    pub fn tokens(&self, sequence: SequenceId) -> &[u32] {
        self.sequences.tokens(sequence)
    }

    /// Role in which each token of a sequence was computed.
    pub fn roles(&self, sequence: SequenceId) -> &[Role] {
        self.sequences.roles(sequence)
    }

    /// Leading tokens of a sequence whose rows are what computing these tokens alone would give. Those
    /// after a shift are not: they saw tokens that are gone.
    pub fn shareable(&self, sequence: SequenceId) -> usize {
        self.sequences.shareable(sequence)
    }

    /// Keeps the first `tokens` tokens of a sequence.
    ///
    /// # Errors
    /// An unknown sequence.
    pub fn truncate_sequence(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), Error> {
        Ok(self.sequences.truncate(sequence, tokens)?)
    }

    /// Removes tokens from a sequence. Those after them move down: their rows stay, their keys are rotated
    /// to the new positions.
    ///
    /// # Errors
    /// A range beyond the end, or too few free cells for rows that are shared with other sequences. If the
    /// backend fails to rotate the keys, the sequence ends where the removed tokens began.
    pub fn shift_sequence(
        &mut self,
        sequence: SequenceId,
        removed: Range<usize>,
    ) -> Result<(), Error> {
        let edits = self.sequences.shift(sequence, removed)?;
        self.edit_rows(&edits)
    }

    /// Appends the tokens of all chunks in one forward pass, and computes the logits they want.
    ///
    /// # Errors
    /// More than [`Engine::max_rows`] tokens or [`Engine::max_logits`] rows of logits, an empty chunk, an unknown
    /// token, a sequence that is unknown, named twice or would exceed the context, or too few free cells.
    /// No sequence has changed then, nor after a failed computation. If the backend fails to move rows that are
    /// gathered, sequences end before the first of theirs.
    pub fn step(&mut self, chunks: &[Chunk<'_>]) -> Result<(), Error> {
        self.batch.forget_outputs();
        self.check(chunks)?;
        let result = self.compute(chunks);
        for chunk in chunks {
            match result {
                Ok(()) => self
                    .sequences
                    .record(chunk.sequence, chunk.tokens, chunk.role),
                Err(_) => self.sequences.roll_back(chunk.sequence),
            }
        }
        if result.is_err() {
            self.batch.forget_outputs();
        }
        result
    }

    /// Logits of the last step: of the chunk with this index, after the `row`th of the rows it wanted.
    /// One per token of the vocabulary; empty if there is no such row.
    pub fn logits(&self, chunk: usize, row: usize) -> &[f32] {
        let row = self.batch.output_row(chunk, row);
        row.and_then(|row| self.executor.outputs().row(0, row))
            .unwrap_or(&[])
    }

    /// Layout of the attention windows of the last step's rows: one serves them all.
    pub fn window_layout(&self) -> WindowLayout {
        self.batch.window()
    }

    fn check(&self, chunks: &[Chunk<'_>]) -> Result<(), Error> {
        let mut rows = 0;
        let mut logits = 0;
        for (i, chunk) in chunks.iter().enumerate() {
            self.check_tokens(chunk.tokens)?;
            if chunks[..i].iter().any(|c| c.sequence == chunk.sequence) {
                return Err(Error::SequenceTwice {
                    sequence: chunk.sequence,
                });
            }
            let used = self.tokens(chunk.sequence).len();
            if used + chunk.tokens.len() > self.n_ctx {
                return Err(Error::PromptTooLong {
                    prompt: chunk.tokens.len(),
                    used,
                    n_ctx: self.n_ctx,
                });
            }
            rows += chunk.tokens.len();
            logits += chunk.logit_rows();
        }
        let at_most = |name, value, most| match value > most {
            true => Err(Error::StepSize { name, value, most }),
            false => Ok(()),
        };
        at_most("tokens", rows, self.max_rows())?;
        at_most("rows of logits", logits, self.max_logits())
    }

    /// Refuses an empty list and unknown tokens.
    pub(crate) fn check_tokens(&self, tokens: &[u32]) -> Result<(), Error> {
        if tokens.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        let n_vocab = self.model.n_vocab();
        match tokens.iter().position(|&token| token as usize >= n_vocab) {
            Some(index) => Err(Error::UnknownToken {
                token: tokens[index],
                index,
                n_vocab,
            }),
            None => Ok(()),
        }
    }

    fn compute(&mut self, chunks: &[Chunk<'_>]) -> Result<(), Error> {
        for chunk in chunks {
            self.sequences.append(chunk.sequence, chunk.tokens.len())?;
        }
        for chunk in chunks {
            let edits = self.sequences.gather(chunk.sequence)?;
            self.edit_rows(&edits)?;
        }
        self.batch.fill(chunks, &self.sequences)?;
        if chunks.is_empty() {
            return Ok(());
        }
        let tokens = self.batch.tokens();
        let params = self.prepare(tokens.total(), self.batch.window(), tokens.prompt == 0)?;
        self.executor.run(&params, &self.batch.inputs())?;
        Ok(())
    }

    /// Applies changes of the books to the rows of every layer. On an error the rows count as lost.
    fn edit_rows(&mut self, edits: &[RowEdit]) -> Result<(), Error> {
        if edits.is_empty() {
            return Ok(());
        }
        let edited = self.executor.edit_rows(edits, &self.key_rope);
        if edited.is_err() {
            self.sequences.lose(edits);
        }
        Ok(edited?)
    }
}

#[cfg(test)]
mod tests {
    use minfer_testdata::tiny_model;

    use super::*;
    use crate::EngineOptions;

    fn load() -> Engine {
        let options = EngineOptions {
            n_ctx: Some(32),
            ..EngineOptions::default()
        };
        Engine::load(tiny_model("tiny-llama-q4_k"), &options).unwrap_or_else(|e| panic!("{e}"))
    }

    fn append(engine: &mut Engine, sequence: SequenceId, tokens: &[u32]) -> Vec<f32> {
        let chunk = Chunk {
            sequence,
            tokens,
            role: Role::Prompt,
            logits: Wanted::Last,
        };
        engine.step(&[chunk]).expect("room");
        engine.logits(0, 0).to_vec()
    }

    #[test]
    fn a_shift_that_fails_leaves_no_key_at_a_wrong_position() {
        let mut engine = load();
        let sequence = engine.create_sequence();
        append(
            &mut engine,
            sequence,
            &[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        );
        // Odd, which no backend rotates by.
        engine.key_rope.n_rot = 3;
        engine
            .shift_sequence(sequence, 3..6)
            .expect_err("not rotated");
        assert_eq!(engine.tokens(sequence), [5, 6, 7]);
        assert_eq!(engine.free_cells(), 32 - 3);
        let logits = append(&mut engine, sequence, &[11, 12]);
        let alone = engine.create_sequence();
        assert_eq!(append(&mut engine, alone, &[5, 6, 7, 11, 12]), logits);
    }
}
