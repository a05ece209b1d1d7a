//! Compares a backend with the table.

use minfer_gguf::quantize::quantize;
use minfer_graph::{Backend, BackendError, Op, Rows};

use crate::accuracy::{Accuracy, Worst};
use crate::case::{Case, Region};
use crate::limit::Precision;
use crate::reference::attention::{cell_type, decode_cells};
use crate::reference::{Exact, Expected, evaluate};
use crate::run::{Placement, RowRange, Run, run};

/// One configuration of a backend.
pub struct Column<'a> {
    /// Name for messages.
    pub name: String,
    /// Arithmetic of its prompt rows.
    pub prompt: Precision,
    /// Arithmetic of its generated rows.
    pub generated: Precision,
    /// Whether `Fused…` nodes take prompt rows.
    pub fuses_prompt: bool,
    /// Whether a row's bits must not depend on the rows beside it.
    pub independent_rows: bool,
    /// The backend.
    pub backend: &'a mut dyn Backend,
}

/// A difference between a backend and the table.
#[derive(Debug)]
pub enum Mismatch {
    /// The backend says that it cannot run the case.
    Unsupported {
        /// Why.
        refusal: String,
    },
    /// It failed.
    Failed(BackendError),
    /// A value is too far from the expected one.
    Value {
        /// Where: the value or the stored keys or values, row and feature.
        place: String,
        /// What the backend computed.
        found: f64,
        /// What it should be.
        expected: f64,
        /// How far it may be off.
        limit: f64,
        /// Why that far.
        reason: &'static str,
    },
    /// Two runs that must agree bit for bit do not.
    Bits {
        /// What was different about the second run.
        change: String,
    },
    /// Cells that should not have changed, or exact encodings, differ.
    Cells {
        /// First byte that differs.
        byte: usize,
        /// Values rather than keys.
        values: bool,
    },
}

impl From<BackendError> for Mismatch {
    fn from(error: BackendError) -> Self {
        Mismatch::Failed(error)
    }
}

/// Runs a case in every role and placement and compares it with its definition; how far it was off.
///
/// # Errors
/// The first difference.
pub fn check(case: &Case, column: &mut Column<'_>) -> Result<Accuracy, Mismatch> {
    let graph = case.graph();
    for weight in &case.weights {
        column.backend.register_weight(weight)?;
    }
    let node = graph.node(graph.outputs[0]);
    if !column.backend.supports(&graph, node) {
        let refusal = column.backend.refusal(&graph, node);
        return Err(Mismatch::Unsupported { refusal });
    }
    let expected = evaluate(case);
    let mut accuracy = Accuracy::default();
    for prompt in prompt_counts(case, column.fuses_prompt) {
        let all = RowRange {
            rows: 0..case.count,
            prompt,
        };
        let first = run(case, column.backend, Placement::Contiguous, &all)?;
        accuracy = accuracy.max(compare(case, column, &expected, &first, prompt)?);
        for placement in placements(&case.op) {
            let other = run(case, column.backend, placement, &all)?;
            same_bits(&first, &other, || {
                format!("{placement:?}, {prompt} prompt rows")
            })?;
        }
        if column.independent_rows && case.rows == Rows::Tokens {
            check_companions(case, column, &first, &all)?;
        }
    }
    Ok(accuracy)
}

/// Numbers of prompt rows to try: none, some, all.
fn prompt_counts(case: &Case, fuses_prompt: bool) -> Vec<usize> {
    match case.rows {
        Rows::Fixed(_) => vec![case.count],
        _ if case.op.name().starts_with("Fused") && !fuses_prompt => vec![0],
        Rows::Tokens | Rows::Outputs => {
            let mut counts = vec![0, case.count / 2, case.count];
            counts.dedup();
            counts
        }
    }
}

fn placements(op: &Op) -> Vec<Placement> {
    match op.runs_in_place() {
        true => vec![Placement::Strided, Placement::InPlace],
        false => vec![Placement::Strided],
    }
}

/// Runs the rows in parts: each must come out as beside the others.
fn check_companions(
    case: &Case,
    column: &mut Column<'_>,
    whole: &Run,
    all: &RowRange,
) -> Result<(), Mismatch> {
    let roles = [0..all.prompt, all.prompt..case.count];
    for (role, part) in roles.into_iter().enumerate() {
        for step in [1, 3] {
            for start in part.clone().step_by(step) {
                let rows = start..(start + step).min(part.end);
                let prompt = if role == 0 { rows.len() } else { 0 };
                let range = RowRange {
                    rows: rows.clone(),
                    prompt,
                };
                let alone = run(case, column.backend, Placement::Contiguous, &range)?;
                let beside = &whole.value[rows.start * case.width..rows.end * case.width];
                if !equal_bits(&alone.value, beside) {
                    let change = format!("rows {rows:?} alone, {prompt} of them prompt rows");
                    return Err(Mismatch::Bits { change });
                }
            }
        }
    }
    Ok(())
}

fn equal_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

fn same_bits(a: &Run, b: &Run, change: impl Fn() -> String) -> Result<(), Mismatch> {
    match equal_bits(&a.value, &b.value) && a.kv == b.kv {
        true => Ok(()),
        false => Err(Mismatch::Bits { change: change() }),
    }
}

fn compare(
    case: &Case,
    column: &Column<'_>,
    expected: &Expected,
    found: &Run,
    prompt: usize,
) -> Result<Accuracy, Mismatch> {
    let mut accuracy = Accuracy::default();
    let precision = |row: usize| match row < prompt {
        true => column.prompt,
        false => column.generated,
    };
    let Exact { value, magnitude } = &expected.value;
    for (i, &found) in found.value.iter().enumerate() {
        let (row, feature) = (i / case.width, i % case.width);
        let magnitude = magnitude.data[i];
        let limit = case.limit.of(precision(row), magnitude);
        let place = || format!("row {row} feature {feature}");
        let error = within(case, place, f64::from(found), value.data[i], limit)?;
        let worst = accuracy.of_role(row < prompt);
        *worst = worst.max(Worst::of(error, magnitude, limit));
    }
    let (Some(before), Some(after)) = (&case.kv, &found.kv) else {
        return Ok(accuracy);
    };
    let untouched = vec![None; before.shape.cells];
    for (which, after) in after.iter().enumerate() {
        let stored = expected.stored.as_ref().map(|stored| &stored[which]);
        let rows = match stored {
            Some(_) => stored_rows(case, before.shape.cells),
            None => untouched.clone(),
        };
        unchanged_cells(before, which, after, &rows)?;
        let Some(stored) = stored else { continue };
        if matches!(case.op, Op::KvStore { .. }) {
            exact_cells(case, before, which, after, &rows)?;
        }
        let cells = decode_cells(&before.shape, after);
        for (cell, row) in rows.iter().enumerate() {
            let Some(row) = *row else { continue };
            let exact = stored.value.row(row);
            for (i, (&found, &value)) in cells.row(cell).iter().zip(exact).enumerate() {
                let magnitude = stored.magnitude.row(row)[i];
                let limit = case.limit.of(precision(row), magnitude);
                let limit = limit + encoding_error(before, exact, value);
                let place = || format!("cell {cell} part {which} feature {i}");
                let error = within(case, place, found, value, limit)?;
                // Of a store that is the encoding's alone, whose bytes are right.
                if !matches!(case.op, Op::KvStore { .. }) {
                    let worst = accuracy.of_role(row < prompt);
                    *worst = worst.max(Worst::of(error, magnitude, limit));
                }
            }
        }
    }
    Ok(accuracy)
}

/// The error, if it is no larger than the limit.
fn within(
    case: &Case,
    place: impl Fn() -> String,
    found: f64,
    expected: f64,
    limit: f64,
) -> Result<f64, Mismatch> {
    let error = (found - expected).abs();
    // A NaN is never within the limit.
    if error <= limit {
        return Ok(error);
    }
    Err(Mismatch::Value {
        place: place(),
        found,
        expected,
        limit,
        reason: case.limit.reason,
    })
}

/// What encoding a value of a row may cost.
fn encoding_error(region: &Region, row: &[f64], value: f64) -> f64 {
    use minfer_graph::KvFormat;
    match region.shape.format {
        KvFormat::F32 => value.abs() * 2f64.powi(-23),
        KvFormat::F16 => value.abs() * 2f64.powi(-11) + 2f64.powi(-25),
        // Half a step of the largest magnitude over 127, and the step itself is an f16.
        KvFormat::Q8_0 => row.iter().fold(0.0, |m: f64, x| m.max(x.abs())) * (0.52 / 127.0 + 1e-3),
    }
}

/// Row stored to each cell, if any.
fn stored_rows(case: &Case, cells: usize) -> Vec<Option<usize>> {
    let mut rows = vec![None; cells];
    let input = &case.inputs[2];
    for r in 0..input.count() {
        rows[input.i32_row(r)[0] as usize] = Some(r);
    }
    rows
}

fn unchanged_cells(
    before: &Region,
    which: usize,
    after: &[u8],
    rows: &[Option<usize>],
) -> Result<(), Mismatch> {
    let before = [&before.keys, &before.values][which];
    let size = before.len() / rows.len();
    let changed = |&byte: &usize| rows[byte / size].is_none() && before[byte] != after[byte];
    match (0..before.len()).find(changed) {
        None => Ok(()),
        Some(byte) => Err(Mismatch::Cells {
            byte,
            values: which == 1,
        }),
    }
}

/// Stored cells hold the bytes of the GGUF quantizer.
fn exact_cells(
    case: &Case,
    region: &Region,
    which: usize,
    after: &[u8],
    rows: &[Option<usize>],
) -> Result<(), Mismatch> {
    let size = after.len() / rows.len();
    for (cell, row) in rows.iter().enumerate() {
        let Some(row) = *row else { continue };
        let values = case.inputs[which].f32_row(row);
        let bytes = quantize(cell_type(region.shape.format), values).expect("a KV format");
        if let Some(at) = (0..bytes.len()).find(|&i| after[cell * size + i] != bytes[i]) {
            return Err(Mismatch::Cells {
                byte: cell * size + at,
                values: which == 1,
            });
        }
    }
    Ok(())
}
