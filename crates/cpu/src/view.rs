//! Row views of activations, shared between threads.

use std::marker::PhantomData;
use std::ops::Range;

use crate::Pool;

/// Elements below which a parallel region costs more than it saves.
const SERIAL_ELEMENTS: usize = 16 * 1024;

/// A `[width, rows]` matrix that is read: feature `i` of row `r` is element `r * stride + i`.
#[derive(Clone, Copy)]
pub(crate) struct MatRef<'a, T = f32> {
    base: *const T,
    width: usize,
    stride: usize,
    rows: usize,
    lifetime: PhantomData<&'a T>,
}

/// A `[width, rows]` matrix that is written; rows do not overlap.
pub(crate) struct MatMut<'a> {
    base: *mut f32,
    width: usize,
    stride: usize,
    rows: usize,
    lifetime: PhantomData<&'a mut f32>,
}

// SAFETY: as for `&[T]`.
unsafe impl<T: Sync> Send for MatRef<'_, T> {}
// SAFETY: as for `&[T]`.
unsafe impl<T: Sync> Sync for MatRef<'_, T> {}
// SAFETY: as for `&mut [f32]`.
unsafe impl Send for MatMut<'_> {}
// SAFETY: through `&MatMut` elements are reached only by the unsafe `segment`.
unsafe impl Sync for MatMut<'_> {}

/// Elements from the first to past the last of a matrix.
pub(crate) fn span(width: usize, stride: usize, rows: usize) -> Option<usize> {
    match rows {
        0 => Some(0),
        _ => (rows - 1).checked_mul(stride)?.checked_add(width),
    }
}

impl<'a, T> MatRef<'a, T> {
    /// A contiguous matrix.
    ///
    /// # Panics
    /// When `data` is shorter than the matrix.
    pub(crate) fn new(data: &'a [T], width: usize, rows: usize) -> Self {
        assert!(width * rows <= data.len(), "{width} x {rows} elements");
        // SAFETY: the elements are within `data`, which is borrowed for 'a.
        unsafe { Self::from_raw(data.as_ptr(), width, width, rows) }
    }

    /// # Safety
    /// The elements of all rows are initialized, and nothing writes them during `'a`.
    pub(crate) unsafe fn from_raw(
        base: *const T,
        width: usize,
        stride: usize,
        rows: usize,
    ) -> Self {
        MatRef {
            base,
            width,
            stride,
            rows,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// From the first to the last element, with what lies between the rows.
    ///
    /// # Safety
    /// The elements between the rows are initialized, and nothing writes them during `'a`.
    pub(crate) unsafe fn span(&self) -> &'a [T] {
        let len = span(self.width, self.stride, self.rows).unwrap_or(0);
        // SAFETY: the rows' memory is one object; the rest is this function's contract.
        unsafe { std::slice::from_raw_parts(self.base, len) }
    }

    /// Features of row `r`.
    pub(crate) fn row(&self, r: usize) -> &'a [T] {
        assert!(r < self.rows, "row {r} of {}", self.rows);
        // SAFETY: the row exists, and by the contract of `from_raw` nothing writes it.
        unsafe { std::slice::from_raw_parts(self.base.add(r * self.stride), self.width) }
    }

    /// Rows `range`.
    pub(crate) fn slice_rows(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.rows);
        MatRef {
            // SAFETY: the start is at most the end of the matrix.
            base: unsafe { self.base.add(range.start * self.stride) },
            rows: range.len(),
            ..*self
        }
    }
}

impl<'a> MatMut<'a> {
    /// A contiguous matrix.
    ///
    /// # Panics
    /// When `data` is shorter than the matrix.
    pub(crate) fn new(data: &'a mut [f32], width: usize, rows: usize) -> Self {
        assert!(width * rows <= data.len(), "{width} x {rows} elements");
        // SAFETY: the elements are within `data`, which is borrowed for 'a.
        unsafe { Self::from_raw(data.as_mut_ptr(), width, width, rows) }
    }

    /// # Safety
    /// The elements of all rows are initialized, and nothing else accesses them during `'a`.
    ///
    /// # Panics
    /// When rows overlap.
    pub(crate) unsafe fn from_raw(
        base: *mut f32,
        width: usize,
        stride: usize,
        rows: usize,
    ) -> Self {
        assert!(rows <= 1 || width <= stride, "stride {stride} < {width}");
        MatMut {
            base,
            width,
            stride,
            rows,
            lifetime: PhantomData,
        }
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// From the first to the last element, with what lies between the rows.
    ///
    /// # Safety
    /// The elements between the rows are initialized, and nothing else accesses them during `'a`.
    pub(crate) unsafe fn span_mut(self) -> &'a mut [f32] {
        let len = span(self.width, self.stride, self.rows).unwrap_or(0);
        // SAFETY: the rows' memory is one object; the rest is this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.base, len) }
    }

    /// Reads the matrix as long as this borrow lasts.
    pub(crate) fn as_ref(&self) -> MatRef<'_> {
        // SAFETY: writing needs a mutable borrow or the contract of `segment`.
        unsafe { MatRef::from_raw(self.base, self.width, self.stride, self.rows) }
    }

    /// Reborrows rows `range`.
    pub(crate) fn slice_rows(&mut self, range: Range<usize>) -> MatMut<'_> {
        assert!(range.start <= range.end && range.end <= self.rows);
        MatMut {
            // SAFETY: the start is at most the end of the matrix.
            base: unsafe { self.base.add(range.start * self.stride) },
            rows: range.len(),
            ..*self
        }
    }

    /// Features `features` of row `r`, for threads that fill disjoint segments.
    ///
    /// # Safety
    /// While the result lives, no other reference covers any of its elements.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn segment(&self, r: usize, features: Range<usize>) -> &mut [f32] {
        assert!(r < self.rows, "row {r} of {}", self.rows);
        assert!(features.start <= features.end && features.end <= self.width);
        let first = r * self.stride + features.start;
        // SAFETY: the segment lies within row `r`; by this function's contract it is not aliased.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(first), features.len()) }
    }

    /// Calls `f(r, row)` for every row, on any worker.
    pub(crate) fn for_each_row(self, pool: &Pool, f: impl Fn(usize, &mut [f32]) + Sync) {
        let chunk = match self.rows * self.width {
            0..SERIAL_ELEMENTS => self.rows,
            _ => (SERIAL_ELEMENTS / 4 / self.width.max(1)).max(1),
        };
        pool.for_each_chunk(self.rows, chunk, |rows| {
            for r in rows {
                // SAFETY: chunks are disjoint, so each row is handed out once.
                f(r, unsafe { self.segment(r, 0..self.width) });
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_strided_matrix() {
        let data: Vec<f32> = (0..12).map(|i| i as f32).collect();
        // SAFETY: 3 rows of stride 4 from element 1, width 2, end at element 11.
        let view = unsafe { MatRef::from_raw(data[1..].as_ptr(), 2, 4, 3) };
        assert_eq!(view.row(2), &[9.0, 10.0]);
        assert_eq!(view.slice_rows(1..3).row(0), &[5.0, 6.0]);
        assert_eq!(span(2, 4, 3), Some(10));
    }

    #[test]
    fn every_row_is_visited_once() {
        let pool = Pool::new(3).expect("threads");
        let mut data = vec![0.0; 40 * 1000];
        MatMut::new(&mut data, 40, 1000).for_each_row(&pool, |r, row| {
            for x in row {
                *x += r as f32;
            }
        });
        assert!((0..1000).all(|r| data[r * 40..][..40].iter().all(|&x| x == r as f32)));
    }
}
