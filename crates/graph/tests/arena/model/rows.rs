//! Applying edits and steps to the rows, and what must be true of rows and arena.

use std::collections::BTreeMap;

use minfer_graph::{ArenaError, CellInputs, MAX_WINDOW_RUNS, RowEdit, SequenceId, WindowLayout};

use super::{CELLS, Held, Model, Row};

impl Model {
    /// Applies edits to the rows.
    pub(super) fn edit(&mut self, edits: &[RowEdit]) {
        for &edit in edits {
            match edit {
                RowEdit::Copy(copy) => {
                    let overlaps = copy.from.abs_diff(copy.to) < copy.len;
                    self.outcomes.copies += 1;
                    self.outcomes.overlapping_down += usize::from(overlaps && copy.to < copy.from);
                    self.outcomes.overlapping_up += usize::from(overlaps && copy.to > copy.from);
                    for (from, to) in copy.rows() {
                        self.physical[to] = self.physical[from];
                    }
                }
                RowEdit::Rotate(rotation) => {
                    self.outcomes.rotations += 1;
                    for row in &mut self.physical[rotation.cell..][..rotation.len] {
                        row.as_mut().unwrap().position -= rotation.by;
                    }
                }
            }
        }
    }

    /// Runs a step that stores the rows' contents, and checks what each of them sees.
    pub(super) fn step(&mut self, rows: &[(SequenceId, usize)]) {
        let mut inputs = std::mem::take(&mut self.inputs);
        let runs = rows.iter().map(|&(id, p)| count_runs(&self.window(id, p)));
        let most_runs = runs.max().unwrap_or(0);
        let filled = self.arena.fill_inputs(rows.iter().copied(), &mut inputs);
        match filled {
            Ok(()) => assert!(most_runs <= MAX_WINDOW_RUNS),
            Err(ArenaError::TooManyRuns { runs, limit, .. }) => {
                assert!(runs > limit && limit == MAX_WINDOW_RUNS && most_runs >= runs);
                assert!(inputs.cells().is_empty());
                self.outcomes.too_many_runs += 1;
            }
            Err(error) => panic!("{error}"),
        }
        for (i, &(id, position)) in rows.iter().enumerate() {
            let cell = self.arena.cell(id, position).unwrap().unwrap();
            let content = self.sequences[&id].rows[position].unwrap().content;
            self.physical[cell] = Some(Row { content, position });
            if filled.is_ok() {
                assert_eq!(inputs.cells()[i], cell as i32);
                assert_eq!(inputs.positions()[i], position as i32);
            }
        }
        if filled.is_ok() && !rows.is_empty() {
            self.check_windows(rows, &inputs);
        }
        self.inputs = inputs;
    }

    /// Cells of the live positions up to one, by asking for each alone.
    fn window(&self, id: SequenceId, position: usize) -> Vec<usize> {
        let cells = (0..=position).filter_map(|p| self.arena.cell(id, p).unwrap());
        cells.collect()
    }

    fn check_windows(&mut self, rows: &[(SequenceId, usize)], inputs: &CellInputs) {
        let layout = inputs.layout();
        let width = layout.input_width();
        assert_eq!(inputs.window().len(), width * rows.len());
        let mut smallest = WindowLayout::Causal;
        for (i, &(id, position)) in rows.iter().enumerate() {
            let query = &inputs.window()[i * width..][..width];
            let cells = expand(layout, position, query);
            let seen: Vec<_> = cells
                .iter()
                .map(|&cell| self.physical[cell].unwrap())
                .collect();
            let held = self.sequences[&id].rows[..=position].iter().enumerate();
            let live = held.filter_map(|(position, row)| {
                let content = row.as_ref()?.content;
                Some(Row { content, position })
            });
            assert_eq!(seen, live.collect::<Vec<_>>(), "{id}, position {position}");
            let needed = match count_runs(&cells) {
                1 if cells.iter().copied().eq(0..=position) => WindowLayout::Causal,
                1 => WindowLayout::Span,
                _ => WindowLayout::Map,
            };
            if needed.input_width() > smallest.input_width() {
                smallest = needed;
            }
        }
        assert_eq!(layout, smallest);
        match layout {
            WindowLayout::Causal => {
                assert!(rows.iter().all(|row| row.0 == rows[0].0), "one sequence");
                self.outcomes.causal += 1;
            }
            WindowLayout::Span => self.outcomes.span += 1,
            WindowLayout::Map => self.outcomes.map += 1,
        }
    }

    /// Everything that is always true.
    pub fn check(&self) {
        assert!(self.arena.sequences().eq(self.sequences.keys().copied()));
        assert_eq!(self.arena.free(), self.free());
        // Who has a cell, and as which instance; a reserved cell as none.
        let mut owners: Vec<Vec<Option<u64>>> = vec![Vec::new(); CELLS];
        for (&id, held) in &self.sequences {
            assert_eq!(self.arena.end(id), Ok(held.rows.len()));
            assert_eq!(self.arena.room(id), Ok(held.room));
            let runs = self.arena.runs(id).unwrap();
            let mut cells: BTreeMap<usize, usize> = BTreeMap::new();
            for run in runs {
                for (position, cell) in run.positions().zip(run.cells()) {
                    assert!(
                        cells.insert(position, cell).is_none(),
                        "{id} {position} twice"
                    );
                }
            }
            let end = held.rows.len() + held.room;
            assert!(cells.keys().all(|&position| position < end));
            for position in 0..end {
                let cell = cells.get(&position).copied();
                let row = held.rows.get(position).copied();
                let live = row.flatten();
                assert_eq!(
                    cell.is_some(),
                    live.is_some() || row.is_none(),
                    "{id} {position}"
                );
                assert_eq!(self.arena.cell(id, position), Ok(live.and(cell)));
                let Some(cell) = cell else { continue };
                owners[cell].push(live.map(|row| row.instance));
                let Some(Held { content, .. }) = live else {
                    continue;
                };
                let row = Row { content, position };
                assert_eq!(self.physical[cell], Some(row), "{id}, position {position}");
            }
        }
        for (cell, owners) in owners.iter().enumerate() {
            assert_eq!(self.arena.owners(cell), owners.len(), "cell {cell}");
            let shared = owners
                .iter()
                .all(|owner| owner.is_some() && *owner == owners[0]);
            assert!(owners.len() <= 1 || shared, "cell {cell}: {owners:?}");
        }
    }
}

fn count_runs(cells: &[usize]) -> usize {
    cells.chunk_by(|a, b| a + 1 == *b).count()
}

/// The cells a backend reads for a window.
fn expand(layout: WindowLayout, position: usize, query: &[i32]) -> Vec<usize> {
    match layout {
        WindowLayout::Causal => (0..=position).collect(),
        WindowLayout::Span => (query[0] as usize..query[1] as usize).collect(),
        WindowLayout::Map => {
            let runs = query
                .chunks_exact(2)
                .map(|run| (run[0] as usize, run[1] as usize));
            runs.flat_map(|(first, len)| first..first + len).collect()
        }
    }
}
