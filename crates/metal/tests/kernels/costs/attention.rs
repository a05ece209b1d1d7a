//! Attention by all kernels.

use minfer_gguf::TensorType::{F16, F32, Q8_0};

use super::table::{Table, Work};
use super::{CELLS, GENERATED, HEAD_DIM, HEADS, PROMPT, rows_of};
use crate::agreement::operations;
use crate::attention::case::{Case, Heads, Windows};
use crate::attention::operation::encode_on;

pub fn count(table: &mut Table) {
    for name in ["flash_prefill", "three_pass"] {
        attention(table, name, PROMPT);
    }
    for name in ["flash_decode", "split_attention", "attention"] {
        for rows in GENERATED {
            attention(table, name, rows);
        }
    }
}

/// The last `rows` of a sequence, in every format.
fn attention(table: &mut Table, name: &str, rows: usize) {
    let [query, kv] = HEADS;
    let heads = Heads {
        query,
        kv,
        dim: HEAD_DIM,
    };
    let positions = CELLS - rows..CELLS;
    let keys: usize = positions.clone().map(|position| position + 1).sum();
    let windows = Windows::Causal(positions.map(|position| position as i32).collect());
    let products = query * HEAD_DIM * keys;
    let work = Work {
        what: format!("{}, {CELLS} keys", rows_of(rows)),
        // Of queries with keys and of weights with values, which `three_pass` has kernels of their own for.
        multiplications: match name {
            "flash_prefill" => 2 * products,
            _ => products,
        },
    };
    for ty in [F32, F16, Q8_0] {
        let case = Case::new(ty, heads, CELLS, windows.clone());
        let operations = operations(&case);
        let mut named = operations.into_iter().filter(|(of, ..)| *of == name);
        let (_, scratch, operation) = named.next().unwrap();
        table.count(&work, |stage| {
            encode_on(stage, &case, scratch, operation).unwrap();
        });
    }
}
