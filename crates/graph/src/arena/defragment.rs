//! Moving rows so that sequences have fewer runs.

use super::edit::RowEdit;
use super::relocate::{self, NONE};
use super::sequence::Sequence;
use super::{Arena, ArenaError, SequenceId};
use crate::ir::MAX_WINDOW_RUNS;

/// Where compaction moves rows to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards cell 0.
    Down,
    /// Towards the last cell.
    Up,
}

/// Which cells of a sequence are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gather {
    /// Its own; those it shares stay.
    Own,
    /// All, shared ones too, which moves them for every owner.
    All,
    /// All, after the shared ones were copied.
    Copied,
}

impl Arena {
    /// Runs of a sequence's windows once its reserve is used up; at most [`MAX_WINDOW_RUNS`] can serve as
    /// the window of a query.
    ///
    /// # Errors
    /// An unknown sequence.
    pub fn window_runs(&self, sequence: SequenceId) -> Result<usize, ArenaError> {
        self.get(sequence).map(window_runs)
    }

    /// Makes all free cells one range, by sliding the others together in their order.
    pub fn compact(&mut self, direction: Direction) -> Vec<RowEdit> {
        let mut next = match direction {
            Direction::Down => 0,
            Direction::Up => self.free(),
        };
        let destination: Vec<usize> = (0..self.cells())
            .map(|cell| match self.owners(cell) {
                0 => NONE,
                _ => {
                    next += 1;
                    next - 1
                }
            })
            .collect();
        // Rows that keep their order never exchange places, so there is always a plan.
        self.relocate(&destination).unwrap_or_default()
    }

    /// Gathers a sequence until it has at most [`MAX_WINDOW_RUNS`] runs, fewer where that moves none of
    /// the rows it shares. If it must, it moves shared rows for all their owners, or copies them.
    /// Never gives another sequence more runs than it has or a window holds.
    ///
    /// # Errors
    /// An unknown sequence, or no way with the free cells there are; never when they are more than the cells
    /// it shares.
    pub fn defragment(&mut self, sequence: SequenceId) -> Result<Vec<RowEdit>, ArenaError> {
        let runs = self.window_runs(sequence)?;
        if runs <= 1 {
            return Ok(Vec::new());
        }
        let fits = runs <= MAX_WINDOW_RUNS;
        let ways: &[Gather] = match fits {
            true => &[Gather::Own],
            false => &[Gather::Own, Gather::All, Gather::Copied],
        };
        for &way in ways {
            let mut trial = self.clone();
            if let Some(edits) = trial.gather(sequence, way)
                && trial.improves(self, sequence)
            {
                *self = trial;
                return Ok(edits);
            }
        }
        if fits {
            return Ok(Vec::new());
        }
        let held = self.get(sequence)?;
        Err(ArenaError::Fragmented {
            sequence,
            runs,
            limit: MAX_WINDOW_RUNS,
            shared: self.shared_cells(held, 0..held.end()),
            free: self.free(),
            cells: self.cells(),
        })
    }

    /// Whether `sequence` has fewer runs than it had, few enough for a window, and no other has too many
    /// for it.
    fn improves(&self, before: &Arena, sequence: SequenceId) -> bool {
        let mut both = self.sequences.iter().zip(before.sequences.values());
        both.all(|((&id, after), before)| {
            let (after, before) = (window_runs(after), window_runs(before));
            match id == sequence {
                true => after < before && after <= MAX_WINDOW_RUNS,
                false => after <= before.max(MAX_WINDOW_RUNS),
            }
        })
    }

    /// Moves cells of a sequence together in position order. `None` if that is impossible; the arena may
    /// have changed then.
    fn gather(&mut self, sequence: SequenceId, way: Gather) -> Option<Vec<RowEdit>> {
        let mut edits = Vec::new();
        if way == Gather::Copied {
            let end = self.get(sequence).ok()?.end();
            edits = self.unshare(sequence, 0..end).ok()?;
        }
        let runs = self.get(sequence).ok()?.runs().iter();
        let cells: Vec<usize> = runs
            .flat_map(|run| run.cells())
            .filter(|&cell| way != Gather::Own || !self.cells.is_shared(cell))
            .collect();
        if cells.is_empty() {
            return None;
        }
        let destination = self
            .gathered_nearby(&cells)
            .unwrap_or_else(|| self.gathered_among_all(&cells));
        edits.extend(self.relocate(&destination)?);
        Some(edits)
    }

    /// Destinations that move only `gathered`, to the range of free cells and their own where the fewest
    /// rows move; `None` if no range is long enough.
    fn gathered_nearby(&self, gathered: &[usize]) -> Option<Vec<usize>> {
        let mut destination: Vec<usize> = (0..self.cells())
            .map(|cell| if self.owners(cell) > 0 { cell } else { NONE })
            .collect();
        let mut usable: Vec<bool> = destination.iter().map(|&cell| cell == NONE).collect();
        let mut in_place = vec![0usize; self.cells()];
        for (i, &cell) in gathered.iter().enumerate() {
            usable[cell] = true;
            if let Some(start) = cell.checked_sub(i) {
                in_place[start] += 1;
            }
        }
        let mut best = None;
        let mut run = 0;
        for (cell, usable) in usable.into_iter().enumerate() {
            run = if usable { run + 1 } else { 0 };
            if run < gathered.len() {
                continue;
            }
            let start = cell + 1 - gathered.len();
            if best.is_none_or(|best: usize| in_place[start] > in_place[best]) {
                best = Some(start);
            }
        }
        for (&cell, to) in gathered.iter().zip(best?..) {
            destination[cell] = to;
        }
        Some(destination)
    }

    /// Destinations that slide all cells down in their order, but for `gathered`, which come where the
    /// first of them was met. The others' runs are not cut anywhere they were not.
    fn gathered_among_all(&self, gathered: &[usize]) -> Vec<usize> {
        let mut is_gathered = vec![false; self.cells()];
        gathered.iter().for_each(|&cell| is_gathered[cell] = true);
        let mut destination = vec![NONE; self.cells()];
        let mut next = 0;
        for cell in (0..self.cells()).filter(|&cell| self.owners(cell) > 0) {
            if destination[cell] != NONE {
                continue;
            }
            let one = [cell];
            let block = if is_gathered[cell] { gathered } else { &one };
            for &cell in block {
                destination[cell] = next;
                next += 1;
            }
        }
        destination
    }

    /// Moves each owned cell `c` to `destination[c]`, for all its owners. `None`, with nothing changed, if
    /// rows exchange places and there is no cell to do it with.
    fn relocate(&mut self, destination: &[usize]) -> Option<Vec<RowEdit>> {
        let mut target = vec![NONE; self.cells()];
        let live = self.sequences.values().flat_map(Sequence::live);
        for cell in live.flat_map(|run| run.cells()) {
            target[cell] = destination[cell];
        }
        let copies = relocate::plan(&target)?;
        self.cells.relocate(destination);
        for sequence in self.sequences.values_mut() {
            sequence.relocate(destination);
        }
        Some(copies.into_iter().map(RowEdit::Copy).collect())
    }
}

fn window_runs(sequence: &Sequence) -> usize {
    sequence.window(0..sequence.reserved_end()).count()
}
