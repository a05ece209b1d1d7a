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
                let start = self.used.next_multiple_of(align.max(16));
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
        let holds = |range: &Range<usize>| range.start <= offset && offset + bytes <= range.end;
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
