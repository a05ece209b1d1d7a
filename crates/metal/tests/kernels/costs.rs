//! What every kernel costs: the table of `docs/metal-costs.md`, counted at widths of Qwen2.5-0.5B.

mod activations;
mod attention;
mod cells;
mod products;
mod table;

use std::collections::BTreeSet;
use std::thread;

use minfer_graph::{KvFormat, KvShape};

use crate::barriers::shipped;
use table::Table;

/// Of the residual stream.
const WIDTH: usize = 896;
/// Of queries, and of keys and values.
const HEADS: [usize; 2] = [14, 2];
const HEAD_DIM: usize = 64;
/// Rows of the prompt.
const PROMPT: usize = 64;
/// Generated rows: of one sequence, and of several.
const GENERATED: [usize; 2] = [1, 4];
/// Cells of the region, and keys of the last row.
const CELLS: usize = 128;
const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

fn region(format: KvFormat) -> KvShape {
    KvShape {
        cells: CELLS,
        width: HEADS[1] * HEAD_DIM,
        head_dim: HEAD_DIM,
        format,
    }
}

fn rows_of(rows: usize) -> String {
    match rows {
        1 => "1 row".to_owned(),
        _ => format!("{rows} rows"),
    }
}

fn counted(parts: &[fn(&mut Table)]) -> Table {
    let mut table = Table::default();
    parts.iter().for_each(|count| count(&mut table));
    table
}

/// Prints the table with `--nocapture`.
#[test]
fn every_kernel_has_its_costs() {
    let table = thread::scope(|scope| {
        let others = scope.spawn(|| counted(&[attention::count, cells::count, activations::count]));
        counted(&[products::count]).followed_by(others.join().unwrap())
    });
    println!("{table}");
    let counted: BTreeSet<_> = table.kernels().collect();
    let shipped = shipped();
    let missing: Vec<_> = shipped
        .iter()
        .filter(|(_, kernel)| !counted.contains(kernel.as_str()))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
