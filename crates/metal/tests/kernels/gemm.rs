//! Products of weights and the rows of prompts.

use minfer_metal::arguments::{KernelArguments, Product};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::GEMM;
use minfer_metal::ops::gemm::{OUTPUTS, ROWS, SIMDGROUPS};
use minfer_softmetal::KernelStatistics;

use crate::launch::{Launch, Operand, options};
use crate::values::values;
use crate::weights::{TYPES, WeightType};

/// Of the sum of magnitudes. A sum goes through as many additions as the input is wide, each off by up to 6e-8 of a
/// partial sum; both grow like random walks, so that some 6e-8 are left, ten times that at the worst of thousands.
const TOLERANCE: f64 = 6e-7;

#[derive(Clone, Copy)]
struct Shape {
    in_width: usize,
    out_width: usize,
    rows: usize,
    /// Elements beyond the width between rows of output and input.
    beyond: [usize; 2],
}

fn launch(weight: &WeightType, bytes: &[u8], x: &[f32], shape: Shape) -> Launch {
    let y_stride = shape.out_width + shape.beyond[0];
    let x_stride = shape.in_width + shape.beyond[1];
    let args = Product {
        in_width: shape.in_width as u32,
        out_width: shape.out_width as u32,
        rows: shape.rows as u32,
        x_stride: x_stride as u32,
        y_stride: y_stride as u32,
        row_bytes: weight.ty.row_bytes(shape.in_width).unwrap() as u32,
    };
    let vectorized = shape.in_width.is_multiple_of(4) && x_stride.is_multiple_of(4);
    Launch {
        file: GEMM,
        kernel: format!("gemm_{}", weight.name),
        constants: vec![(0, ConstantValue::Bool(vectorized))],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(shape.out_width, shape.rows).strided(y_stride),
            Operand::bytes(bytes),
            Operand::input(shape.in_width, x).strided(x_stride),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threadgroups(Size([
            shape.rows.div_ceil(ROWS) as u32,
            shape.out_width.div_ceil(OUTPUTS) as u32,
            1,
        ])),
        threadgroup: [32 * SIMDGROUPS as u32, 1, 1],
    }
}

fn check(weight: &WeightType, bytes: &[u8], shape: Shape) {
    let x = values(shape.rows * shape.in_width, 12);
    let found = launch(weight, bytes, &x, shape).run_floats();
    weight.check_products(bytes, &x, shape.in_width, &found, TOLERANCE);
}

/// A launch of every kernel, with a whole part and parts that stick out.
pub fn launches() -> Vec<Launch> {
    let launch = |weight: &WeightType| {
        let shape = Shape {
            in_width: weight.ty.block_len().max(64),
            out_width: 33,
            rows: 17,
            beyond: [0, 0],
        };
        let bytes = weight.quantized(shape.out_width * shape.in_width, 13);
        launch(
            weight,
            &bytes,
            &values(shape.rows * shape.in_width, 12),
            shape,
        )
    };
    TYPES.iter().map(launch).collect()
}

#[test]
fn inputs_of_every_tail() {
    for weight in &TYPES {
        let widths = [1, 31, 32, 33, 96, 256];
        for in_width in widths.into_iter().filter(|width| weight.has(*width)) {
            for beyond in [[3, 1], [0, 4]] {
                let shape = Shape {
                    in_width,
                    out_width: 9,
                    rows: 2,
                    beyond,
                };
                let bytes = weight.quantized(shape.out_width * in_width, 13);
                check(weight, &bytes, shape);
            }
        }
    }
}

#[test]
fn outputs_and_rows_of_every_tail() {
    // Only rows of floats have elements of their own beyond a step.
    for (weight, in_width) in [(&TYPES[0], 34), (&TYPES[7], 32)] {
        for out_width in [1, 63, 64, 65] {
            let bytes = weight.quantized(out_width * in_width, 14);
            for rows in [1, 7, 31, 32, 33, 64] {
                let shape = Shape {
                    in_width,
                    out_width,
                    rows,
                    beyond: [1, 2],
                };
                check(weight, &bytes, shape);
            }
        }
    }
}

#[test]
fn tiles_of_every_type() {
    for weight in &TYPES {
        let shape = Shape {
            in_width: weight.ty.block_len().max(32),
            out_width: 65,
            rows: 33,
            beyond: [0, 0],
        };
        let bytes = weight.quantized(shape.out_width * shape.in_width, 15);
        check(weight, &bytes, shape);
    }
}

#[test]
fn extreme_scales_and_random_levels() {
    for weight in &TYPES {
        let shape = Shape {
            in_width: 512,
            out_width: 9,
            rows: 3,
            beyond: [1, 0],
        };
        check(weight, &weight.random(9 * 512, 15), shape);
        check(weight, &weight.extreme(9 * 512, 16), shape);
    }
}

/// Rows stand at every place of a tile, beside rows that are not numbers.
#[test]
fn a_row_has_the_same_bits_alone_and_among_others() {
    for weight in &TYPES {
        let in_width = if weight.has(40) {
            40
        } else {
            weight.ty.block_len().max(64)
        };
        let shape = |rows| Shape {
            in_width,
            out_width: 40,
            rows,
            beyond: [0, 0],
        };
        let bytes = weight.quantized(40 * in_width, 17);
        let row = values(in_width, 18);
        let alone = launch(weight, &bytes, &row, shape(1)).run();
        for first in 0..2 {
            let mut x = vec![f32::NAN; 34 * in_width];
            let own = |at: usize| at % 2 == first;
            for (_, x) in x
                .chunks_mut(in_width)
                .enumerate()
                .filter(|(at, _)| own(*at))
            {
                x.copy_from_slice(&row);
            }
            let found = launch(weight, &bytes, &x, shape(34)).words(options());
            for (at, y) in found.chunks(40).enumerate().filter(|(at, _)| own(*at)) {
                assert!(y == alone, "{}: row {at}", weight.name);
            }
        }
    }
}

/// Bytes that threads read of a weight, relative to its size: two threads share a row, and each reads the scales.
/// Those of Q4_K and Q5_K, and fifth bits, are read again for every 64 elements.
const READ: [f64; 11] = [
    1.0,
    1.0,
    1.0,
    2.0 * (2.0 + 8.0) / 18.0,
    2.0 * (4.0 + 8.0) / 20.0,
    2.0 * (6.0 + 8.0) / 22.0,
    2.0 * (8.0 + 8.0) / 24.0,
    2.0 * (2.0 + 16.0) / 34.0,
    8.0 * (16.0 + 16.0) / 144.0,
    8.0 * (16.0 + 16.0 + 16.0) / 176.0,
    4.0 * (2.0 + 8.0 + 32.0 + 16.0) / 210.0,
];

#[test]
fn weights_are_read_once_for_32_rows() {
    let [in_width, out_width] = [512, 64];
    for (weight, read) in TYPES.iter().zip(READ) {
        let bytes = weight.quantized(in_width * out_width, 19);
        let statistics = |rows: usize| -> KernelStatistics {
            let shape = Shape {
                in_width,
                out_width,
                rows,
                beyond: [0, 0],
            };
            let x = values(rows * in_width, 20);
            launch(weight, &bytes, &x, shape)
                .run_with(options())
                .statistics
        };
        let x_bytes = |rows: usize| 4 * rows * in_width;
        for (rows, tiles) in [(1, 1), (32, 1), (33, 2)] {
            let found = statistics(rows);
            let distinct = bytes.len() + x_bytes(rows);
            assert_eq!(
                found.distinct_bytes_read, distinct as u64,
                "{}",
                weight.name
            );
            let of_weight = found.counters.bytes_read as usize - x_bytes(rows);
            let expected = read * (tiles * bytes.len()) as f64;
            assert_eq!(of_weight as f64, expected.round(), "{}", weight.name);
        }
    }
}
