//! Threadgroup memory of one threadgroup.

use std::ops::Range;

use super::regions::{Near, Region};

/// Bytes between variables that belong to none, so that an index past the end is seen.
const GAP: usize = 256;
/// More than any device offers, so that a kernel which asks for too much runs to its report.
const CAPACITY: usize = 256 * 1024;

/// A variable in threadgroup memory.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    /// Offsets in the arena.
    pub(crate) range: Range<usize>,
    key: usize,
}

/// Memory for the variables of a threadgroup.
pub(crate) struct Arena {
    memory: Box<[u128]>,
    pub(crate) variables: Vec<Variable>,
    used: usize,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Arena {
            memory: vec![0; CAPACITY / 16].into_boxed_slice(),
            variables: Vec::new(),
            used: GAP,
        }
    }

    /// Drops all variables.
    pub(crate) fn clear(&mut self) {
        self.variables.clear();
        self.used = GAP;
    }

    pub(crate) fn base(&self) -> usize {
        self.memory.as_ptr().addr()
    }

    /// Address of the variable `key`, which is made when it is new; `None` when the arena is full.
    pub(crate) fn variable(
        &mut self,
        key: usize,
        bytes: usize,
        align: usize,
        name: &str,
    ) -> Option<*mut u8> {
        let known = self.variables.iter().find(|variable| variable.key == key);
        let start = match known {
            Some(variable) => variable.range.start,
            None => {
                // The arena itself may start at any multiple of 16.
                let base = self.base();
                let start = (base + self.used).next_multiple_of(align.max(16)) - base;
                let end = start
                    .checked_add(bytes)
                    .filter(|&end| end + GAP <= CAPACITY)?;
                self.used = end + GAP;
                self.variables.push(Variable {
                    name: name.to_owned(),
                    range: start..end,
                    key,
                });
                start
            }
        };
        Some(self.memory.as_mut_ptr().cast::<u8>().wrapping_add(start))
    }

    /// Bytes of all variables together.
    pub(crate) fn bytes(&self) -> usize {
        self.variables
            .iter()
            .map(|variable| variable.range.len())
            .sum()
    }

    /// Where an address lies, if it is in the arena.
    pub(crate) fn region(&self, at: usize, bytes: usize) -> Option<Region> {
        let offset = at
            .checked_sub(self.base())
            .filter(|&offset| offset < CAPACITY)?;
        let holds = |range: &Range<usize>| {
            let left = range.end.checked_sub(offset);
            range.start <= offset && left.is_some_and(|left| bytes <= left)
        };
        if let Some(index) = self
            .variables
            .iter()
            .position(|variable| holds(&variable.range))
        {
            return Some(Region::Threadgroup(index));
        }
        let near = self
            .variables
            .iter()
            .rposition(|variable| variable.range.start <= offset);
        Some(Region::Outside(near.map(Near::Threadgroup)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_past_a_variable_belongs_to_none() {
        let mut arena = Arena::new();
        let first = arena.variable(1, 100, 4, "first").unwrap().addr();
        let second = arena.variable(2, 8, 64, "second").unwrap().addr();
        assert_eq!(arena.variable(1, 100, 4, "first").unwrap().addr(), first);
        assert_eq!(second % 64, 0);
        assert_eq!(arena.bytes(), 108);
        assert_eq!(arena.region(first + 96, 4), Some(Region::Threadgroup(0)));
        assert_eq!(
            arena.region(first + 97, 4),
            Some(Region::Outside(Some(Near::Threadgroup(0))))
        );
        assert_eq!(arena.region(second, 8), Some(Region::Threadgroup(1)));
        assert_eq!(
            arena.region(second - 1, 1),
            Some(Region::Outside(Some(Near::Threadgroup(0))))
        );
        assert_eq!(arena.region(first - 1, 1), Some(Region::Outside(None)));
        assert_eq!(arena.region(arena.base() + CAPACITY, 1), None);
        assert_eq!(
            arena.region(second, usize::MAX),
            Some(Region::Outside(Some(Near::Threadgroup(1))))
        );
    }

    #[test]
    fn a_full_arena_gives_nothing() {
        let mut arena = Arena::new();
        assert!(arena.variable(1, CAPACITY, 4, "large").is_none());
        assert!(arena.variable(2, usize::MAX, 4, "larger").is_none());
        assert!(arena.variable(3, 16, 4, "small").is_some());
    }
}
