//! Rows by index, of activations and of weights.

use minfer_metal::arguments::{Embed, GetRows, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ROWS;

use crate::launch::{Launch, Operand};
use crate::values::{WIDTHS, values};
use crate::weights::{TYPES, WeightType};

const INDICES: [i32; 4] = [2, 0, 2, 4];
const SOURCE_ROWS: usize = 5;

/// Rows of `source` that the indices pick.
fn picked<T: Clone>(source: &[T]) -> Vec<T> {
    let width = source.len() / SOURCE_ROWS;
    let row = |&index: &i32| source[index as usize * width..][..width].to_vec();
    INDICES.iter().flat_map(row).collect()
}

fn get_rows(x: &[f32], beyond: [usize; 2]) -> Launch {
    let width = x.len() / SOURCE_ROWS;
    let strides = beyond.map(|beyond| width + beyond);
    let args = GetRows {
        width: width as u32,
        y_stride: strides[0] as u32,
        x_stride: strides[1] as u32,
    };
    let vectorized = strides.iter().all(|stride| stride % 4 == 0);
    Launch {
        file: ROWS,
        kernel: "get_rows".to_owned(),
        constants: vec![(0, ConstantValue::Bool(vectorized))],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(width, INDICES.len()).strided(strides[0]),
            Operand::input(width, x).strided(strides[1]),
            Operand::integers(&INDICES),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threads(Size([
            width.div_ceil(4) as u32 + 5,
            INDICES.len() as u32,
            1,
        ])),
        threadgroup: [64, 1, 1],
    }
}

/// Rows of the output lie `beyond` elements further apart than they are wide; the grid has `threads` per row.
fn embed(weight: &WeightType, table: &[u8], beyond: usize, threads: u32) -> Launch {
    let row_bytes = table.len() / SOURCE_ROWS;
    let width = row_bytes / weight.ty.block_bytes() * weight.ty.block_len();
    let args = Embed {
        width: width as u32,
        y_stride: (width + beyond) as u32,
        row_bytes: row_bytes as u32,
    };
    let vectorized = width.is_multiple_of(4) && beyond.is_multiple_of(4);
    Launch {
        file: ROWS,
        kernel: format!("embed_{}", weight.name),
        constants: vec![(0, ConstantValue::Bool(vectorized))],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(width, INDICES.len()).strided(width + beyond),
            Operand::bytes(table),
            Operand::integers(&INDICES),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threads(Size([threads, INDICES.len() as u32, 1])),
        threadgroup: [threads.min(64), 1, 1],
    }
}

/// A launch of every kernel.
pub fn launches() -> Vec<Launch> {
    let rows = get_rows(&values(SOURCE_ROWS * 33, 7), [0, 1]);
    let embed = |weight: &WeightType| {
        let table = weight.quantized(SOURCE_ROWS * 256, 8);
        embed(weight, &table, 3, 32)
    };
    std::iter::once(rows)
        .chain(TYPES.iter().map(embed))
        .collect()
}

#[test]
fn rows_of_every_tail() {
    for width in WIDTHS {
        let x = values(SOURCE_ROWS * width, 7);
        for beyond in [[0, 0], [width.next_multiple_of(4) - width, 12 - width % 4]] {
            let found = get_rows(&x, beyond).run_floats();
            assert_eq!(found, picked(&x), "width {width}");
        }
    }
}

/// Every value is one rounding from exact terms, so the reference is met; -0 and 0 are the same.
fn check_embed(weight: &WeightType, table: &[u8], beyond: usize, threads: u32) {
    let found = embed(weight, table, beyond, threads).run_floats();
    let expected = picked(&weight.decode(table));
    assert!(
        found == expected,
        "{} of width {}",
        weight.name,
        found.len() / INDICES.len()
    );
}

#[test]
fn embeddings_of_every_type_and_tail() {
    for weight in &TYPES {
        for width in WIDTHS.into_iter().filter(|width| weight.has(*width)) {
            let table = weight.random(SOURCE_ROWS * width, 8);
            check_embed(weight, &table, 0, width as u32);
        }
    }
}

#[test]
fn embeddings_with_extreme_scales_by_few_threads() {
    for weight in &TYPES {
        let table = weight.extreme(SOURCE_ROWS * 512, 9);
        for beyond in [3, 4] {
            check_embed(weight, &table, beyond, 7);
        }
    }
}
