//! The rows of one step.

use minfer_graph::{RowCount, StepInputs, StepRows};

/// Rows to compute together, prompt rows first. Its memory is reused from step to step.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: StepRows,
    tokens: Vec<i32>,
    positions: Vec<i32>,
    cells: Vec<i32>,
    output_rows: Vec<i32>,
}

/// A token and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub token: u32,
    /// Index within the sequence.
    pub position: usize,
    /// KV cell that its key and value go to.
    pub cell: usize,
}

impl Batch {
    /// Starts over with rows of a prompt; logits are computed for the last one if `want_logits`.
    pub fn set_prompt(&mut self, rows: impl Iterator<Item = Row>, want_logits: bool) {
        self.fill(rows, want_logits);
        let prompt_rows = |count: usize| RowCount {
            prompt: count,
            generated: 0,
        };
        self.rows = StepRows {
            tokens: prompt_rows(self.tokens.len()),
            outputs: prompt_rows(self.output_rows.len()),
        };
    }

    /// Starts over with one generated row.
    pub fn set_generated(&mut self, row: Row) {
        self.fill(std::iter::once(row), true);
        let one = RowCount {
            prompt: 0,
            generated: 1,
        };
        self.rows = StepRows {
            tokens: one,
            outputs: one,
        };
    }

    fn fill(&mut self, rows: impl Iterator<Item = Row>, want_logits: bool) {
        self.tokens.clear();
        self.positions.clear();
        self.cells.clear();
        self.output_rows.clear();
        for row in rows {
            self.tokens.push(index(row.token as usize));
            self.positions.push(index(row.position));
            self.cells.push(index(row.cell));
        }
        if want_logits && let Some(last) = self.tokens.len().checked_sub(1) {
            self.output_rows.push(index(last));
        }
    }

    /// Rows by role.
    pub fn rows(&self) -> StepRows {
        self.rows
    }

    /// The batch as the executor takes it, for a causal window.
    pub fn inputs(&self) -> StepInputs<'_> {
        StepInputs {
            rows: self.rows,
            tokens: &self.tokens,
            positions: &self.positions,
            cells: &self.cells,
            output_rows: &self.output_rows,
            ..StepInputs::default()
        }
    }
}

/// An index as the graph's inputs hold it. One beyond i32 turns negative, which the step's checks refuse.
fn index(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(token: u32, position: usize) -> Row {
        Row {
            token,
            position,
            cell: position + 100,
        }
    }

    #[test]
    fn only_the_last_prompt_row_yields_logits() {
        let mut batch = Batch::default();
        batch.set_prompt([row(7, 0), row(8, 1), row(9, 2)].into_iter(), true);
        let inputs = batch.inputs();
        assert_eq!(inputs.tokens, [7, 8, 9]);
        assert_eq!(inputs.positions, [0, 1, 2]);
        assert_eq!(inputs.cells, [100, 101, 102]);
        assert_eq!(inputs.output_rows, [2]);
        assert_eq!(batch.rows().tokens.prompt, 3);
        assert_eq!(batch.rows().outputs.prompt, 1);
        assert_eq!(batch.rows().outputs.generated, 0);

        batch.set_prompt([row(7, 0)].into_iter(), false);
        assert!(batch.inputs().output_rows.is_empty());
        assert_eq!(batch.rows().outputs.total(), 0);
    }

    #[test]
    fn a_generated_row_has_its_own_role() {
        let mut batch = Batch::default();
        batch.set_prompt([row(7, 0), row(8, 1)].into_iter(), true);
        batch.set_generated(row(9, 2));
        assert_eq!(batch.inputs().tokens, [9]);
        assert_eq!(batch.inputs().output_rows, [0]);
        let generated = RowCount {
            prompt: 0,
            generated: 1,
        };
        assert_eq!(batch.rows().tokens, generated);
        assert_eq!(batch.rows().outputs, generated);
    }

    #[test]
    fn an_index_beyond_i32_is_negative() {
        assert_eq!(index(i32::MAX as usize), i32::MAX);
        assert_eq!(index(i32::MAX as usize + 1), -1);
    }
}
