//! The last accesses to every byte.

use std::collections::HashMap;

use super::order::{Record, conflict};
use crate::report::{Kind, Severity};

/// Index of a record, plus one; 0 is none.
type RecordIndex = u32;

/// What is known about a byte. Two readers are kept, of different simdgroups where there are such: whoever
/// writes next, one of them is another thread's, and a simdgroup's own barrier does not hide the other.
#[derive(Clone, Copy, Default)]
struct Cell {
    write: RecordIndex,
    read: RecordIndex,
    other_read: RecordIndex,
}

const PAGE: usize = 1024;

/// Accesses to bytes of one memory.
#[derive(Default)]
pub(crate) struct Shadow {
    pages: HashMap<usize, Box<[Cell; PAGE]>, std::hash::BuildHasherDefault<PageHasher>>,
    records: Vec<Record>,
}

/// A conflict and the earlier access in it.
pub(crate) struct Conflict {
    pub(crate) kind: Kind,
    pub(crate) severity: Severity,
    pub(crate) before: Record,
}

impl Shadow {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        self.records.clear();
    }

    /// Records an access to the bytes from `start`; the gravest conflict with an earlier one, if any.
    pub(crate) fn access(&mut self, start: usize, record: Record) -> Option<Conflict> {
        let index = u32::try_from(self.records.len() + 1).unwrap_or(u32::MAX);
        self.records.push(record);
        let mut gravest: Option<Conflict> = None;
        let mut seen = Cell::default();
        for byte in start..start + record.bytes as usize {
            let page = self
                .pages
                .entry(byte / PAGE)
                .or_insert_with(|| Box::new([Cell::default(); PAGE]));
            let cell = &mut page[byte % PAGE];
            // Bytes of one access mostly share their history.
            let known = [cell.write, cell.read, cell.other_read]
                == [seen.write, seen.read, seen.other_read];
            if !known {
                seen = *cell;
                let reads = if record.write {
                    [cell.read, cell.other_read]
                } else {
                    [0, 0]
                };
                for earlier in [cell.write, reads[0], reads[1]] {
                    worst(&mut gravest, get(&self.records, earlier), &record);
                }
            }
            update(cell, index, &record, &self.records);
        }
        gravest
    }

    /// Whether every byte has been written.
    pub(crate) fn is_written(&self, start: usize, bytes: usize) -> bool {
        (start..start + bytes).all(|byte| {
            let page = self.pages.get(&(byte / PAGE));
            page.is_some_and(|page| page[byte % PAGE].write != 0)
        })
    }
}

fn get(records: &[Record], index: RecordIndex) -> Option<&Record> {
    records.get((index as usize).checked_sub(1)?)
}

fn worst(gravest: &mut Option<Conflict>, before: Option<&Record>, now: &Record) {
    let Some(before) = before else { return };
    let Some((kind, severity)) = conflict(before, now) else {
        return;
    };
    if gravest
        .as_ref()
        .is_none_or(|known| severity > known.severity)
    {
        *gravest = Some(Conflict {
            kind,
            severity,
            before: *before,
        });
    }
}

fn update(cell: &mut Cell, index: RecordIndex, record: &Record, records: &[Record]) {
    if record.write {
        cell.write = index;
        return;
    }
    let Some(read) = get(records, cell.read) else {
        cell.read = index;
        return;
    };
    let group = |r: &Record| (r.agent.group, r.agent.simdgroup());
    let same_thread = read.agent == record.agent;
    let same_simdgroup = group(read) == group(record);
    let other_is_foreign =
        get(records, cell.other_read).is_some_and(|other| group(other) != group(record));
    if !same_thread && !(same_simdgroup && other_is_foreign) {
        cell.other_read = cell.read;
    }
    cell.read = index;
}

/// Page numbers are spread well enough by a multiplication.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl std::hash::Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = (self.0.rotate_left(5) ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 32;
    }
}
