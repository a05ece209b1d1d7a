//! The rows of one step.

use std::ops::Range;

use minfer_graph::{
    ArenaError, CellInputs, RowCount, SequenceId, StepInputs, StepRows, WindowLayout,
};

use crate::sequences::Sequences;
use crate::{Chunk, Role, Wanted};

/// Rows to compute together, prompt rows first. Its memory is reused from step to step.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: StepRows,
    tokens: Vec<i32>,
    places: Vec<(SequenceId, usize)>,
    cells: CellInputs,
    output_rows: Vec<i32>,
    /// Output rows of each chunk.
    outputs: Vec<Range<usize>>,
}

impl Batch {
    /// Starts over with the rows of `chunks`, which follow the computed tokens of their sequences.
    pub fn fill(&mut self, chunks: &[Chunk<'_>], sequences: &Sequences) -> Result<(), ArenaError> {
        self.tokens.clear();
        self.places.clear();
        self.output_rows.clear();
        self.outputs.clear();
        self.outputs.resize(chunks.len(), 0..0);
        self.rows = StepRows::default();
        for role in [Role::Prompt, Role::Generated] {
            for (i, chunk) in chunks.iter().enumerate().filter(|(_, c)| c.role == role) {
                let first = sequences.tokens(chunk.sequence).len();
                self.push(i, chunk, first);
            }
            let (rows, outputs) = (self.tokens.len(), self.output_rows.len());
            match role {
                Role::Prompt => {
                    self.rows.tokens.prompt = rows;
                    self.rows.outputs.prompt = outputs;
                }
                Role::Generated => {
                    self.rows.tokens.generated = rows - self.rows.tokens.prompt;
                    self.rows.outputs.generated = outputs - self.rows.outputs.prompt;
                }
            }
        }
        sequences.fill_inputs(self.places.iter().copied(), &mut self.cells)
    }

    fn push(&mut self, index: usize, chunk: &Chunk<'_>, first: usize) {
        for (position, &token) in (first..).zip(chunk.tokens) {
            self.tokens.push(to_i32(token as usize));
            self.places.push((chunk.sequence, position));
        }
        let rows = self.tokens.len();
        let start = self.output_rows.len();
        let wanted = rows - chunk.logit_rows()..rows;
        self.output_rows.extend(wanted.map(to_i32));
        self.outputs[index] = start..self.output_rows.len();
    }

    /// Tokens of the step.
    pub fn tokens(&self) -> RowCount {
        self.rows.tokens
    }

    /// The window layout that serves all rows.
    pub fn window(&self) -> WindowLayout {
        self.cells.layout()
    }

    /// Index among the step's output rows of the `row`th that `chunk` wanted.
    pub fn output_row(&self, chunk: usize, row: usize) -> Option<usize> {
        let rows = self.outputs.get(chunk)?;
        (row < rows.len()).then(|| rows.start + row)
    }

    /// No rows have outputs any more.
    pub fn forget_outputs(&mut self) {
        self.outputs.clear();
    }

    /// The batch as the executor takes it.
    pub fn inputs(&self) -> StepInputs<'_> {
        StepInputs {
            rows: self.rows,
            tokens: &self.tokens,
            positions: self.cells.positions(),
            cells: self.cells.cells(),
            window: self.cells.window(),
            output_rows: &self.output_rows,
            ..StepInputs::default()
        }
    }
}

impl Chunk<'_> {
    /// Rows of it that yield logits.
    pub(crate) fn logit_rows(&self) -> usize {
        match self.logits {
            Wanted::None => 0,
            Wanted::Last => 1.min(self.tokens.len()),
            Wanted::All => self.tokens.len(),
        }
    }
}

/// A number as the graph's inputs hold it. One beyond i32 turns negative, which the step's checks refuse.
fn to_i32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sequences of 3 and 2 computed tokens with room for more, in an arena of 16 cells.
    fn two() -> (Sequences, [SequenceId; 2]) {
        let mut sequences = Sequences::new(16).expect("a small arena");
        let ids = [3, 2].map(|len| {
            let id = sequences.create();
            sequences.append(id, len).expect("free cells");
            sequences.record(id, &[9, 9, 9][..len], Role::Prompt);
            id
        });
        for id in ids {
            sequences.append(id, 3).expect("free cells");
        }
        (sequences, ids)
    }

    fn chunk(sequence: SequenceId, tokens: &[u32], role: Role, logits: Wanted) -> Chunk<'_> {
        Chunk {
            sequence,
            tokens,
            role,
            logits,
        }
    }

    #[test]
    fn prompt_rows_come_first_and_outputs_find_their_chunk() {
        let (sequences, [a, b]) = two();
        let mut batch = Batch::default();
        let chunks = [
            chunk(a, &[7, 8], Role::Generated, Wanted::All),
            chunk(b, &[1, 2, 3], Role::Prompt, Wanted::Last),
        ];
        batch.fill(&chunks, &sequences).expect("stored positions");
        let inputs = batch.inputs();
        assert_eq!(inputs.tokens, [1, 2, 3, 7, 8]);
        assert_eq!(inputs.positions, [2, 3, 4, 3, 4]);
        assert_eq!(inputs.output_rows, [2, 3, 4]);
        let count = |prompt, generated| RowCount { prompt, generated };
        assert_eq!(inputs.rows.tokens, count(3, 2));
        assert_eq!(inputs.rows.outputs, count(1, 2));
        assert_eq!(batch.output_row(0, 0), Some(1));
        assert_eq!(batch.output_row(0, 1), Some(2));
        assert_eq!(batch.output_row(0, 2), None);
        assert_eq!(batch.output_row(1, 0), Some(0));
        assert_eq!(batch.output_row(2, 0), None);
    }

    #[test]
    fn a_chunk_without_logits_has_no_output_row() {
        let (sequences, [a, _]) = two();
        let mut batch = Batch::default();
        let chunks = [chunk(a, &[7, 8], Role::Prompt, Wanted::None)];
        batch.fill(&chunks, &sequences).expect("stored positions");
        assert!(batch.inputs().output_rows.is_empty());
        assert_eq!(batch.inputs().rows.outputs.total(), 0);
        assert_eq!(batch.output_row(0, 0), None);
    }

    #[test]
    fn a_number_beyond_i32_is_negative() {
        assert_eq!(to_i32(i32::MAX as usize), i32::MAX);
        assert_eq!(to_i32(i32::MAX as usize + 1), -1);
    }
}
