//! Per-head products with grouped heads, for the unfused form of attention.

use super::reduce::dot;
use crate::simd::{Simd, per_isa};
use crate::view::MatRef;

per_isa! {
    /// `y[h * n + j] = sum_i a[h * k + i] * b[g * k + i, j]` for one row of scores.
    pub(crate) fn scores(y: &mut [f32], a: &[f32], b: MatRef<'_>, groups: HeadGroups) = scores_body;
}
per_isa! {
    /// `y[h * k + i] = sum_j a[h * n + j] * b[g * k + i, j]` for one row of weighted values.
    pub(crate) fn weighted(y: &mut [f32], a: &[f32], b: MatRef<'_>, groups: HeadGroups) = weighted_body;
}

/// How the heads of `a` share those of `b`.
#[derive(Clone, Copy)]
pub(crate) struct HeadGroups {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
}

impl HeadGroups {
    #[inline(always)]
    fn group_of(self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }
}

#[inline(always)]
fn scores_body<S: Simd>(y: &mut [f32], a: &[f32], b: MatRef<'_>, groups: HeadGroups) {
    let k = b.width() / groups.kv_heads;
    let n = b.rows();
    for h in 0..groups.heads {
        let a = &a[h * k..][..k];
        for (j, y) in y[h * n..][..n].iter_mut().enumerate() {
            *y = dot::<S>(a, &b.row(j)[groups.group_of(h) * k..][..k]);
        }
    }
}

#[inline(always)]
fn weighted_body<S: Simd>(y: &mut [f32], a: &[f32], b: MatRef<'_>, groups: HeadGroups) {
    let k = b.width() / groups.kv_heads;
    let n = b.rows();
    y.fill(0.0);
    for j in 0..n {
        let b = b.row(j);
        for h in 0..groups.heads {
            let weight = a[h * n + j];
            let values = &b[groups.group_of(h) * k..][..k];
            for (y, value) in y[h * k..][..k].iter_mut().zip(values) {
                *y = weight.mul_add(*value, *y);
            }
        }
    }
}
