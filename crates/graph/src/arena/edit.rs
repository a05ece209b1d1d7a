//! What must be done to the rows of every layer after the bookkeeping changed.

use std::ops::Range;

/// A change of rows. The edits an operation returns are applied in order, to the keys and values of
/// every layer, before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEdit {
    /// Keys and values are copied verbatim.
    Copy(RowCopy),
    /// Keys are turned back.
    Rotate(Rotation),
}

/// Copies rows `from..from + len` to `to..to + len` as they were before. The ranges may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCopy {
    /// First cell that is read.
    pub from: usize,
    /// First cell that is written.
    pub to: usize,
    /// Rows.
    pub len: usize,
}

/// Rotates the keys of cells `cell..cell + len` from position `p` to position `p - by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// First cell.
    pub cell: usize,
    /// Cells.
    pub len: usize,
    /// Positions to turn back by.
    pub by: usize,
}

impl RowCopy {
    /// `(from, to)` of each row, ordered so that no row is overwritten before it was read: ascending when
    /// rows slide down, descending when they slide up.
    pub fn rows(self) -> impl Iterator<Item = (usize, usize)> {
        let RowCopy { from, to, len } = self;
        (0..len).map(move |i| {
            let row = if to > from { len - 1 - i } else { i };
            (from + row, to + row)
        })
    }

    /// One copy that does what `self` and then `next` do, if they are neighbours and `next` reads nothing
    /// that `self` wrote.
    pub(super) fn join(self, next: RowCopy) -> Option<RowCopy> {
        let written = self.to..self.to + self.len;
        if overlap(&written, &(next.from..next.from + next.len)) {
            return None;
        }
        let follows = |a: RowCopy, b: RowCopy| a.from + a.len == b.from && a.to + a.len == b.to;
        let first = match () {
            () if follows(self, next) => self,
            () if follows(next, self) => next,
            () => return None,
        };
        let len = self.len + next.len;
        Some(RowCopy { len, ..first })
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(from: usize, to: usize, len: usize) -> RowCopy {
        RowCopy { from, to, len }
    }

    #[test]
    fn overlapping_rows_are_read_before_they_are_overwritten() {
        let mut down = *b"--abcd";
        copy(2, 0, 4)
            .rows()
            .for_each(|(from, to)| down[to] = down[from]);
        assert_eq!(&down, b"abcdcd");
        let mut up = *b"abcd--";
        copy(0, 2, 4)
            .rows()
            .for_each(|(from, to)| up[to] = up[from]);
        assert_eq!(&up, b"ababcd");
    }

    #[test]
    fn copies_join_where_nothing_is_read_twice() {
        assert_eq!(copy(4, 0, 2).join(copy(6, 2, 3)), Some(copy(4, 0, 5)));
        assert_eq!(copy(6, 8, 2).join(copy(4, 6, 2)), Some(copy(4, 6, 4)));
        assert_eq!(copy(4, 0, 2).join(copy(7, 2, 1)), None, "a gap");
        assert_eq!(
            copy(0, 1, 1).join(copy(1, 2, 1)),
            None,
            "reads what was written"
        );
    }
}
