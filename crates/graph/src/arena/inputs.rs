//! Step inputs for rows of several sequences.

use super::{Arena, ArenaError, Sequence, SequenceId};
use crate::ir::{MAX_WINDOW_RUNS, WindowLayout};

/// Where the rows of a step are and what they see: the values of the inputs of the same names in
/// [`crate::StepInputs`]. Its memory is reused from step to step.
#[derive(Clone, Debug)]
pub struct CellInputs {
    positions: Vec<i32>,
    cells: Vec<i32>,
    window: Vec<i32>,
    layout: WindowLayout,
}

impl Default for CellInputs {
    fn default() -> Self {
        CellInputs::with_capacity(0)
    }
}

impl CellInputs {
    /// Inputs that take up to `rows` rows without allocating.
    pub fn with_capacity(rows: usize) -> Self {
        CellInputs {
            positions: Vec::with_capacity(rows),
            cells: Vec::with_capacity(rows),
            window: Vec::with_capacity(rows * WindowLayout::Map.input_width()),
            layout: WindowLayout::Causal,
        }
    }

    /// Position of each row in its sequence.
    pub fn positions(&self) -> &[i32] {
        &self.positions
    }

    /// Cell of each row.
    pub fn cells(&self) -> &[i32] {
        &self.cells
    }

    /// Window of each row in [`CellInputs::layout`].
    pub fn window(&self) -> &[i32] {
        &self.window
    }

    /// The smallest layout that serves all rows.
    pub fn layout(&self) -> WindowLayout {
        self.layout
    }

    fn clear(&mut self) {
        self.positions.clear();
        self.cells.clear();
        self.window.clear();
        self.layout = WindowLayout::Causal;
    }

    /// Adds a row; its window in the `map` layout, whatever the others need.
    fn push(
        &mut self,
        arena: &Arena,
        sequence: SequenceId,
        position: usize,
    ) -> Result<(), ArenaError> {
        let held = arena.get(sequence)?;
        let Some(cell) = held.cell(position) else {
            return Err(ArenaError::Vacant {
                sequence,
                position,
                next: held.end(),
            });
        };
        let owners = arena.owners(cell);
        if owners > 1 {
            return Err(ArenaError::SharedStore {
                sequence,
                position,
                cell,
                owners,
            });
        }
        let window = Window::of(held, position);
        if window.runs > MAX_WINDOW_RUNS {
            return Err(ArenaError::TooManyRuns {
                sequence,
                position,
                runs: window.runs,
                limit: MAX_WINDOW_RUNS,
            });
        }
        self.positions.push(index(position));
        self.cells.push(index(cell));
        self.window.extend(window.map.as_flattened());
        self.layout = wider(self.layout, window.layout(position));
        Ok(())
    }

    /// Rewrites the windows from the `map` layout to the one all rows can have.
    fn narrow(&mut self) {
        let width = self.layout.input_width();
        if self.layout == WindowLayout::Span {
            for row in 0..self.cells.len() {
                let map = row * WindowLayout::Map.input_width();
                let (first, len) = (self.window[map], self.window[map + 1]);
                self.window[row * width] = first;
                self.window[row * width + 1] = first + len;
            }
        }
        self.window.truncate(self.cells.len() * width);
    }
}

impl Arena {
    /// Writes the inputs of a step that stores `rows`, each a live position of a sequence. A row sees the
    /// live positions of its sequence up to its own. On an error `inputs` is empty.
    ///
    /// # Errors
    /// An unknown sequence, a position without a row, a row that is shared (see [`Arena::unshare`]), or a
    /// window of more than [`MAX_WINDOW_RUNS`] runs (see [`Arena::defragment`]).
    pub fn fill_inputs(
        &self,
        rows: impl IntoIterator<Item = (SequenceId, usize)>,
        inputs: &mut CellInputs,
    ) -> Result<(), ArenaError> {
        inputs.clear();
        for (sequence, position) in rows {
            if let Err(error) = inputs.push(self, sequence, position) {
                inputs.clear();
                return Err(error);
            }
        }
        inputs.narrow();
        Ok(())
    }
}

/// The window of one row.
struct Window {
    /// `(first cell, length)` of the first runs; the rest of length 0.
    map: [[i32; 2]; MAX_WINDOW_RUNS],
    /// All its runs.
    runs: usize,
}

impl Window {
    fn of(held: &Sequence, position: usize) -> Window {
        let mut map = [[0; 2]; MAX_WINDOW_RUNS];
        let mut runs = 0;
        for (cell, len) in held.window(0..position + 1) {
            if let Some(run) = map.get_mut(runs) {
                *run = [index(cell), index(len)];
            }
            runs += 1;
        }
        Window { map, runs }
    }

    /// The smallest layout that holds it.
    fn layout(&self, position: usize) -> WindowLayout {
        match self.map[0] {
            _ if self.runs > 1 => WindowLayout::Map,
            [0, len] if len == index(position + 1) => WindowLayout::Causal,
            _ => WindowLayout::Span,
        }
    }
}

fn wider(a: WindowLayout, b: WindowLayout) -> WindowLayout {
    if a.input_width() < b.input_width() {
        b
    } else {
        a
    }
}

/// Cells and positions are below `i32::MAX`, see [`super::LIMIT`].
fn index(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
