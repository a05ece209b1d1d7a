//! How far values are from a reference.

/// The largest |found - expected|, or NaN where one of them is NaN, which no tolerance lets pass.
///
/// # Panics
/// When there are not as many values as expected ones.
pub fn largest_difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let differences = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    // `f32::max` would forget a NaN.
    let worse = |most: f32, d: f32| if most.is_nan() || d <= most { most } else { d };
    differences.fold(0.0, worse)
}

#[test]
fn a_nan_anywhere_is_the_largest_difference() {
    assert_eq!(largest_difference(&[1.0, 5.0, 2.0], &[1.0, 3.0, 3.0]), 2.0);
    for at in 0..3 {
        for nan in [f32::NAN, -f32::NAN] {
            let mut values = [1.0, 5.0, 2.0];
            values[at] = nan;
            assert!(largest_difference(&values, &[0.0; 3]).is_nan(), "{at}");
            assert!(largest_difference(&[0.0; 3], &values).is_nan(), "{at}");
        }
    }
}
