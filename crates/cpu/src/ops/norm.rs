//! Root-mean-square normalization.

use super::reduce::dot;
use crate::simd::{Simd, per_isa};

per_isa! {
    /// Normalizes each consecutive `gain.len()` elements of `y` by themselves:
    /// `y = y / sqrt(mean(y^2) + eps) * gain`.
    pub(crate) fn rms_norm(y: &mut [f32], gain: &[f32], eps: f32) = rms_norm_body;
}

#[inline(always)]
fn rms_norm_body<S: Simd>(y: &mut [f32], gain: &[f32], eps: f32) {
    for part in y.chunks_exact_mut(gain.len().max(1)) {
        let mean = dot::<S>(part, part) / part.len() as f32;
        let factor = 1.0 / (mean + eps).sqrt();
        for (y, gain) in part.iter_mut().zip(gain) {
            *y = *y * factor * gain;
        }
    }
}
