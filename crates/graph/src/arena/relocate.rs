//! The order in which rows can move to new cells without losing one.

use std::ops::Range;

use super::edit::RowCopy;

/// Marks a cell that holds no row, or a destination that no row moves to.
pub(super) const NONE: usize = usize::MAX;

/// Copies that bring the row in each cell `c` to cell `target[c]`, in an order that loses none. `target`
/// has [`NONE`] for a cell without a row, and otherwise no value twice.
///
/// Rows move into vacant cells, which vacates others, and so on; rows that slide in one direction make few
/// copies. Only rows that change places in a circle are left: one of them moves out of the way, to a vacant
/// cell. Returns `None` if there is a circle and no vacant cell.
pub(super) fn plan(target: &[usize]) -> Option<Vec<RowCopy>> {
    let mut plan = Plan::new(target);
    plan.fill_vacant();
    if plan.pending > 0 {
        plan.break_circles()?;
    }
    Some(plan.copies)
}

struct Plan {
    /// Where the row in each cell is going; [`NONE`] without a row.
    target: Vec<usize>,
    /// Cell of the row that is still to come to each cell, or [`NONE`].
    source: Vec<usize>,
    /// Vacant cells that rows may be waiting for.
    vacant: Vec<Range<usize>>,
    /// Rows that have not arrived.
    pending: usize,
    copies: Vec<RowCopy>,
}

impl Plan {
    fn new(target: &[usize]) -> Self {
        let mut source = vec![NONE; target.len()];
        let moves = || {
            target
                .iter()
                .enumerate()
                .filter(|&(c, &t)| t != NONE && t != c)
        };
        for (cell, &to) in moves() {
            source[to] = cell;
        }
        let mut vacant = vacant_ranges(target);
        // The last is filled first: the lowest when rows slide down, so that they follow each other.
        if moves().filter(|&(cell, &to)| to < cell).count() * 2 >= moves().count() {
            vacant.reverse();
        }
        Plan {
            target: target.to_vec(),
            pending: moves().count(),
            source,
            vacant,
            copies: Vec::new(),
        }
    }

    /// Whether a row could move to `cell` now.
    fn is_awaited(&self, cell: usize) -> bool {
        self.target[cell] == NONE && self.source[cell] != NONE
    }

    fn fill_vacant(&mut self) {
        while let Some(gap) = self.vacant.pop() {
            let Some(to) = gap.clone().find(|&cell| self.is_awaited(cell)) else {
                continue;
            };
            let (start, len) = self.block(to);
            if start + len < gap.end {
                self.vacant.push(start + len..gap.end);
            }
            self.copy(self.source[start], start, len);
        }
    }

    /// The vacant cells around `to` whose rows come from consecutive cells: first cell and length.
    fn block(&self, to: usize) -> (usize, usize) {
        let from = self.source[to];
        let before = (1..=to.min(from))
            .take_while(|i| self.is_awaited(to - i) && self.source[to - i] == from - i)
            .count();
        let after = (1..self.target.len() - to)
            .take_while(|i| self.is_awaited(to + i) && self.source[to + i] == from + i)
            .count();
        (to - before, before + 1 + after)
    }

    /// Once every vacant cell that was waited for is filled, the remaining rows exchange places, and the
    /// same cells are vacant again after each circle.
    fn break_circles(&mut self) -> Option<()> {
        let aside = vacant_ranges(&self.target)
            .into_iter()
            .max_by_key(Range::len)?;
        for cell in 0..self.target.len() {
            let to = self.target[cell];
            if to == NONE || to == cell {
                continue;
            }
            let rest = &self.target[cell..];
            let len = (0..aside.len().min(rest.len()))
                .take_while(|i| rest[*i] == to + i)
                .count();
            self.copy(cell, aside.start, len);
            self.fill_vacant();
        }
        Some(())
    }

    /// Moves rows to vacant cells, where they are going or out of the way.
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        for (from, to) in (from..from + len).zip(to..to + len) {
            let target = std::mem::replace(&mut self.target[from], NONE);
            self.target[to] = target;
            if target == to {
                self.source[to] = NONE;
                self.pending -= 1;
            } else {
                self.source[target] = to;
            }
        }
        self.vacant.push(from..from + len);
        let copy = RowCopy { from, to, len };
        let last = self.copies.last_mut();
        match last.and_then(|last| Some((last.join(copy)?, last))) {
            Some((joined, last)) => *last = joined,
            None => self.copies.push(copy),
        }
    }
}

/// Maximal ranges of cells without a row, ascending.
fn vacant_ranges(target: &[usize]) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (cell, _) in target.iter().enumerate().filter(|&(_, &to)| to == NONE) {
        match ranges.last_mut() {
            Some(last) if last.end == cell => last.end += 1,
            _ => ranges.push(cell..cell + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(from: usize, to: usize, len: usize) -> RowCopy {
        RowCopy { from, to, len }
    }

    /// Moves the letters of `before` to where they are in `after`; `.` is a vacant cell.
    fn plan_for(before: &str, after: &str) -> Option<Vec<RowCopy>> {
        let target: Vec<usize> = before
            .chars()
            .map(|row| match row {
                '.' => NONE,
                row => after.find(row).unwrap(),
            })
            .collect();
        let copies = plan(&target)?;
        let mut rows: Vec<char> = before.chars().collect();
        for (from, to) in copies.iter().flat_map(|copy| copy.rows()) {
            rows[to] = rows[from];
        }
        for (cell, row) in after.chars().enumerate().filter(|&(_, row)| row != '.') {
            assert_eq!(rows[cell], row, "{before} to {after}: {rows:?}");
        }
        Some(copies)
    }

    #[test]
    fn slides_are_one_copy_per_run() {
        assert_eq!(plan_for("..abcde", "abcde.."), Some(vec![copy(2, 0, 5)]));
        assert_eq!(plan_for("abcde..", "..abcde"), Some(vec![copy(0, 2, 5)]));
        let two_holes = Some(vec![copy(1, 0, 3), copy(5, 3, 4)]);
        assert_eq!(plan_for(".abc.defg", "abcdefg.."), two_holes);
        let upwards = Some(vec![copy(5, 6, 3), copy(0, 2, 4)]);
        assert_eq!(plan_for("abcd.efg.", "..abcdefg"), upwards);
        assert_eq!(plan_for("abc.d", "abc.d"), Some(vec![]));
    }

    #[test]
    fn circles_use_a_vacant_cell() {
        let swapped = Some(vec![copy(0, 2, 1), copy(1, 0, 2)]);
        assert_eq!(plan_for("ab.", "ba."), swapped);
        assert_eq!(plan_for("ab", "ba"), None);
        assert!(plan_for("abcde.", "cdeab.").is_some());
        assert!(plan_for("abcdefg..", "efgdabc..").is_some());
        let blocks = Some(vec![copy(0, 6, 3), copy(3, 0, 6)]);
        assert_eq!(plan_for("abcdef...", "defabc..."), blocks);
    }

    /// Every placement of four rows in six cells, to every other one.
    #[test]
    fn every_move_of_four_rows_in_six_cells() {
        let placements = placements(6, "abcd");
        assert_eq!(placements.len(), 6 * 5 * 4 * 3);
        for before in &placements {
            for after in placements.iter().step_by(7) {
                assert!(plan_for(before, after).is_some());
            }
        }
    }

    fn placements(cells: usize, rows: &str) -> Vec<String> {
        let mut all = vec![".".repeat(cells)];
        for row in rows.chars() {
            let vacancies = |drawing: String| {
                let vacant: Vec<_> = drawing.match_indices('.').map(|(i, _)| i).collect();
                vacant.into_iter().map(move |cell| {
                    let mut next = drawing.clone();
                    next.replace_range(cell..=cell, &row.to_string());
                    next
                })
            };
            all = all.into_iter().flat_map(vacancies).collect();
        }
        all
    }
}
