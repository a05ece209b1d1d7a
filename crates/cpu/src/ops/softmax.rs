//! Softmax over parts of a row.

use super::exp::exp;
use super::reduce::{max, sum};
use crate::simd::{Simd, per_isa};

per_isa! {
    /// Softmax of `scale * y` over the first `len` elements of each part of `part` elements; the rest
    /// of the part becomes 0.
    pub(crate) fn softmax(y: &mut [f32], part: usize, len: usize, scale: f32) = softmax_body;
}

#[inline(always)]
fn softmax_body<S: Simd>(y: &mut [f32], part: usize, len: usize, scale: f32) {
    for part in y.chunks_exact_mut(part.max(1)) {
        let (scores, rest) = part.split_at_mut(len.min(part.len()));
        rest.fill(0.0);
        for y in &mut *scores {
            *y *= scale;
        }
        let largest = max::<S>(scores);
        for y in &mut *scores {
            *y = exp(*y - largest);
        }
        let factor = 1.0 / sum::<S>(scores);
        for y in &mut *scores {
            *y *= factor;
        }
    }
}
