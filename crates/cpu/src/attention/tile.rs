//! The register-blocked product under the prompt path.

use crate::simd::Simd;

/// Rows of a full tile.
pub(crate) const ROWS: usize = 4;
/// Columns are padded to whole vectors of the widest instruction set.
pub(crate) const PADDING: usize = 16;

/// Left factor: rows of `depth` elements, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) depth: usize,
}

/// Right factor: `depth` rows of at least the output's columns, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) stride: usize,
}

/// `c += a * b` for `R` rows of `columns` (a multiple of [`PADDING`]) elements, `stride` apart.
///
/// An element is accumulated in ascending depth, one fused multiply-add per term, whatever the
/// instruction set and its place in the tile.
#[inline(always)]
pub(crate) fn multiply_add<S: Simd, const R: usize>(
    c: &mut [f32],
    stride: usize,
    columns: usize,
    a: Left<'_>,
    b: Right<'_>,
) {
    if a.depth == 0 || columns == 0 {
        return;
    }
    assert!((R - 1) * stride + columns <= c.len());
    assert!((R - 1) * a.stride + a.depth <= a.data.len());
    assert!((a.depth - 1) * b.stride + columns <= b.data.len());
    let wide = S::LANES * S::TILE;
    let mut column = 0;
    while column < columns {
        let out = &mut c[column..];
        let b = Right {
            data: &b.data[column..],
            ..b
        };
        // SAFETY: the asserts cover all elements from `column` on, `S` is what is compiled for.
        unsafe {
            if columns - column < wide {
                strip::<S, R, 1>(out, stride, a, b);
                column += S::LANES;
            } else if S::TILE == 4 {
                strip::<S, R, 4>(out, stride, a, b);
                column += wide;
            } else {
                const { assert!(S::TILE == 2 || S::TILE == 4) };
                strip::<S, R, 2>(out, stride, a, b);
                column += wide;
            }
        }
    }
}

/// # Safety
/// `c`, `a` and `b` hold `R` rows and the depth of `T` vectors; the features of `S` are there.
#[inline(always)]
unsafe fn strip<S: Simd, const R: usize, const T: usize>(
    c: &mut [f32],
    stride: usize,
    a: Left<'_>,
    b: Right<'_>,
) {
    // SAFETY: this function's contract bounds every offset below.
    unsafe {
        let out = c.as_mut_ptr();
        let mut sums = [[S::splat(0.0); T]; R];
        for (r, sums) in sums.iter_mut().enumerate() {
            for (t, sum) in sums.iter_mut().enumerate() {
                *sum = S::load(out.add(r * stride + t * S::LANES));
            }
        }
        for k in 0..a.depth {
            let mut row = [S::splat(0.0); T];
            for (t, v) in row.iter_mut().enumerate() {
                *v = S::load(b.data.as_ptr().add(k * b.stride + t * S::LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = S::splat(*a.data.as_ptr().add(r * a.stride + k));
                for (sum, v) in sums.iter_mut().zip(row) {
                    *sum = S::mul_add(x, v, *sum);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            for (t, sum) in sums.iter().enumerate() {
                S::store(out.add(r * stride + t * S::LANES), *sum);
            }
        }
    }
}
