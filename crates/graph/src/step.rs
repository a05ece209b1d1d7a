//! The values a caller supplies for one step, and their checks.

use crate::backend::{RowCount, StepRows};
use crate::error::GraphError;
use crate::ir::{Graph, GraphParams, Input, MAX_WINDOW_RUNS, Op, WindowLayout};
use crate::kv::KvRegions;
use crate::weights::WeightCatalog;

/// Inputs of one step. A slice that the graph has no input for is ignored.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepInputs<'a> {
    /// Tokens and output rows of this step. A row's role selects its arithmetic, so the output row of
    /// a prompt token is a prompt row, that of a generated token a generated one.
    pub rows: StepRows,
    /// Token ids, prompt tokens first.
    pub tokens: &'a [i32],
    /// Position of each token within its sequence.
    pub positions: &'a [i32],
    /// KV cell of each token; no two alike.
    pub cells: &'a [i32],
    /// Window of each token, [`WindowLayout::input_width`] values each.
    pub window: &'a [i32],
    /// Index of the token of each output row.
    pub output_rows: &'a [i32],
    /// Values of the activation inputs by number, row after row.
    pub activations: &'a [&'a [f32]],
}

impl<'a> StepInputs<'a> {
    /// Bytes of an input in the element order of its node.
    pub(crate) fn bytes(&self, input: Input) -> &'a [u8] {
        match input {
            Input::Tokens => bytemuck::cast_slice(self.tokens),
            Input::Positions => bytemuck::cast_slice(self.positions),
            Input::Cells => bytemuck::cast_slice(self.cells),
            Input::Window => bytemuck::cast_slice(self.window),
            Input::OutputRows => bytemuck::cast_slice(self.output_rows),
            Input::Activations(n) => {
                let values = self.activations.get(n as usize).copied();
                bytemuck::cast_slice(values.unwrap_or_default())
            }
        }
    }
}

/// Bounds on the values of a plan's inputs.
#[derive(Clone, Debug)]
pub(crate) struct StepLimits {
    max_tokens: usize,
    max_outputs: usize,
    /// No prompt rows.
    generated_only: bool,
    /// Rows of the smallest table that is indexed by tokens.
    vocabulary: usize,
    /// Cells of the smallest KV region; `None` without KV.
    cells: Option<usize>,
    /// Input nodes of the graph.
    inputs: Vec<usize>,
    window: WindowLayout,
}

impl StepLimits {
    pub fn new(
        graph: &Graph,
        params: &GraphParams,
        catalog: &WeightCatalog,
        kv: &KvRegions,
    ) -> Self {
        let is_tokens = |op: &Op| matches!(op, Op::Input(Input::Tokens));
        let tables = graph.nodes.iter().filter_map(|node| match node.op {
            Op::Embed { weight } if is_tokens(&graph.node(node.inputs[0]).op) => {
                let info = catalog.get(graph.weight_name(weight))?;
                Some(info.dim(1))
            }
            _ => None,
        });
        let layers = graph.nodes.iter().filter_map(|node| node.op.kv_layer());
        let regions = layers.filter_map(|layer| kv.layout().layer(layer));
        let nodes = graph.nodes.iter().enumerate();
        StepLimits {
            max_tokens: params.max_tokens,
            max_outputs: params.max_outputs,
            generated_only: params.generated_only,
            vocabulary: tables.min().unwrap_or(usize::MAX),
            cells: regions.map(|shape| shape.cells).min(),
            inputs: nodes
                .filter(|(_, node)| matches!(node.op, Op::Input(_)))
                .map(|(i, _)| i)
                .collect(),
            window: params.window,
        }
    }

    /// Cells of the KV regions, 0 without.
    pub fn cells(&self) -> usize {
        self.cells.unwrap_or(0)
    }

    /// Rows of the largest step.
    pub fn full_step(&self) -> StepRows {
        let all = |rows| match self.generated_only {
            true => RowCount {
                prompt: 0,
                generated: rows,
            },
            false => RowCount {
                prompt: rows,
                generated: 0,
            },
        };
        StepRows {
            tokens: all(self.max_tokens),
            outputs: all(self.max_outputs),
        }
    }

    /// Checks everything a step supplies. `seen` has a mark per KV cell, unset between
    /// calls.
    pub fn check(
        &self,
        graph: &Graph,
        step: &StepInputs<'_>,
        seen: &mut [bool],
    ) -> Result<(), GraphError> {
        self.check_rows(step.rows)?;
        for &i in &self.inputs {
            let node = &graph.nodes[i];
            let Op::Input(input) = node.op else { continue };
            let expected = node.width * step.rows.of(node.rows).total();
            let found = step.bytes(input).len() / node.dtype.bytes();
            if found != expected {
                return Err(GraphError::InputLength {
                    input: node.name.clone(),
                    found,
                    expected,
                });
            }
            match input {
                Input::Tokens => self.check_tokens(step.tokens)?,
                Input::Positions => self.check_positions(step.positions)?,
                Input::Cells => self.check_cells(step.cells, seen)?,
                Input::Window => self.check_window(step.window)?,
                Input::OutputRows => check_output_rows(step)?,
                Input::Activations(_) => {}
            }
        }
        Ok(())
    }

    fn check_rows(&self, rows: StepRows) -> Result<(), GraphError> {
        let tokens = rows.tokens.total();
        if tokens == 0 || tokens > self.max_tokens {
            return Err(GraphError::StepRows {
                what: "token",
                rows: tokens,
                least: 1,
                capacity: self.max_tokens,
            });
        }
        let outputs = rows.outputs.total();
        if outputs > self.max_outputs {
            return Err(GraphError::StepRows {
                what: "output",
                rows: outputs,
                least: 0,
                capacity: self.max_outputs,
            });
        }
        let prompts = [
            ("token", rows.tokens.prompt),
            ("output", rows.outputs.prompt),
        ];
        match prompts.into_iter().find(|(_, rows)| *rows > 0) {
            Some((what, rows)) if self.generated_only => Err(GraphError::PromptRows { what, rows }),
            _ => Ok(()),
        }
    }

    fn check_tokens(&self, tokens: &[i32]) -> Result<(), GraphError> {
        let reason = || format!("is outside the vocabulary of {}", self.vocabulary);
        check_below("tokens", tokens, self.vocabulary, reason)
    }

    /// A causal query reads the cells up to its position, so the position must be one.
    fn check_positions(&self, positions: &[i32]) -> Result<(), GraphError> {
        let causal = self.window == WindowLayout::Causal;
        match self.cells.filter(|_| causal) {
            Some(cells) => {
                let reason = || format!("is outside the {cells} cells of a causal window");
                check_below("positions", positions, cells, reason)
            }
            None => check_below("positions", positions, usize::MAX, || "is negative".into()),
        }
    }

    fn check_cells(&self, cells: &[i32], seen: &mut [bool]) -> Result<(), GraphError> {
        let count = self.cells.unwrap_or(usize::MAX);
        let reason = || format!("is outside the KV region of {count} cells");
        check_below("cells", cells, count, reason)?;
        let mut twice = None;
        for (row, &cell) in cells.iter().enumerate() {
            if let Some(mark) = seen.get_mut(cell as usize)
                && std::mem::replace(mark, true)
            {
                twice = Some((row, cell));
                break;
            }
        }
        for &cell in cells {
            if let Some(mark) = seen.get_mut(cell as usize) {
                *mark = false;
            }
        }
        match twice {
            None => Ok(()),
            Some((row, cell)) => Err(invalid("cells", row, cell, "is stored to twice".into())),
        }
    }

    fn check_window(&self, window: &[i32]) -> Result<(), GraphError> {
        let cells = self.cells.unwrap_or(usize::MAX);
        let width = self.window.input_width().max(1);
        for (row, query) in window.chunks_exact(width).enumerate() {
            let valid = match self.window {
                WindowLayout::Causal => true,
                WindowLayout::Span => is_run(query[0], query[1].checked_sub(query[0]), cells),
                WindowLayout::Map => is_map(query, cells),
            };
            if !valid {
                let reason = match self.window {
                    WindowLayout::Map => {
                        format!("is not 1 to {MAX_WINDOW_RUNS} runs within {cells} cells")
                    }
                    _ => format!("is not a range within {cells} cells"),
                };
                return Err(invalid("window", row, format!("{query:?}"), reason));
            }
        }
        Ok(())
    }
}

/// `len` cells from `first`, at least one, all below `cells`.
fn is_run(first: i32, len: Option<i32>, cells: usize) -> bool {
    let (Ok(first), Some(Ok(len))) = (usize::try_from(first), len.map(usize::try_from)) else {
        return false;
    };
    len > 0 && first.checked_add(len).is_some_and(|end| end <= cells)
}

fn is_map(runs: &[i32], cells: usize) -> bool {
    let valid = |run: &[i32]| run[1] == 0 || is_run(run[0], Some(run[1]), cells);
    runs.chunks_exact(2).all(valid) && runs.chunks_exact(2).any(|run| run[1] > 0)
}

fn check_output_rows(step: &StepInputs<'_>) -> Result<(), GraphError> {
    let StepRows { tokens, outputs } = step.rows;
    let total = tokens.total();
    let reason = || format!("is not one of the step's {total} tokens");
    check_below("output_rows", step.output_rows, total, reason)?;
    for (row, &token) in step.output_rows.iter().enumerate() {
        let (role, of_role) = match row < outputs.prompt {
            true => ("prompt", 0..tokens.prompt),
            false => ("generated", tokens.prompt..total),
        };
        if !of_role.contains(&(token as usize)) {
            let reason = format!("is not among tokens {of_role:?}, but the row is a {role} one");
            return Err(invalid("output_rows", row, token, reason));
        }
    }
    Ok(())
}

/// Checks `0 <= value < end`.
fn check_below(
    input: &'static str,
    values: &[i32],
    end: usize,
    reason: impl Fn() -> String,
) -> Result<(), GraphError> {
    let outside = |value: i32| usize::try_from(value).map_or(true, |value| value >= end);
    match values.iter().position(|&value| outside(value)) {
        None => Ok(()),
        Some(row) => Err(invalid(input, row, values[row], reason())),
    }
}

fn invalid(input: &'static str, row: usize, value: impl ToString, reason: String) -> GraphError {
    GraphError::InputValue {
        input,
        row,
        value: value.to_string(),
        reason,
    }
}
