//! Which sequence has which row of the KV regions.
//!
//! The regions of all layers are numbered alike, so one arena keeps the books for all: cells with owners,
//! and per sequence a list of runs of consecutive positions in consecutive cells. It holds no rows. An
//! operation that needs rows changed returns [`RowEdit`]s, to be applied in order to every layer before
//! the next step; an operation that returns an error has changed nothing.
//!
//! A sequence reserves cells ahead of its end, so that sequences that grow together do not interleave.
//! Sequences may share rows; a row is copied before the first store into it. A step names rows by
//! sequence and position, and [`Arena::fill_inputs`] turns them into the inputs of the graph.

mod cells;
mod defragment;
mod edit;
mod error;
mod inputs;
mod relocate;
mod sequence;
mod share;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use cells::Cells;
pub use defragment::Direction;
pub use edit::{Rotation, RowCopy, RowEdit};
pub use error::ArenaError;
pub use inputs::CellInputs;
pub use sequence::CellRun;
use sequence::Sequence;

/// Cells and positions are 32-bit step inputs.
const LIMIT: usize = i32::MAX as usize;

/// A sequence of an arena. Never used again after the sequence is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(u64);

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sequence {}", self.0)
    }
}

/// Owners of cells, and the cells of sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    cells: Cells,
    sequences: BTreeMap<SequenceId, Sequence>,
    next_id: u64,
}

impl Arena {
    /// An arena of free cells.
    ///
    /// # Errors
    /// More cells than `i32::MAX`.
    pub fn new(cells: usize) -> Result<Self, ArenaError> {
        if cells > LIMIT {
            return Err(ArenaError::TooLarge {
                cells,
                limit: LIMIT,
            });
        }
        Ok(Arena {
            cells: Cells::new(cells),
            sequences: BTreeMap::new(),
            next_id: 0,
        })
    }

    /// Cells, free or not.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Cells without an owner.
    pub fn free(&self) -> usize {
        self.cells.free()
    }

    /// Sequences that own a cell; none outside the arena.
    pub fn owners(&self, cell: usize) -> usize {
        self.cells.owners(cell)
    }

    /// The sequences in order of their making.
    pub fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        self.sequences.keys().copied()
    }

    /// A new sequence without positions.
    pub fn create(&mut self) -> SequenceId {
        self.insert(Sequence::default())
    }

    /// Ends a sequence. Its cells are free unless others share them.
    ///
    /// # Errors
    /// An unknown sequence.
    pub fn release(&mut self, sequence: SequenceId) -> Result<(), ArenaError> {
        let held = self.sequences.remove(&sequence);
        let held = held.ok_or(ArenaError::UnknownSequence { sequence })?;
        for run in held.runs() {
            self.cells.release(run.cells());
        }
        Ok(())
    }

    /// The position that the next [`Arena::append`] starts at.
    ///
    /// # Errors
    /// An unknown sequence; so for all queries below.
    pub fn end(&self, sequence: SequenceId) -> Result<usize, ArenaError> {
        self.get(sequence).map(Sequence::end)
    }

    /// Positions that are reserved beyond the end.
    pub fn room(&self, sequence: SequenceId) -> Result<usize, ArenaError> {
        self.get(sequence).map(Sequence::room)
    }

    /// Runs in ascending position, those reserved beyond the end included.
    pub fn runs(&self, sequence: SequenceId) -> Result<&[CellRun], ArenaError> {
        self.get(sequence).map(Sequence::runs)
    }

    /// Runs of live positions in ascending position: where the rows to save or to restore are.
    pub fn live(&self, sequence: SequenceId) -> Result<impl Iterator<Item = CellRun>, ArenaError> {
        self.get(sequence).map(Sequence::live)
    }

    /// Cell of a position; `None` if it was removed or not stored yet.
    pub fn cell(&self, sequence: SequenceId, position: usize) -> Result<Option<usize>, ArenaError> {
        self.get(sequence).map(|held| held.cell(position))
    }

    /// Makes room for at least `tokens` positions beyond the end: in the cells after the last run where
    /// they are free, else in the first gap that holds what is missing, else in the largest gaps.
    ///
    /// # Errors
    /// Too few free cells, or positions beyond `i32::MAX`.
    pub fn reserve(&mut self, sequence: SequenceId, tokens: usize) -> Result<(), ArenaError> {
        let (free, cells) = (self.free(), self.cells());
        let held = lookup(&mut self.sequences, sequence)?;
        let mut needed = tokens.saturating_sub(held.room());
        let end = held.reserved_end();
        if needed > LIMIT - end.min(LIMIT) {
            return Err(ArenaError::PositionLimit {
                sequence,
                end,
                tokens: needed,
                limit: LIMIT,
            });
        }
        if needed > free {
            return Err(ArenaError::Full {
                sequence,
                needed,
                free,
                cells,
            });
        }
        while needed > 0 {
            let taken = self.cells.take(needed, held.next_cell());
            needed -= taken.len();
            held.push(CellRun {
                position: held.reserved_end(),
                cell: taken.start,
                len: taken.len(),
            });
        }
        Ok(())
    }

    /// Makes `tokens` more positions live, which the coming step stores, and returns them. Reserves
    /// what is missing.
    ///
    /// # Errors
    /// As [`Arena::reserve`].
    pub fn append(
        &mut self,
        sequence: SequenceId,
        tokens: usize,
    ) -> Result<Range<usize>, ArenaError> {
        self.reserve(sequence, tokens)?;
        let held = lookup(&mut self.sequences, sequence)?;
        let start = held.end();
        held.set_end(start + tokens);
        Ok(start..start + tokens)
    }

    /// Removes positions and gives up their cells; the others keep their positions. When the range
    /// reaches the end, the sequence ends before it and its reserve is given up too; an empty range at the
    /// end gives up the reserve alone.
    ///
    /// # Errors
    /// A range beyond the end.
    pub fn remove(
        &mut self,
        sequence: SequenceId,
        positions: Range<usize>,
    ) -> Result<(), ArenaError> {
        let held = self.checked(sequence, &positions)?;
        let at_end = positions.end == held.end();
        let cut = if at_end {
            positions.start..held.reserved_end()
        } else {
            positions.clone()
        };
        let held = lookup(&mut self.sequences, sequence)?;
        for run in held.within(cut.clone()) {
            self.cells.release(run.cells());
        }
        held.cut(cut);
        if at_end {
            held.set_end(positions.start);
        }
        Ok(())
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.next_id);
        self.next_id += 1;
        self.sequences.insert(id, sequence);
        id
    }

    fn get(&self, sequence: SequenceId) -> Result<&Sequence, ArenaError> {
        let held = self.sequences.get(&sequence);
        held.ok_or(ArenaError::UnknownSequence { sequence })
    }

    /// The sequence, if `positions` is a range of it.
    fn checked(
        &self,
        sequence: SequenceId,
        positions: &Range<usize>,
    ) -> Result<&Sequence, ArenaError> {
        let held = self.get(sequence)?;
        let next = held.end();
        if positions.start > positions.end || positions.end > next {
            return Err(ArenaError::Range {
                sequence,
                start: positions.start,
                end: positions.end,
                next,
            });
        }
        Ok(held)
    }
}

/// A sequence alone, so that the cells can be changed meanwhile.
fn lookup(
    sequences: &mut BTreeMap<SequenceId, Sequence>,
    sequence: SequenceId,
) -> Result<&mut Sequence, ArenaError> {
    let held = sequences.get_mut(&sequence);
    held.ok_or(ArenaError::UnknownSequence { sequence })
}
