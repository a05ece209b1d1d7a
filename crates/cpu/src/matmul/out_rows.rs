//! Disjoint outputs of a product, written by several threads.

use std::marker::PhantomData;

/// The value of a product, `[width, rows]` feature-major: output `o` of row `r` is element
/// `r * stride + o`.
///
/// Copies are handed to every thread that works on the product. Each writes its own outputs, so no
/// two threads touch the same element, but they cannot hold disjoint slices: an output's elements
/// are `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct OutRows<'a> {
    base: *mut f32,
    width: usize,
    rows: usize,
    stride: usize,
    _elements: PhantomData<&'a mut [f32]>,
}

// SAFETY: the pointer stands for an exclusive borrow of the elements, and `f32` may move between
// threads. Every write is `unsafe` and its caller rules out races.
unsafe impl Send for OutRows<'_> {}
// SAFETY: as for `Send`; nothing can be read or written without `unsafe`.
unsafe impl Sync for OutRows<'_> {}

impl<'a> OutRows<'a> {
    /// The first `width` elements of each of `rows` rows that start `stride` elements apart.
    ///
    /// # Panics
    /// When the rows overlap or do not fit in `out`.
    pub fn new(out: &'a mut [f32], width: usize, rows: usize, stride: usize) -> Self {
        assert!(
            width <= stride || rows <= 1,
            "rows of {width} overlap at stride {stride}"
        );
        if let Some(last) = rows.checked_sub(1) {
            let end = last.checked_mul(stride).and_then(|e| e.checked_add(width));
            assert!(
                end.is_some_and(|end| end <= out.len()),
                "{rows} rows of {width} at stride {stride} in a buffer of {}",
                out.len()
            );
        }
        OutRows {
            base: out.as_mut_ptr(),
            width,
            rows,
            stride,
            _elements: PhantomData,
        }
    }

    /// Outputs per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sets output `o` of row `r`.
    ///
    /// # Safety
    /// No other thread accesses this element for as long as `self`'s copies are in use.
    pub unsafe fn write(&self, r: usize, o: usize, value: f32) {
        assert!(r < self.rows && o < self.width);
        // SAFETY: `new` checked that the element is within the borrowed slice.
        unsafe { self.base.add(r * self.stride + o).write(value) }
    }

    /// Outputs `o..o + n` of row `r`.
    ///
    /// # Safety
    /// No other thread accesses these elements, and no other slice of them is alive.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, r: usize, o: usize, n: usize) -> &mut [f32] {
        assert!(r < self.rows && o + n <= self.width);
        // SAFETY: within the borrowed slice as `new` checked; exclusive by this function's contract.
        unsafe { std::slice::from_raw_parts_mut(self.base.add(r * self.stride + o), n) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_where_the_stride_says() {
        let mut values = [0.0; 8];
        let out = OutRows::new(&mut values, 3, 2, 5);
        // SAFETY: this is the only thread, and one slice lives at a time.
        unsafe {
            out.write(1, 2, 7.0);
            out.slice_mut(0, 1, 2).copy_from_slice(&[1.0, 2.0]);
        }
        assert_eq!(values, [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 7.0]);
    }

    #[test]
    #[should_panic(expected = "2 rows of 3 at stride 5 in a buffer of 7")]
    fn rows_must_fit() {
        OutRows::new(&mut [0.0; 7], 3, 2, 5);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn rows_must_not_overlap() {
        OutRows::new(&mut [0.0; 9], 3, 2, 2);
    }

    #[test]
    #[should_panic]
    fn outputs_past_the_width_are_refused() {
        let mut values = [0.0; 8];
        let out = OutRows::new(&mut values, 3, 2, 5);
        // SAFETY: this is the only thread.
        unsafe { out.write(0, 3, 1.0) }
    }
}
