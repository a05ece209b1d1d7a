//! The last accesses to every byte.

use std::collections::HashMap;

use super::order::{Record, conflict};
use crate::report::{Kind, Severity};

/// Index of a record, plus one; 0 is none.
type RecordIndex = u32;

/// What is known about a byte. Two readers are kept, as far apart as there are: whoever writes next, one
/// of them is another thread's, if possible of another simdgroup or threadgroup, whose barriers it does not share.
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
    let far =
        |reader: RecordIndex| get(records, reader).map_or(0, |before| distance(before, record));
    if far(cell.read) >= far(cell.other_read) {
        cell.other_read = cell.read;
    }
    cell.read = index;
}

/// How much a reader adds to what a later one already says: whoever is ordered with fewer writers adds more.
fn distance(before: &Record, now: &Record) -> u32 {
    let (then, here) = (before.agent, now.agent);
    if then.group != here.group {
        return 3;
    }
    if then == here || before.epochs.threadgroup.fences < now.epochs.threadgroup.fences {
        return 0;
    }
    1 + u32::from(then.simdgroup() != here.simdgroup())
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

#[cfg(test)]
mod tests {
    use super::super::order::{Agent, Epochs};
    use super::*;

    fn record(group: u32, thread: u32, write: bool) -> Record {
        Record {
            agent: Agent { group, thread },
            pc: 0,
            bytes: 4,
            write,
            atomic: false,
            epochs: Epochs::default(),
            step: u64::from(group * 1024 + thread),
            lanes: 0,
        }
    }

    fn fenced(mut record: Record) -> Record {
        record.epochs.threadgroup.pass(true);
        record
    }

    /// Agent of the access that a write conflicts with, after the given accesses to 4 bytes at 64.
    fn conflict_after(earlier: &[Record], at: usize, write: Record) -> Option<(u32, u32)> {
        let mut shadow = Shadow::default();
        for record in earlier {
            assert!(shadow.access(64, *record).is_none());
        }
        let conflict = shadow.access(at, write)?;
        Some((conflict.before.agent.group, conflict.before.agent.thread))
    }

    #[test]
    fn accesses_conflict_on_shared_bytes_only() {
        let read = [record(0, 0, false)];
        assert_eq!(conflict_after(&read, 64, record(0, 40, true)), Some((0, 0)));
        assert_eq!(conflict_after(&read, 67, record(0, 40, true)), Some((0, 0)));
        assert_eq!(conflict_after(&read, 68, record(0, 40, true)), None);
        assert_eq!(conflict_after(&read, 60, record(0, 40, true)), None);
    }

    #[test]
    fn a_reader_of_another_simdgroup_is_not_forgotten() {
        let reads = [
            record(0, 32, false),
            record(0, 0, false),
            record(0, 1, false),
            record(0, 2, false),
        ];
        let mut write = record(0, 2, true);
        write.epochs.simdgroup.pass(true);
        assert_eq!(conflict_after(&reads, 64, write), Some((0, 32)));
    }

    #[test]
    fn a_reader_of_another_threadgroup_is_not_forgotten() {
        let reads = [
            record(0, 0, false),
            record(1, 0, false),
            record(1, 32, false),
            record(1, 64, false),
        ];
        assert_eq!(
            conflict_after(&reads, 64, fenced(record(1, 64, true))),
            Some((0, 0))
        );
    }

    #[test]
    fn a_reader_before_a_barrier_makes_room_for_one_after() {
        let reads = [
            record(0, 32, false),
            fenced(record(0, 0, false)),
            fenced(record(0, 1, false)),
        ];
        assert_eq!(
            conflict_after(&reads, 64, fenced(record(0, 1, true))),
            Some((0, 0))
        );
    }

    #[test]
    fn bytes_are_written_one_by_one() {
        let mut shadow = Shadow::default();
        let mut write = record(0, 0, true);
        write.bytes = 2;
        shadow.access(1023, write);
        assert!(shadow.is_written(1023, 2));
        assert!(!shadow.is_written(1023, 3));
        assert!(!shadow.is_written(1022, 1));
    }
}
