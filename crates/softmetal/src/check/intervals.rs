//! Sets of bytes.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges, by their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intervals(BTreeMap<usize, usize>);

impl Intervals {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds all bytes of a range.
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        self.remove(range.clone());
        if !range.is_empty() {
            self.0.insert(range.start, range.end);
        }
    }

    /// Takes all bytes of a range out.
    pub(crate) fn remove(&mut self, range: Range<usize>) {
        while let Some(found) = self.first_in(&range) {
            self.0.remove(&found.start);
            if found.start < range.start {
                self.0.insert(found.start, range.start);
            }
            if range.end < found.end {
                self.0.insert(range.end, found.end);
            }
        }
    }

    /// Whether any byte of a range is in the set.
    pub(crate) fn overlaps(&self, range: &Range<usize>) -> bool {
        self.first_in(range).is_some()
    }

    /// What a range has in common with the set, in ascending order.
    pub(crate) fn parts(&self, range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let Range { start, end } = *range;
        let before = self.0.range(..start).next_back();
        let inside = self.0.range(start..end.max(start));
        before
            .into_iter()
            .chain(inside)
            .map(move |(&first, &last)| first.max(start)..last.min(end))
            .filter(|part| !part.is_empty())
    }

    fn first_in(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let (&start, &end) = self.0.range(..range.end).next_back()?;
        (range.start < end && !range.is_empty()).then_some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_bytes_that_were_added_and_not_taken_out() {
        let mut set = Intervals::default();
        let mut bytes = [false; 64];
        let mut state = 7u32;
        for _ in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let start = (state >> 8) as usize % 64;
            let end = (start + (state >> 16) as usize % 20).min(64);
            let insert = state >> 31 == 0;
            match insert {
                true => set.insert(start..end),
                false => set.remove(start..end),
            }
            bytes[start..end].fill(insert);
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(set.overlaps(&(at..at + 1)), *byte);
            }
            assert_eq!(set.is_empty(), !bytes.contains(&true));
            let window = start / 2..start / 2 + 20;
            let parts: Vec<_> = set.parts(&window).flatten().collect();
            let expected: Vec<_> = window.filter(|&at| at < 64 && bytes[at]).collect();
            assert_eq!(parts, expected);
        }
    }
}
