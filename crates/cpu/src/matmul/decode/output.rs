//! The outputs that one thread computes.

use std::ops::Range;

use crate::matmul::out_rows::OutRows;

/// A range of features of every row of an output; nobody else writes them while this lives.
pub(crate) struct OutPart<'a> {
    all: OutRows<'a>,
    range: Range<usize>,
}

impl<'a> OutPart<'a> {
    /// The features `range` of `all`.
    ///
    /// # Panics
    /// When the range does not lie within the width.
    ///
    /// # Safety
    /// While the part lives, no other thread accesses these features: parts of one output that are
    /// in use together must be disjoint.
    pub(crate) unsafe fn new(all: OutRows<'a>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= all.width());
        OutPart { all, range }
    }

    /// The features of this part.
    pub(crate) fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Rows of the output.
    pub(crate) fn rows(&self) -> usize {
        self.all.rows()
    }

    /// Stores the `index`-th feature of this part in row `row`.
    #[inline]
    pub(super) fn set(&mut self, row: usize, index: usize, value: f32) {
        assert!(index < self.range.len());
        // SAFETY: the feature is within the range, which `new`'s caller gave to this part alone.
        unsafe { self.all.write(row, self.range.start + index, value) }
    }
}
