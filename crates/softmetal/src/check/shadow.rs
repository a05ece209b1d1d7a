//! The last accesses to every byte.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use super::order::{Record, conflict};
use crate::report::{Kind, Severity};

/// Index of a record, plus one; 0 is none.
type RecordIndex = u32;

/// What is known about a byte. Two readers are kept, as far apart as there are: whoever writes next, one
/// of them is another thread's, if possible of another simdgroup or threadgroup, whose barriers it does not share.
/// Of atomic writes, which nothing orders with each other, there are two in the same way.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Cell {
    write: RecordIndex,
    other_write: RecordIndex,
    read: RecordIndex,
    other_read: RecordIndex,
}

impl Cell {
    fn records(&mut self) -> [&mut RecordIndex; 4] {
        let Cell {
            write,
            other_write,
            read,
            other_read,
        } = self;
        [write, other_write, read, other_read]
    }
}

const PAGE: usize = 1024;
/// Bytes that share a cell as long as nobody accesses a part of them.
const WORD: usize = 4;
/// Records that are kept without asking whether a cell still refers to them.
const RECORDS: usize = 1 << 16;

/// The cells of neighbouring bytes.
struct Page {
    cells: Vec<Cell>,
    /// Bytes per cell: a word or one.
    unit: usize,
}

impl Page {
    fn new() -> Self {
        Page {
            cells: vec![Cell::default(); PAGE / WORD],
            unit: WORD,
        }
    }

    /// The cells of bytes of the page, and of no others.
    fn cells(&mut self, bytes: Range<usize>) -> &mut [Cell] {
        let is_whole = bytes.start.is_multiple_of(WORD) && bytes.end.is_multiple_of(WORD);
        if !is_whole && self.unit == WORD {
            let words = self.cells.iter();
            self.cells = words.flat_map(|word| [*word; WORD]).collect();
            self.unit = 1;
        }
        &mut self.cells[bytes.start / self.unit..bytes.end / self.unit]
    }

    fn is_written(&self, bytes: Range<usize>) -> bool {
        let cells = &self.cells[bytes.start / self.unit..bytes.end.div_ceil(self.unit)];
        cells.iter().all(|cell| cell.write != 0)
    }
}

/// Accesses to bytes of one memory.
pub(crate) struct Shadow {
    pages: Vec<Page>,
    /// Places in `pages` by page number.
    places: HashMap<usize, usize, BuildHasherDefault<PageHasher>>,
    /// The page that was looked up last.
    last: Option<(usize, usize)>,
    records: Vec<Record>,
    /// Number of records at which those that no cell refers to are dropped.
    limit: usize,
}

impl Default for Shadow {
    fn default() -> Self {
        Shadow {
            pages: Vec::new(),
            places: HashMap::default(),
            last: None,
            records: Vec::new(),
            limit: RECORDS,
        }
    }
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
        self.places.clear();
        self.last = None;
        self.records.clear();
    }

    /// Records an access to the bytes from `start`; the gravest conflict with an earlier one, if any.
    pub(crate) fn access(&mut self, start: usize, record: Record) -> Option<Conflict> {
        if self.records.len() >= self.limit {
            self.compact(record.agent.group);
        }
        self.records.push(record);
        let index = self.records.len() as RecordIndex;
        let mut gravest: Option<Conflict> = None;
        let mut seen = Cell::default();
        for (number, bytes) in parts(start, record.bytes as usize) {
            let place = self.place_or_new(number);
            for cell in self.pages[place].cells(bytes) {
                // Bytes of one access mostly share their history.
                if *cell != seen {
                    seen = *cell;
                    let reads = match record.write {
                        true => [cell.read, cell.other_read],
                        false => [0, 0],
                    };
                    for earlier in [cell.write, cell.other_write, reads[0], reads[1]] {
                        worst(&mut gravest, get(&self.records, earlier), &record);
                    }
                }
                update(cell, index, &record, &self.records);
            }
        }
        gravest
    }

    /// Whether every byte has been written.
    pub(crate) fn is_written(&mut self, start: usize, bytes: usize) -> bool {
        parts(start, bytes).all(|(number, bytes)| {
            let place = self.place(number);
            place.is_some_and(|place| self.pages[place].is_written(bytes))
        })
    }

    fn place(&mut self, number: usize) -> Option<usize> {
        if let Some((last, place)) = self.last
            && last == number
        {
            return Some(place);
        }
        let place = *self.places.get(&number)?;
        self.last = Some((number, place));
        Some(place)
    }

    fn place_or_new(&mut self, number: usize) -> usize {
        if let Some(place) = self.place(number) {
            return place;
        }
        self.pages.push(Page::new());
        self.places.insert(number, self.pages.len() - 1);
        self.pages.len() - 1
    }

    /// Drops records that no cell refers to. Of those of threadgroups that have ended, all that a report would not
    /// tell apart become one: nothing orders them with `group`, whatever barriers they passed.
    fn compact(&mut self, group: u32) {
        let mut moved: Vec<RecordIndex> = vec![0; self.records.len()];
        let mut kept: Vec<Record> = Vec::new();
        let mut ended: HashMap<_, RecordIndex> = HashMap::new();
        for cell in self.pages.iter_mut().flat_map(|page| &mut page.cells) {
            for index in cell.records() {
                let Some(old) = (*index as usize).checked_sub(1) else {
                    continue;
                };
                if moved[old] == 0 {
                    let record = self.records[old];
                    let mut keep = || {
                        kept.push(record);
                        kept.len() as RecordIndex
                    };
                    moved[old] = match record.agent.group == group {
                        true => keep(),
                        false => *ended.entry(record.reported()).or_insert_with(keep),
                    };
                }
                *index = moved[old];
            }
        }
        self.limit = (2 * kept.len()).max(RECORDS);
        self.records = kept;
    }
}

/// Numbers of the pages that some bytes lie in, and which bytes of each they are.
fn parts(start: usize, bytes: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    let end = start + bytes;
    (start / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let first = number * PAGE;
        (
            number,
            start.max(first) - first..end.min(first + PAGE) - first,
        )
    })
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
    let far = |earlier| get(records, earlier).map_or(0, |before| distance(before, record));
    if !record.write {
        if far(cell.read) >= far(cell.other_read) {
            cell.other_read = cell.read;
        }
        cell.read = index;
        return;
    }
    let is_atomic = |earlier| get(records, earlier).is_some_and(|before| before.atomic);
    if !record.atomic {
        cell.other_write = 0;
    } else if is_atomic(cell.write) && far(cell.write) >= far(cell.other_write) {
        cell.other_write = cell.write;
    }
    cell.write = index;
}

/// How much an access adds to what a later one already says: whoever is ordered with fewer others adds more.
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
    fn a_part_of_a_word_is_its_own() {
        let mut half = record(0, 1, true);
        half.bytes = 2;
        let earlier = [record(0, 0, false)];
        assert_eq!(conflict_after(&earlier, 66, half), Some((0, 0)));
        let mut shadow = Shadow::default();
        assert!(shadow.access(64, half).is_none());
        assert!(shadow.is_written(64, 2) && !shadow.is_written(64, 4));
        half.agent.thread = 2;
        assert!(shadow.access(66, half).is_none());
        assert!(shadow.is_written(64, 4));
        half.agent.thread = 3;
        let conflict = shadow.access(66, half).unwrap();
        assert_eq!(conflict.before.agent.thread, 2);
    }

    #[test]
    fn an_atomic_write_of_another_thread_is_not_forgotten() {
        let atomic = |group, thread| Record {
            atomic: true,
            ..record(group, thread, true)
        };
        let writes = [atomic(0, 32), atomic(0, 1), atomic(0, 0), atomic(0, 0)];
        assert_eq!(
            conflict_after(&writes, 64, record(0, 0, false)),
            Some((0, 32))
        );
        let ordered = fenced(record(0, 0, true));
        assert_eq!(conflict_after(&writes, 64, ordered), None);
        let all = [&writes[..], &[ordered]].concat();
        assert_eq!(conflict_after(&all, 64, fenced(record(0, 0, false))), None);
    }

    #[test]
    fn accesses_that_others_replaced_take_no_memory() {
        let mut shadow = Shadow::default();
        for time in 0..10 * RECORDS {
            let mut write = record(1, 0, true);
            write.step = time as u64;
            assert!(shadow.access(64 + time % 1024 * 4, write).is_none());
        }
        assert!(shadow.records.len() <= RECORDS);
        let conflict = shadow.access(128, record(1, 1, false)).unwrap();
        let last = (0..10 * RECORDS).rfind(|time| time % 1024 == 16);
        assert_eq!(conflict.before.step, last.unwrap() as u64);
    }

    #[test]
    fn ended_threadgroups_keep_one_access_per_thread_and_instruction() {
        let mut shadow = Shadow::default();
        let words = 4 * RECORDS;
        for word in 0..words {
            let mut write = record((word / 32_768) as u32, (word % 64) as u32, true);
            write.step = word as u64;
            assert!(shadow.access(word * 4, write).is_none());
        }
        shadow.compact(8);
        assert_eq!(shadow.records.len(), words / 32_768 * 64);
        let conflict = shadow.access(40_000 * 4, record(8, 0, false)).unwrap();
        let before = conflict.before.agent;
        assert_eq!((before.group, before.thread), (1, 40_000 % 64));
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
