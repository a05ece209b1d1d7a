//! Scales of blocks: how they are stored and derived from values.

use half::f16;

/// A group whose values are all smaller gets a scale of zero, where a search would divide by them.
pub(super) const SMALLEST_MAGNITUDE: f32 = 1e-15;

/// The f16 at byte `at` of a block.
pub(super) fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Stores an f16 at byte `at` of a block.
pub(super) fn put_f16(block: &mut [u8], at: usize, value: f32) {
    block[at..at + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
}

/// The inverse of a scale; zero for a block of zeros.
pub(super) fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// The value of the largest magnitude, with its sign; the first one of equals.
pub(super) fn extreme(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b.abs() > a.abs() { b } else { a };
    values.iter().copied().fold(0.0, larger)
}

/// The smallest and the largest value.
pub(super) fn bounds(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::MAX, f32::MIN), |(low, high), &v| {
        (
            if v < low { v } else { low },
            if v > high { v } else { high },
        )
    })
}

/// The nearest integer, of two the even one.
pub(super) fn nearest(x: f32) -> i32 {
    x.round_ties_even() as i32
}

/// The largest value, at least zero.
pub(super) fn largest(values: impl IntoIterator<Item = f32>) -> f32 {
    let larger = |top, value| if value > top { value } else { top };
    values.into_iter().fold(0.0, larger)
}

/// `value` in units of `top / steps`, rounded.
pub(super) fn in_steps(value: f32, top: f32, steps: u8) -> u8 {
    if top > 0.0 {
        nearest(f32::from(steps) / top * value).clamp(0, steps.into()) as u8
    } else {
        0
    }
}
