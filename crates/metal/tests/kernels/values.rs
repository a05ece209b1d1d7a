//! Values for operands, and how far results are from references.

/// Widths with every kind of tail. Work of width 0 is not dispatched.
pub const WIDTHS: [usize; 9] = [1, 31, 32, 33, 255, 256, 257, 896, 1536];

/// Values that look random, between -2 and 2.
pub fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / (1u32 << 30) as f32 - 2.0
    };
    (0..count).map(|_| next()).collect()
}

/// Largest difference from a reference, relative to its largest magnitude.
pub fn difference(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected
        .iter()
        .fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let differences = found
        .iter()
        .zip(expected)
        .map(|(found, expected)| (f64::from(*found) - expected).abs());
    // NaN must not pass, nor be forgotten.
    let worse = |most: f64, d: f64| if most.is_nan() || d <= most { most } else { d };
    differences.fold(0.0, worse) / largest
}
