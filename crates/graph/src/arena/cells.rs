//! Ownership of cells.

use std::ops::Range;

/// How many sequences own each cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    owners: Vec<u32>,
    free: usize,
    /// No cell below is free: where the search for gaps begins.
    owned_below: usize,
}

impl Cells {
    pub fn new(count: usize) -> Self {
        Cells {
            owners: vec![0; count],
            free: count,
            owned_below: 0,
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

    /// Gives free cells their first owner: as many of `len` as there are from `preferred` on, else the first
    /// gap that holds all, else the largest gap. Empty only when no cell is free.
    pub fn take(&mut self, len: usize, preferred: Option<usize>) -> Range<usize> {
        let taken = preferred
            .map(|cell| cell..cell + self.free_at(cell, len))
            .filter(|extension| !extension.is_empty())
            .unwrap_or_else(|| self.gap(len));
        self.owners[taken.clone()].fill(1);
        self.free -= taken.len();
        if taken.start == self.owned_below {
            self.owned_below = taken.end;
        }
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
        self.owned_below = self.owned_below.min(cells.start);
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
        self.owned_below = 0;
    }

    /// Free cells from `cell` on, at most `most`.
    fn free_at(&self, cell: usize, most: usize) -> usize {
        let rest = self.owners.get(cell..).unwrap_or_default();
        rest.iter().take(most).take_while(|&&n| n == 0).count()
    }

    /// The first `len` free cells in one gap, else the largest gap.
    fn gap(&self, len: usize) -> Range<usize> {
        let mut largest = 0..0;
        let mut at = self.owned_below;
        while largest.len() < len
            && let Some(owned) = self.owners[at..].iter().position(|&n| n == 0)
        {
            let start = at + owned;
            at = start + self.free_at(start, len);
            if at - start > largest.len() {
                largest = start..at;
            }
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::super::relocate::NONE;
    use super::*;

    /// `#` owned, `.` free.
    fn cells(drawing: &str) -> Cells {
        let owners: Vec<u32> = drawing.chars().map(|c| u32::from(c == '#')).collect();
        let free = owners.iter().filter(|&&n| n == 0).count();
        Cells {
            owners,
            free,
            owned_below: 0,
        }
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
    fn the_search_begins_at_the_lowest_free_cell() {
        let mut cells = Cells::new(6);
        assert_eq!(cells.take(2, None), 0..2);
        assert_eq!(cells.take(3, None), 2..5);
        cells.release(1..3);
        assert_eq!(cells.take(1, None), 1..2);
        assert_eq!(cells.take(2, None), 2..3);
        cells.release(0..1);
        cells.relocate(&[NONE, 5, 4, 3, 2, NONE]);
        assert_eq!(cells.take(2, None), 0..2);
        assert_eq!(cells.free(), 0);
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
