//! Rows that several sequences own, and changes of rows that must not reach the others.

use std::ops::Range;

use super::edit::{Rotation, RowCopy, RowEdit};
use super::sequence::{CellRun, Sequence};
use super::{Arena, ArenaError, SequenceId, lookup};

impl Arena {
    /// A new sequence that starts with the rows of `parent` at positions `0..tokens`.
    ///
    /// # Errors
    /// An unknown sequence, or positions beyond its end.
    pub fn share_prefix(
        &mut self,
        parent: SequenceId,
        tokens: usize,
    ) -> Result<SequenceId, ArenaError> {
        self.checked(parent, &(0..tokens))?;
        let mut child = Sequence::default();
        for run in lookup(&mut self.sequences, parent)?.within(0..tokens) {
            self.cells.share(run.cells());
            child.push(run);
        }
        child.set_end(tokens);
        Ok(self.insert(child))
    }

    /// Gives a sequence rows of its own at some positions, so that a step may store into them. Returns the
    /// copies of rows that were shared.
    ///
    /// # Errors
    /// A range beyond the end, or fewer free cells than shared rows.
    pub fn unshare(
        &mut self,
        sequence: SequenceId,
        positions: Range<usize>,
    ) -> Result<Vec<RowEdit>, ArenaError> {
        let held = self.checked(sequence, &positions)?;
        let shared = self.shared_cells(held, positions.clone());
        self.admit(sequence, shared, self.free())?;
        if shared == 0 {
            return Ok(Vec::new());
        }
        self.copy_shared(sequence, positions)
    }

    /// Removes positions and moves those after them down to close the gap. The rows stay where they are;
    /// shared ones are copied first. Returns these copies, then the rotations of all rows after the gap.
    ///
    /// # Errors
    /// A range beyond the end, or too few free cells for the copies.
    pub fn shift(
        &mut self,
        sequence: SequenceId,
        removed: Range<usize>,
    ) -> Result<Vec<RowEdit>, ArenaError> {
        let held = self.checked(sequence, &removed)?;
        let end = held.end();
        if removed.end == end || removed.is_empty() {
            self.remove(sequence, removed)?;
            return Ok(Vec::new());
        }
        let removed_cells = held
            .within(removed.clone())
            .map(|run| run.len)
            .sum::<usize>();
        let freed = removed_cells - self.shared_cells(held, removed.clone());
        let shared = self.shared_cells(held, removed.end..end);
        self.admit(sequence, shared, self.free() + freed)?;

        self.remove(sequence, removed.clone())?;
        let mut edits = self.copy_shared(sequence, removed.end..end)?;
        let held = lookup(&mut self.sequences, sequence)?;
        held.close(removed.clone());
        let moved = held.window(removed.start..held.end());
        edits.extend(moved.map(|(cell, len)| {
            let by = removed.len();
            RowEdit::Rotate(Rotation { cell, len, by })
        }));
        Ok(edits)
    }

    /// Cells at some positions of a sequence that others own too.
    pub(super) fn shared_cells(&self, held: &Sequence, positions: Range<usize>) -> usize {
        let cells = held.within(positions).flat_map(|run| run.cells());
        cells.filter(|&cell| self.cells.is_shared(cell)).count()
    }

    /// Checks that `needed` of `free` cells can be had.
    fn admit(&self, sequence: SequenceId, needed: usize, free: usize) -> Result<(), ArenaError> {
        if needed > free {
            return Err(ArenaError::Full {
                sequence,
                needed,
                free,
                cells: self.cells(),
            });
        }
        Ok(())
    }

    /// Replaces the shared cells at some positions by free ones, which must suffice.
    fn copy_shared(
        &mut self,
        sequence: SequenceId,
        positions: Range<usize>,
    ) -> Result<Vec<RowEdit>, ArenaError> {
        let held = lookup(&mut self.sequences, sequence)?;
        let mut edits = Vec::new();
        let mut copied = Sequence::default();
        held.within(0..positions.start)
            .for_each(|run| copied.push(run));
        for mut run in held.within(positions.clone()) {
            while run.len > 0 {
                let mut len = self.cells.stretch(run.cells());
                let mut cell = run.cell;
                if self.cells.is_shared(cell) {
                    let own = self.cells.take(len, copied.next_cell());
                    (len, cell) = (own.len(), own.start);
                    self.cells.release(run.cell..run.cell + len);
                    let from = run.cell;
                    edits.push(RowEdit::Copy(RowCopy {
                        from,
                        to: cell,
                        len,
                    }));
                }
                copied.push(CellRun { cell, len, ..run });
                run = CellRun {
                    position: run.position + len,
                    cell: run.cell + len,
                    len: run.len - len,
                };
            }
        }
        held.within(positions.end..held.reserved_end())
            .for_each(|run| copied.push(run));
        copied.set_end(held.end());
        *held = copied;
        Ok(edits)
    }
}
