//! Ownership of cells.

use std::ops::Range;

/// How many sequences own each cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    owners: Vec<u32>,
    free: usize,
}

impl Cells {
    pub fn new(count: usize) -> Self {
        Cells {
            owners: vec![0; count],
            free: count,
        }
    }

    pub fn len(&self) -> usize {
        self.owners.len()
    }

    pub fn free(&self) -> usize {
        self.free
    }

    /// Owners of a cell; none outside the arena.
    pub fn owners(&self, cell: usize) -> usize {
        self.owners.get(cell).map_or(0, |&count| count as usize)
    }

    pub fn is_shared(&self, cell: usize) -> bool {
        self.owners(cell) > 1
    }

    /// Length of the part at the head of `cells` that is all shared, or all not.
    pub fn stretch(&self, cells: Range<usize>) -> usize {
        let shared = self.is_shared(cells.start);
        cells.take_while(|&c| self.is_shared(c) == shared).count()
    }

    /// Gives free cells their first owner: as many of `len` as follow `preferred`, else the first gap
    /// that holds all, else a part of the largest gap. Empty only when no cell is free.
    pub fn take(&mut self, len: usize, preferred: Option<usize>) -> Range<usize> {
        let taken = preferred
            .map(|cell| cell..cell + self.free_at(cell, len))
            .filter(|extension| !extension.is_empty())
            .unwrap_or_else(|| {
                let gap = self.gap(len);
                gap.start..gap.end.min(gap.start + len)
            });
        self.owners[taken.clone()].fill(1);
        self.free -= taken.len();
        taken
    }

    /// Adds an owner to owned cells.
    pub fn share(&mut self, cells: Range<usize>) {
        for owners in &mut self.owners[cells] {
            *owners += 1;
        }
    }

    /// Removes an owner from owned cells.
    pub fn release(&mut self, cells: Range<usize>) {
        for owners in &mut self.owners[cells] {
            *owners -= 1;
            self.free += usize::from(*owners == 0);
        }
    }

    /// Moves the owners of each owned cell `c` to `destination[c]`.
    pub fn relocate(&mut self, destination: &[usize]) {
        let mut owners = vec![0; self.owners.len()];
        for (&count, &cell) in self.owners.iter().zip(destination) {
            if count > 0 {
                owners[cell] = count;
            }
        }
        self.owners = owners;
    }

    /// Free cells from `cell` on, at most `most`.
    fn free_at(&self, cell: usize, most: usize) -> usize {
        let rest = self.owners.get(cell..).unwrap_or_default();
        rest.iter().take(most).take_while(|&&n| n == 0).count()
    }

    /// The first gap of at least `len` cells, else the largest.
    fn gap(&self, len: usize) -> Range<usize> {
        let mut largest = 0..0;
        for gap in self.gaps() {
            if gap.len() >= len {
                return gap;
            }
            if gap.len() > largest.len() {
                largest = gap;
            }
        }
        largest
    }

    /// Maximal ranges of free cells, ascending.
    fn gaps(&self) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at + self.owners[at..].iter().position(|&n| n == 0)?;
            at = start + self.free_at(start, usize::MAX);
            Some(start..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `#` owned, `.` free.
    fn cells(drawing: &str) -> Cells {
        let owners: Vec<u32> = drawing.chars().map(|c| u32::from(c == '#')).collect();
        let free = owners.iter().filter(|&&n| n == 0).count();
        Cells { owners, free }
    }

    #[test]
    fn the_preferred_cell_comes_first() {
        assert_eq!(cells("#..#...").take(2, Some(1)), 1..3);
        assert_eq!(cells("#..#...").take(3, Some(1)), 1..3, "then the rest");
        assert_eq!(cells("#..#...").take(3, Some(3)), 4..7, "taken");
        assert_eq!(cells("#..#...").take(3, Some(7)), 4..7, "past the end");
    }

    #[test]
    fn the_first_gap_that_holds_all_else_the_largest() {
        assert_eq!(cells("#..#...#....").take(3, None), 4..7);
        assert_eq!(cells("#..#...#....").take(4, None), 8..12);
        assert_eq!(cells("#..#...#..#.").take(4, None), 4..7);
        assert_eq!(cells("###").take(1, None), 0..0);
    }

    #[test]
    fn free_counts_cells_without_owner() {
        let mut cells = cells("##..");
        cells.share(0..1);
        cells.release(0..2);
        assert_eq!((cells.free(), cells.owners(0), cells.owners(1)), (3, 1, 0));
        cells.take(2, Some(1));
        assert_eq!(cells.free(), 1);
        assert_eq!(cells.stretch(0..4), 4);
        cells.share(1..2);
        assert_eq!(cells.stretch(0..4), 1);
        assert_eq!(cells.stretch(1..4), 1);
    }
}
