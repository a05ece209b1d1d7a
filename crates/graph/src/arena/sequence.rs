//! Where the rows of one sequence are.

use std::ops::Range;

/// Consecutive positions in consecutive cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// First position.
    pub position: usize,
    /// Its cell.
    pub cell: usize,
    /// Positions, at least one.
    pub len: usize,
}

impl CellRun {
    /// The positions.
    pub fn positions(&self) -> Range<usize> {
        self.position..self.position + self.len
    }

    /// The cells.
    pub fn cells(&self) -> Range<usize> {
        self.cell..self.cell + self.len
    }

    /// The part within some positions.
    fn clip(&self, positions: &Range<usize>) -> Option<CellRun> {
        let start = self.position.max(positions.start);
        let end = (self.position + self.len).min(positions.end);
        (start < end).then(|| CellRun {
            position: start,
            cell: self.cell + (start - self.position),
            len: end - start,
        })
    }
}

/// Runs of one sequence in ascending position. Positions below `end` are live, unless removed; those
/// from `end` on are reserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequence {
    runs: Vec<CellRun>,
    end: usize,
}

impl Sequence {
    /// The next position to be stored.
    pub fn end(&self) -> usize {
        self.end
    }

    /// Runs of all positions, live and reserved.
    pub fn runs(&self) -> &[CellRun] {
        &self.runs
    }

    /// One past the last reserved position.
    pub fn reserved_end(&self) -> usize {
        let last = self.runs.last().map_or(0, |run| run.positions().end);
        last.max(self.end)
    }

    /// Reserved positions.
    pub fn room(&self) -> usize {
        self.reserved_end() - self.end
    }

    /// The cell after the last run.
    pub fn next_cell(&self) -> Option<usize> {
        self.runs.last().map(|run| run.cells().end)
    }

    /// Makes the positions below `end` live.
    pub fn set_end(&mut self, end: usize) {
        self.end = end;
    }

    /// Parts of runs within some positions.
    pub fn within(&self, positions: Range<usize>) -> impl Iterator<Item = CellRun> {
        let first = self
            .runs
            .partition_point(|run| run.positions().end <= positions.start);
        self.runs[first..]
            .iter()
            .map_while(move |run| run.clip(&positions))
    }

    /// Runs of live positions.
    pub fn live(&self) -> impl Iterator<Item = CellRun> {
        self.within(0..self.end)
    }

    /// Cell of a live position.
    pub fn cell(&self, position: usize) -> Option<usize> {
        if position >= self.end {
            return None;
        }
        let run = self.within(position..position + 1).next()?;
        Some(run.cell)
    }

    /// Adds a run after all others, joined with the last where both continue it.
    pub fn push(&mut self, run: CellRun) {
        match self.runs.last_mut() {
            Some(last) if last.positions().end == run.position && last.cells().end == run.cell => {
                last.len += run.len;
            }
            _ => self.runs.push(run),
        }
    }

    /// Forgets the cells of some positions.
    pub fn cut(&mut self, positions: Range<usize>) {
        let rest = self.reserved_end().max(positions.end);
        let kept = self
            .within(0..positions.start)
            .chain(self.within(positions.end..rest));
        self.runs = kept.collect();
    }

    /// Moves the positions from `positions.end` on down to `positions.start`. The range holds no rows.
    pub fn close(&mut self, positions: Range<usize>) {
        for run in std::mem::take(&mut self.runs) {
            let above = run.position >= positions.end;
            let down = if above { positions.len() } else { 0 };
            self.push(CellRun {
                position: run.position - down,
                ..run
            });
        }
        self.end -= positions.len();
    }

    /// Moves each cell `c` to `destination[c]`.
    pub fn relocate(&mut self, destination: &[usize]) {
        for run in std::mem::take(&mut self.runs) {
            for (position, cell) in run.positions().zip(run.cells()) {
                self.push(CellRun {
                    position,
                    cell: destination[cell],
                    len: 1,
                });
            }
        }
    }

    /// Cells of the positions within a range as `(first cell, length)`, in ascending position; runs that
    /// are one range of cells across removed positions are joined.
    pub fn window(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let mut runs = self.within(positions).peekable();
        std::iter::from_fn(move || {
            let CellRun { cell, mut len, .. } = runs.next()?;
            while let Some(next) = runs.next_if(|next| next.cell == cell + len) {
                len += next.len;
            }
            Some((cell, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(position: usize, cell: usize, len: usize) -> CellRun {
        CellRun {
            position,
            cell,
            len,
        }
    }

    /// Live positions of the given runs, `reserved` of them not stored yet.
    fn sequence(runs: &[CellRun], reserved: usize) -> Sequence {
        let mut sequence = Sequence::default();
        runs.iter().for_each(|&run| sequence.push(run));
        sequence.set_end(sequence.reserved_end() - reserved);
        sequence
    }

    #[test]
    fn runs_that_continue_each_other_are_one() {
        let joined = sequence(&[run(0, 4, 2), run(2, 6, 3)], 0);
        assert_eq!(joined.runs(), [run(0, 4, 5)]);
        let apart = sequence(&[run(0, 4, 2), run(2, 7, 3), run(6, 10, 1)], 0);
        assert_eq!(apart.runs().len(), 3);
    }

    #[test]
    fn positions_resolve_up_to_the_end() {
        let sequence = sequence(&[run(0, 4, 2), run(3, 9, 3)], 1);
        let cells: Vec<_> = (0..7).map(|position| sequence.cell(position)).collect();
        assert_eq!(
            cells,
            [Some(4), Some(5), None, Some(9), Some(10), None, None]
        );
        assert_eq!((sequence.end(), sequence.room()), (5, 1));
    }

    #[test]
    fn a_cut_and_its_closing() {
        //  position 0 1 2 3 4 5 6        cut 2..4
        //  cell     4 5 6 7 0 1 2(reserved)
        let mut sequence = sequence(&[run(0, 4, 4), run(4, 0, 3)], 1);
        sequence.cut(2..5);
        assert_eq!(sequence.runs(), [run(0, 4, 2), run(5, 1, 2)]);
        sequence.close(2..5);
        assert_eq!(sequence.runs(), [run(0, 4, 2), run(2, 1, 2)]);
        assert_eq!((sequence.end(), sequence.room()), (3, 1));
    }

    #[test]
    fn windows_join_neighbouring_cells_across_removed_positions() {
        let sequence = sequence(&[run(0, 4, 2), run(5, 6, 2), run(7, 0, 2)], 1);
        let window = |end| sequence.window(0..end).collect::<Vec<_>>();
        assert_eq!(window(6), [(4, 3)]);
        assert_eq!(window(8), [(4, 4), (0, 1)]);
    }
}
