//! Products of weights and activations.

use minfer_metal::arguments::{KernelArguments, Product};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::MATVEC;
use minfer_metal::ops::matvec::{SIMDGROUPS, outputs_per_threadgroup};

use crate::launch::{Launch, Operand, options};
use crate::values::{WIDTHS, values};
use crate::weights::{TYPES, WeightType};

/// Of the sum of magnitudes. A product goes through at most 60 additions for the widths here, each off by up to
/// 6e-8 of a partial sum; offsets bring terms as large as the products. Devices sum lanes in an order of their own.
pub const TOLERANCE: f64 = 2e-6;

pub struct Shape {
    pub in_width: usize,
    pub out_width: usize,
    pub rows: usize,
    /// Elements beyond the width between rows of output and input.
    pub beyond: [usize; 2],
}

/// One row per threadgroup.
pub fn launch(weight: &WeightType, bytes: &[u8], x: &[f32], shape: &Shape) -> Launch {
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
    let outputs = outputs_per_threadgroup(weight.ty).unwrap();
    Launch {
        file: MATVEC,
        kernel: format!("matvec_{}", weight.name),
        constants: vec![(0, ConstantValue::Bool(vectorized))],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(shape.out_width, shape.rows).strided(y_stride),
            Operand::bytes(bytes),
            Operand::input(shape.in_width, x).strided(x_stride),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threadgroups(Size([
            shape.out_width.div_ceil(outputs) as u32,
            shape.rows as u32,
            1,
        ])),
        threadgroup: [32 * SIMDGROUPS as u32, 1, 1],
    }
}

fn check(weight: &WeightType, bytes: &[u8], shape: &Shape) {
    let x = values(shape.rows * shape.in_width, 12);
    let found = launch(weight, bytes, &x, shape).run_floats();
    weight.check_products(bytes, &x, shape.in_width, &found, TOLERANCE);
}

/// A launch of every kernel.
pub fn launches() -> Vec<Launch> {
    let shape = Shape {
        in_width: 256,
        out_width: 5,
        rows: 1,
        beyond: [0, 0],
    };
    let x = values(shape.in_width, 12);
    let launch = |weight: &WeightType| {
        let bytes = weight.quantized(shape.out_width * shape.in_width, 13);
        launch(weight, &bytes, &x, &shape)
    };
    TYPES.iter().map(launch).collect()
}

#[test]
fn inputs_of_every_tail() {
    for weight in &TYPES {
        for in_width in WIDTHS.into_iter().filter(|width| weight.has(*width)) {
            let bytes = weight.quantized(5 * in_width, 13);
            for beyond in [[3, 1], [0, 4]] {
                check(
                    weight,
                    &bytes,
                    &Shape {
                        in_width,
                        out_width: 5,
                        rows: 2,
                        beyond,
                    },
                );
            }
        }
    }
}

#[test]
fn outputs_of_every_tail() {
    for weight in &TYPES {
        let in_width = weight.ty.block_len().max(4);
        for out_width in WIDTHS {
            let bytes = weight.quantized(out_width * in_width, 14);
            check(
                weight,
                &bytes,
                &Shape {
                    in_width,
                    out_width,
                    rows: 1,
                    beyond: [0, 0],
                },
            );
        }
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
        check(weight, &weight.random(9 * 512, 15), &shape);
        check(weight, &weight.extreme(9 * 512, 16), &shape);
    }
}

/// Segments of memory that simdgroups touch for a row, of those that hold it. A block's scales and levels are loads
/// apart; three halves of q5_0 and two of q4_1, which are one load in Metal, are several here.
const SEGMENTS: [f64; 11] = [1.0, 1.0, 1.0, 2.3, 3.0, 4.4, 2.0, 2.3, 2.1, 2.1, 2.8];

#[test]
fn weights_are_read_once_in_few_segments() {
    let in_width = 4096;
    let x = values(in_width, 16);
    for (weight, most) in TYPES.iter().zip(SEGMENTS) {
        let statistics = |out_width| {
            let shape = Shape {
                in_width,
                out_width,
                rows: 1,
                beyond: [0, 0],
            };
            let bytes = weight.quantized(in_width * out_width, 17);
            launch(weight, &bytes, &x, &shape)
                .run_with(options())
                .statistics
        };
        let [one, two] = [1, 2].map(statistics);
        let row = weight.ty.row_bytes(in_width).unwrap();
        assert_eq!(
            one.distinct_bytes_read,
            (row + 4 * in_width) as u64,
            "{}",
            weight.name
        );
        let segments = two.counters.segments - one.counters.segments;
        let segments = segments as f64 / row.div_ceil(64) as f64;
        assert!(segments <= most, "{}: {segments}", weight.name);
    }
}
