//! Compares what a replay left in memory with what was recorded.

use std::fmt;

use serde::Serialize;

/// A written memory of a replay beside the recorded one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Place in [`super::Description::memory`].
    pub memory: usize,
    /// Label of the recorded buffer.
    pub label: String,
    /// Its size.
    pub bytes: usize,
    /// Bytes that are the same.
    pub equal_bytes: usize,
    /// The first byte that is another one.
    pub first_difference: Option<Difference>,
    /// The memory read as 32-bit floats, which says something only where the kernel's parameter is `float`;
    /// none if it is no whole number of them.
    pub floats: Option<Floats>,
}

/// A byte that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Its place.
    pub offset: usize,
    /// What was recorded.
    pub expected: u8,
    /// What the replay left.
    pub found: u8,
}

/// How far floats are apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Floats {
    /// Values compared.
    pub values: usize,
    /// Those with other bits.
    pub different: usize,
    /// Those with other bits of which one is infinite or no number; the figures below leave them out.
    pub not_finite: usize,
    /// Largest difference.
    pub max_absolute: f32,
    /// Largest difference divided by the larger magnitude of the two.
    pub max_relative: f32,
}

impl Comparison {
    /// Compares contents of the same length.
    pub(super) fn new(memory: usize, label: &str, expected: &[u8], found: &[u8]) -> Self {
        let pairs = || expected.iter().zip(found);
        let equal_bytes = pairs()
            .filter(|(expected, found)| expected == found)
            .count();
        let first = pairs().position(|(expected, found)| expected != found);
        Comparison {
            memory,
            label: label.to_owned(),
            bytes: expected.len(),
            equal_bytes,
            first_difference: first.map(|offset| Difference {
                offset,
                expected: expected[offset],
                found: found[offset],
            }),
            floats: Floats::new(expected, found),
        }
    }

    /// Whether every byte is the same.
    pub fn is_equal(&self) -> bool {
        self.first_difference.is_none()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Comparison {
            label,
            equal_bytes,
            bytes,
            ..
        } = self;
        write!(f, "`{label}`: {equal_bytes} of {bytes} bytes equal")?;
        let Some(first) = self.first_difference else {
            return Ok(());
        };
        write!(
            f,
            "; byte {} is {:#04x}, recorded {:#04x}",
            first.offset, first.found, first.expected
        )?;
        let Some(floats) = self.floats else {
            return Ok(());
        };
        write!(
            f,
            "\n  as floats: {} of {} differ, by {:e} at most, relatively {:e}; {} are not finite",
            floats.different,
            floats.values,
            floats.max_absolute,
            floats.max_relative,
            floats.not_finite
        )
    }
}

impl Floats {
    fn new(expected: &[u8], found: &[u8]) -> Option<Self> {
        let ((expected, []), (found, [])) = (expected.as_chunks(), found.as_chunks()) else {
            return None;
        };
        let mut floats = Floats {
            values: expected.len(),
            ..Floats::default()
        };
        for (expected, found) in expected.iter().zip(found) {
            if expected != found {
                floats.add(f32::from_le_bytes(*expected), f32::from_le_bytes(*found));
            }
        }
        Some(floats)
    }

    /// Adds a pair with other bits.
    fn add(&mut self, expected: f32, found: f32) {
        self.different += 1;
        if !(expected.is_finite() && found.is_finite()) {
            self.not_finite += 1;
            return;
        }
        let difference = (expected - found).abs();
        self.max_absolute = self.max_absolute.max(difference);
        let magnitude = expected.abs().max(found.abs());
        if magnitude > 0.0 {
            self.max_relative = self.max_relative.max(difference / magnitude);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn differences_are_counted_and_measured() {
        let expected = bytes(&[1.0, -4.0, 0.0, f32::NAN, 3.0]);
        let found = bytes(&[1.0, -5.0, 0.5, 3.0, f32::INFINITY]);
        let comparison = Comparison::new(2, "y", &expected, &found);
        // -4 is c0800000, -5 c0a00000, 0.5 3f000000, NaN 7fc00000, 3 40400000, infinity 7f800000; little endian.
        assert_eq!(comparison.equal_bytes, 20 - 1 - 1 - 2 - 2);
        let first = Difference {
            offset: 6,
            expected: 0x80,
            found: 0xa0,
        };
        assert_eq!(comparison.first_difference, Some(first));
        let floats = Floats {
            values: 5,
            different: 4,
            not_finite: 2,
            max_absolute: 1.0,
            max_relative: 1.0,
        };
        assert_eq!(comparison.floats, Some(floats));
        assert!(!comparison.is_equal());
    }

    #[test]
    fn the_same_bits_are_equal_even_if_they_are_no_number() {
        let values = bytes(&[f32::NAN, -0.0]);
        let comparison = Comparison::new(0, "y", &values, &values);
        assert!(comparison.is_equal());
        let floats = comparison.floats.unwrap();
        assert_eq!((floats.values, floats.different), (2, 0));
        let zeros = Comparison::new(0, "y", &bytes(&[0.0]), &bytes(&[-0.0]));
        assert_eq!(zeros.floats.unwrap().different, 1);
        assert_eq!(zeros.floats.unwrap().max_relative, 0.0);
        assert_eq!(Comparison::new(0, "y", &[1, 2], &[1, 2]).floats, None);
    }
}
