//! The naive model: sequences are lists of rows, rows have no place.

mod outcomes;
mod rows;

use std::collections::BTreeMap;
use std::ops::Range;

use minfer_graph::{Arena, ArenaError, CellInputs, Direction, MAX_WINDOW_RUNS, SequenceId};
pub use outcomes::Outcomes;

const CELLS: usize = 24;
const MOST_SEQUENCES: usize = 6;

/// What is in a cell: a token's row, rotated to a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    content: u64,
    position: usize,
}

/// A row of a sequence. Sequences share a row if and only if it is the same instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    content: u64,
    instance: u64,
}

#[derive(Clone, Debug, Default)]
struct Positions {
    /// By position; `None` where removed.
    rows: Vec<Option<Held>>,
    room: usize,
}
/// The arena with the rows it keeps the books for, beside what must be true of both.
pub struct Model {
    arena: Arena,
    physical: Vec<Option<Row>>,
    sequences: BTreeMap<SequenceId, Positions>,
    inputs: CellInputs,
    next: u64,
    pub outcomes: Outcomes,
}

impl Model {
    pub fn new() -> Self {
        Model {
            arena: Arena::new(CELLS).unwrap(),
            physical: vec![None; CELLS],
            sequences: BTreeMap::new(),
            inputs: CellInputs::default(),
            next: 0,
            outcomes: Outcomes::default(),
        }
    }

    fn pick(&self, index: usize) -> Option<SequenceId> {
        let count = self.sequences.len().max(1);
        self.sequences.keys().nth(index % count).copied()
    }

    fn range(&self, id: SequenceId, start: usize, tokens: usize) -> Range<usize> {
        let end = self.sequences[&id].rows.len();
        let start = start % (end + 1);
        start..start.saturating_add(tokens).min(end)
    }

    fn unique(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn owners(&self, instance: u64) -> usize {
        let rows = self
            .sequences
            .values()
            .flat_map(|s| s.rows.iter().flatten());
        rows.filter(|row| row.instance == instance).count()
    }

    fn free(&self) -> usize {
        let rows = self
            .sequences
            .values()
            .flat_map(|s| s.rows.iter().flatten());
        let mut instances: Vec<u64> = rows.map(|row| row.instance).collect();
        instances.sort_unstable();
        instances.dedup();
        let reserved: usize = self.sequences.values().map(|s| s.room).sum();
        CELLS - instances.len() - reserved
    }

    fn shared(&self, id: SequenceId, positions: Range<usize>) -> usize {
        let rows = self.sequences[&id].rows[positions].iter().flatten();
        rows.filter(|row| self.owners(row.instance) > 1).count()
    }

    /// Calls the arena. It must refuse exactly if `needed` is more than `free`, with these numbers, and then
    /// be as before.
    fn call<T: std::fmt::Debug>(
        &mut self,
        id: SequenceId,
        needed: usize,
        free: usize,
        operation: impl FnOnce(&mut Arena) -> Result<T, ArenaError>,
    ) -> Option<T> {
        let before = self.arena.clone();
        let result = operation(&mut self.arena);
        if needed <= free {
            return Some(result.unwrap());
        }
        let full = ArenaError::Full {
            sequence: id,
            needed,
            free,
            cells: CELLS,
        };
        assert_eq!(result.unwrap_err(), full);
        assert_eq!(self.arena, before, "a refused operation");
        self.outcomes.full += 1;
        None
    }

    pub fn create(&mut self) {
        if self.sequences.len() < MOST_SEQUENCES {
            let id = self.arena.create();
            assert!(self.sequences.insert(id, Positions::default()).is_none());
        }
    }

    pub fn release(&mut self, sequence: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        self.arena.release(id).unwrap();
        self.sequences.remove(&id);
        let before = self.arena.clone();
        let unknown = ArenaError::UnknownSequence { sequence: id };
        assert_eq!(self.arena.append(id, 1), Err(unknown.clone()));
        assert_eq!(self.arena.release(id), Err(unknown));
        assert_eq!(self.arena, before);
    }

    pub fn reserve(&mut self, sequence: usize, tokens: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let needed = tokens.saturating_sub(self.sequences[&id].room);
        let free = self.free();
        let done = self.call(id, needed, free, |arena| arena.reserve(id, tokens));
        if done.is_some() {
            self.sequences.get_mut(&id).unwrap().room += needed;
        }
    }

    /// A step that appends.
    pub fn append(&mut self, sequence: usize, tokens: usize) {
        let mut rows = Vec::new();
        self.append_rows(sequence, tokens, &mut rows);
        self.step(&rows);
    }

    /// Appends to two sequences by turns, and stores all the rows in one step.
    pub fn append_by_turns(&mut self, first: usize, second: usize, turns: usize) {
        let mut rows = Vec::new();
        for _ in 0..turns {
            self.append_rows(first, 1, &mut rows);
            self.append_rows(second, 1, &mut rows);
        }
        self.step(&rows);
    }

    fn append_rows(&mut self, sequence: usize, tokens: usize, rows: &mut Vec<(SequenceId, usize)>) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let room = self.sequences[&id].room;
        let needed = tokens.saturating_sub(room);
        let free = self.free();
        let done = self.call(id, needed, free, |arena| arena.append(id, tokens));
        let Some(positions) = done else { return };
        let end = self.sequences[&id].rows.len();
        assert_eq!(positions, end..end + tokens);
        for position in positions {
            let (content, instance) = (self.unique(), self.unique());
            let held = self.sequences.get_mut(&id).unwrap();
            held.rows.push(Some(Held { content, instance }));
            rows.push((id, position));
        }
        self.sequences.get_mut(&id).unwrap().room = room.saturating_sub(tokens);
    }

    /// Stores into live positions, after giving the sequence rows of its own there.
    pub fn rewrite(&mut self, sequence: usize, start: usize, tokens: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let positions = self.range(id, start, tokens);
        let (needed, free) = (self.shared(id, positions.clone()), self.free());
        if needed > 0 {
            self.refuses_shared_stores(id, positions.clone());
        }
        let unshare = |arena: &mut Arena| arena.unshare(id, positions.clone());
        let Some(edits) = self.call(id, needed, free, unshare) else {
            return;
        };
        self.own(id, positions.clone());
        self.edit(&edits);
        self.check();
        let mut rows = Vec::new();
        for position in positions {
            let content = self.unique();
            if let Some(row) = &mut self.sequences.get_mut(&id).unwrap().rows[position] {
                row.content = content;
                rows.push((id, position));
            }
        }
        self.step(&rows);
    }

    fn refuses_shared_stores(&mut self, id: SequenceId, positions: Range<usize>) {
        let live = |&position: &usize| self.sequences[&id].rows[position].is_some();
        let rows: Vec<_> = positions.filter(live).map(|p| (id, p)).collect();
        let mut inputs = std::mem::take(&mut self.inputs);
        let refused = self.arena.fill_inputs(rows, &mut inputs).unwrap_err();
        let expected = matches!(
            refused,
            ArenaError::SharedStore { .. } | ArenaError::TooManyRuns { .. }
        );
        assert!(expected, "{refused}");
        assert!(inputs.cells().is_empty() && inputs.window().is_empty());
        self.inputs = inputs;
    }

    /// New instances for the shared rows at some positions.
    fn own(&mut self, id: SequenceId, positions: Range<usize>) {
        for position in positions {
            let Some(row) = self.sequences[&id].rows[position] else {
                continue;
            };
            if self.owners(row.instance) > 1 {
                let instance = self.unique();
                let held = self.sequences.get_mut(&id).unwrap();
                held.rows[position] = Some(Held { instance, ..row });
            }
        }
    }

    pub fn remove(&mut self, sequence: usize, start: usize, tokens: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let positions = self.range(id, start, tokens);
        self.refuses_ranges_beyond_the_end(id);
        self.arena.remove(id, positions.clone()).unwrap();
        let held = self.sequences.get_mut(&id).unwrap();
        if positions.end == held.rows.len() {
            held.rows.truncate(positions.start);
            held.room = 0;
        } else {
            held.rows[positions].fill(None);
        }
    }

    pub fn thin(&mut self, sequence: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let end = self.sequences[&id].rows.len();
        for position in (1..end.saturating_sub(1)).step_by(2) {
            self.arena.remove(id, position..position + 1).unwrap();
            self.sequences.get_mut(&id).unwrap().rows[position] = None;
        }
    }

    fn refuses_ranges_beyond_the_end(&mut self, id: SequenceId) {
        let before = self.arena.clone();
        let next = self.sequences[&id].rows.len();
        let (start, end) = (next, next + 1);
        let range = Err(ArenaError::Range {
            sequence: id,
            start,
            end,
            next,
        });
        assert_eq!(self.arena.remove(id, start..end), range);
        assert!(self.arena.shift(id, start..end).is_err());
        assert!(self.arena.unshare(id, start..end).is_err());
        assert!(self.arena.share_prefix(id, end).is_err());
        assert_eq!(self.arena, before);
    }

    pub fn shift(&mut self, sequence: usize, start: usize, tokens: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let removed = self.range(id, start, tokens);
        let end = self.sequences[&id].rows.len();
        let rows = &self.sequences[&id].rows[removed.clone()];
        let gone = rows.iter().flatten().count() - self.shared(id, removed.clone());
        let moves = !removed.is_empty() && removed.end < end;
        let needed = if moves {
            self.shared(id, removed.end..end)
        } else {
            0
        };
        let free = self.free() + if moves { gone } else { 0 };
        let shift = |arena: &mut Arena| arena.shift(id, removed.clone());
        let Some(edits) = self.call(id, needed, free, shift) else {
            return;
        };
        if moves {
            self.own(id, removed.end..end);
            self.outcomes.shared_shifts += usize::from(needed > 0);
        }
        let held = self.sequences.get_mut(&id).unwrap();
        if removed.end == end {
            held.room = 0;
        }
        held.rows.drain(removed);
        self.edit(&edits);
    }

    pub fn share(&mut self, sequence: usize, tokens: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        if self.sequences.len() == MOST_SEQUENCES {
            return;
        }
        let rows = &self.sequences[&id].rows;
        let rows = rows[..tokens % (rows.len() + 1)].to_vec();
        let child = self.arena.share_prefix(id, rows.len()).unwrap();
        let held = Positions { rows, room: 0 };
        assert!(self.sequences.insert(child, held).is_none());
    }

    pub fn compact(&mut self, down: bool) {
        let direction = if down { Direction::Down } else { Direction::Up };
        let edits = self.arena.compact(direction);
        self.edit(&edits);
        let used = CELLS - self.free();
        for cell in 0..CELLS {
            let packed = if down {
                cell < used
            } else {
                cell >= CELLS - used
            };
            assert_eq!(self.arena.owners(cell) > 0, packed, "cell {cell}");
        }
    }

    pub fn defragment(&mut self, sequence: usize) {
        let Some(id) = self.pick(sequence) else {
            return;
        };
        let before = self.arena.clone();
        let runs_before = before.window_runs(id).unwrap();
        match self.arena.defragment(id) {
            Ok(edits) => {
                self.outcomes.gathered += usize::from(!edits.is_empty());
                self.outcomes.gathered_too_many += usize::from(runs_before > MAX_WINDOW_RUNS);
                self.note_unshared(id);
                self.edit(&edits);
                for &other in self.sequences.keys() {
                    let runs = self.arena.window_runs(other).unwrap();
                    let most = before.window_runs(other).unwrap().max(MAX_WINDOW_RUNS);
                    assert!(runs <= if other == id { MAX_WINDOW_RUNS } else { most });
                }
            }
            Err(error) => {
                assert!(runs_before > MAX_WINDOW_RUNS, "{error}");
                // With a free cell beyond the copies there is always a way.
                assert!(self.shared_anywhere(id) >= self.free(), "{error}");
                assert_eq!(self.arena, before, "a refused operation");
                self.outcomes.refused_gathers += 1;
            }
        }
    }

    fn shared_anywhere(&self, id: SequenceId) -> usize {
        self.shared(id, 0..self.sequences[&id].rows.len())
    }

    /// Defragmentation may have copied the sequence's shared rows: all or none.
    fn note_unshared(&mut self, id: SequenceId) {
        let end = self.sequences[&id].rows.len();
        let shared = |position: &usize| {
            let cell = self.arena.cell(id, *position).unwrap();
            cell.is_some_and(|cell| self.arena.owners(cell) > 1)
        };
        if self.shared_anywhere(id) > 0 && (0..end).filter(shared).count() == 0 {
            self.own(id, 0..end);
            self.outcomes.unsharing_gathers += 1;
        }
    }
}
