//! The sequences of an engine: their tokens, and their places in the arena.

use std::collections::BTreeMap;
use std::ops::Range;

use minfer_graph::{Arena, ArenaError, CellInputs, MAX_WINDOW_RUNS, RowEdit, SequenceId};

use crate::Role;

/// Tokens and cells of all sequences. It holds no rows: edits that it returns are to be applied to them.
#[derive(Debug)]
pub(crate) struct Sequences {
    arena: Arena,
    histories: BTreeMap<SequenceId, History>,
}

/// What a sequence consists of.
#[derive(Clone, Debug, Default)]
struct History {
    tokens: Vec<u32>,
    roles: Vec<Role>,
    /// Leading rows that saw every token before them.
    shareable: usize,
}

impl Sequences {
    pub fn new(cells: usize) -> Result<Self, ArenaError> {
        Ok(Sequences {
            arena: Arena::new(cells)?,
            histories: BTreeMap::new(),
        })
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    pub fn create(&mut self) -> SequenceId {
        let id = self.arena.create();
        self.histories.insert(id, History::default());
        id
    }

    /// A new sequence that shares the first `tokens` rows of `parent`.
    pub fn fork(&mut self, parent: SequenceId, tokens: usize) -> Result<SequenceId, ArenaError> {
        let id = self.arena.share_prefix(parent, tokens)?;
        let mut history = self.histories.get(&parent).cloned().unwrap_or_default();
        history.truncate(tokens);
        self.histories.insert(id, history);
        Ok(id)
    }

    pub fn release(&mut self, sequence: SequenceId) -> Result<(), ArenaError> {
        self.arena.release(sequence)?;
        self.histories.remove(&sequence);
        Ok(())
    }

    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), ArenaError> {
        self.arena.reserve(sequence, tokens)
    }

    pub fn tokens(&self, sequence: SequenceId) -> &[u32] {
        self.histories.get(&sequence).map_or(&[], |h| &h.tokens)
    }

    pub fn roles(&self, sequence: SequenceId) -> &[Role] {
        self.histories.get(&sequence).map_or(&[], |h| &h.roles)
    }

    pub fn shareable(&self, sequence: SequenceId) -> usize {
        self.histories.get(&sequence).map_or(0, |h| h.shareable)
    }

    /// Keeps the first `tokens` tokens.
    pub fn truncate(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), ArenaError> {
        let end = self.arena.end(sequence)?;
        self.arena.remove(sequence, tokens.min(end)..end)?;
        if let Some(history) = self.histories.get_mut(&sequence) {
            history.truncate(tokens);
        }
        Ok(())
    }

    /// Removes tokens and moves the later ones down.
    pub fn shift(
        &mut self,
        sequence: SequenceId,
        removed: Range<usize>,
    ) -> Result<Vec<RowEdit>, ArenaError> {
        let edits = self.arena.shift(sequence, removed.clone())?;
        if let Some(history) = self.histories.get_mut(&sequence) {
            history.tokens.drain(removed.clone());
            history.roles.drain(removed.clone());
            if !removed.is_empty() {
                history.shareable = history.shareable.min(removed.start);
            }
        }
        Ok(edits)
    }

    /// Gives a sequence cells for its next `tokens` tokens.
    pub fn append(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), ArenaError> {
        self.arena.append(sequence, tokens).map(drop)
    }

    /// Gathers the rows of a sequence if a window cannot name them all.
    pub fn gather(&mut self, sequence: SequenceId) -> Result<Vec<RowEdit>, ArenaError> {
        if self.arena.window_runs(sequence)? > MAX_WINDOW_RUNS {
            self.arena.defragment(sequence)
        } else {
            Ok(Vec::new())
        }
    }

    /// Takes back cells beyond the tokens that were computed.
    pub fn roll_back(&mut self, sequence: SequenceId) {
        let computed = self.tokens(sequence).len();
        if let Ok(end) = self.arena.end(sequence)
            && computed < end
        {
            // A range of a sequence that exists is always removable.
            let _ = self.arena.remove(sequence, computed..end);
        }
    }

    /// Ends every sequence before its first row that one of these edits would have written: they failed, and
    /// what is in those cells is anyone's guess.
    pub fn lose(&mut self, edits: &[RowEdit]) {
        let written = |cell: usize| {
            edits.iter().any(|edit| match *edit {
                RowEdit::Copy(copy) => (copy.to..copy.to + copy.len).contains(&cell),
                RowEdit::Rotate(turned) => (turned.cell..turned.cell + turned.len).contains(&cell),
            })
        };
        let ids: Vec<SequenceId> = self.arena.sequences().collect();
        for id in ids {
            let Ok(mut runs) = self.arena.live(id) else {
                continue;
            };
            let lost = runs.find_map(|run| {
                let mut rows = run.positions().zip(run.cells());
                rows.find(|&(_, cell)| written(cell))
            });
            drop(runs);
            if let Some((position, _)) = lost {
                // A sequence that exists can be cut anywhere.
                let _ = self.truncate(id, position);
            }
        }
    }

    /// Notes tokens whose rows have been computed.
    pub fn record(&mut self, sequence: SequenceId, tokens: &[u32], role: Role) {
        if let Some(history) = self.histories.get_mut(&sequence) {
            if history.shareable == history.tokens.len() {
                history.shareable += tokens.len();
            }
            history.tokens.extend_from_slice(tokens);
            history.roles.resize(history.tokens.len(), role);
        }
    }

    /// Notes the tokens of an empty sequence whose rows come from elsewhere.
    pub fn record_saved(
        &mut self,
        sequence: SequenceId,
        tokens: &[u32],
        roles: &[Role],
        shareable: usize,
    ) {
        if let Some(history) = self.histories.get_mut(&sequence) {
            *history = History {
                tokens: tokens.to_vec(),
                roles: roles.to_vec(),
                shareable,
            };
        }
    }

    /// Cells and windows of a step's rows.
    pub fn fill_inputs(
        &self,
        rows: impl IntoIterator<Item = (SequenceId, usize)>,
        inputs: &mut CellInputs,
    ) -> Result<(), ArenaError> {
        self.arena.fill_inputs(rows, inputs)
    }
}

impl History {
    fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
        self.roles.truncate(tokens);
        self.shareable = self.shareable.min(tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minfer_graph::{Rotation, RowCopy};

    fn grow(sequences: &mut Sequences, id: SequenceId, tokens: &[u32], role: Role) {
        sequences.append(id, tokens.len()).expect("free cells");
        sequences.record(id, tokens, role);
    }

    #[test]
    fn a_fork_has_the_tokens_and_roles_of_its_prefix() {
        let mut sequences = Sequences::new(16).expect("a small arena");
        let parent = sequences.create();
        grow(&mut sequences, parent, &[1, 2, 3], Role::Prompt);
        grow(&mut sequences, parent, &[4, 5], Role::Generated);
        let child = sequences.fork(parent, 4).expect("within the parent");
        assert_eq!(sequences.tokens(child), [1, 2, 3, 4]);
        let p = Role::Prompt;
        assert_eq!(sequences.roles(child), [p, p, p, Role::Generated]);
        assert_eq!(sequences.arena().free(), 16 - 5);
        assert_eq!(sequences.shareable(child), 4);
    }

    #[test]
    fn rows_after_a_shift_are_not_shareable() {
        let mut sequences = Sequences::new(16).expect("a small arena");
        let id = sequences.create();
        grow(&mut sequences, id, &[1, 2, 3, 4, 5], Role::Prompt);
        assert_eq!(sequences.shareable(id), 5);
        sequences.shift(id, 1..3).expect("within the sequence");
        assert_eq!(sequences.tokens(id), [1, 4, 5]);
        assert_eq!(sequences.shareable(id), 1);
        grow(&mut sequences, id, &[6], Role::Prompt);
        assert_eq!(sequences.shareable(id), 1, "it saw shifted rows");
        sequences.truncate(id, 1).expect("within the sequence");
        grow(&mut sequences, id, &[7], Role::Prompt);
        assert_eq!(sequences.shareable(id), 2);
    }

    #[test]
    fn sequences_end_before_rows_that_were_lost() {
        let mut sequences = Sequences::new(16).expect("a small arena");
        let [a, b, c] = [0; 3].map(|_| sequences.create());
        for id in [a, b, c] {
            grow(&mut sequences, id, &[1, 2, 3, 4], Role::Prompt);
        }
        let child = sequences.fork(b, 2).expect("within the parent");
        // a has cells 0..4, b 4..8, c 8..12.
        let copy = RowCopy {
            from: 8,
            to: 5,
            len: 1,
        };
        let turned = Rotation {
            cell: 11,
            len: 3,
            by: 1,
        };
        sequences.lose(&[RowEdit::Copy(copy), RowEdit::Rotate(turned)]);
        let lens = [a, b, c, child].map(|id| sequences.tokens(id).len());
        assert_eq!(lens, [4, 1, 3, 1]);
        assert_eq!(sequences.arena().free(), 16 - 8);
    }

    #[test]
    fn rolling_back_frees_what_was_not_computed() {
        let mut sequences = Sequences::new(8).expect("a small arena");
        let id = sequences.create();
        grow(&mut sequences, id, &[1, 2], Role::Prompt);
        sequences.append(id, 3).expect("free cells");
        sequences.roll_back(id);
        assert_eq!(sequences.arena().end(id), Ok(2));
        assert_eq!(sequences.arena().free(), 6);
    }
}
