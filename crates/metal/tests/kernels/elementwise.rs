//! Elementwise kernels, bit for bit where the operation is one rounding.

use minfer_metal::arguments::{Elementwise, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ELEMENTWISE;

use crate::launch::{Launch, Operand};
use crate::values::{WIDTHS, difference, values};

const ROWS: usize = 3;
const FACTOR: f32 = 0.37;
/// Threads after the last that has work.
const BEYOND: u32 = 5;

/// A kernel, its value in double precision, and how far results may be from the nearest float, relative to the largest.
struct Case {
    kernel: &'static str,
    reference: fn(f64, f64) -> f64,
    tolerance: f64,
}

/// Half a unit in the last place of a float.
const ROUNDING: f64 = 6e-8;

const CASES: [Case; 5] = [
    Case {
        kernel: "add",
        reference: |a, b| a + b,
        tolerance: 0.0,
    },
    Case {
        kernel: "mul",
        reference: |a, b| a * b,
        tolerance: 0.0,
    },
    Case {
        kernel: "scale",
        reference: |a, _| a * FACTOR as f64,
        tolerance: 0.0,
    },
    // An exponential, for which Metal allows four units in the last place, a sum, a quotient and a product; and the
    // reference's rounding.
    Case {
        kernel: "silu",
        reference: |a, _| a / (1.0 + (-a).exp()),
        tolerance: 11.0 * ROUNDING,
    },
    Case {
        kernel: "swiglu",
        reference: |a, b| a / (1.0 + (-a).exp()) * b,
        tolerance: 12.0 * ROUNDING,
    },
];

/// Where the operands are.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    /// Elements beyond the width between rows of output and operands.
    beyond: [usize; 3],
    in_place: bool,
    /// Rows of the second operand: one for all, or one each.
    b_rows: usize,
}

fn launch(kernel: &str, shape: Shape, a: &[f32], b: &[f32]) -> Launch {
    let strides = shape.beyond.map(|beyond| shape.width + beyond);
    let [y_stride, a_stride, b_stride] = strides;
    let args = Elementwise {
        width: shape.width as u32,
        y_stride: y_stride as u32,
        a_stride: if shape.in_place { y_stride } else { a_stride } as u32,
        b_stride: if shape.b_rows == 1 { 0 } else { b_stride } as u32,
        factor: FACTOR,
    };
    let first = Operand::input(shape.width, a);
    let second = Operand::input(shape.width, b).strided(b_stride);
    let (operands, bindings) = if shape.in_place {
        (vec![first.strided(y_stride), second], vec![0, 0, 1])
    } else {
        let y = Operand::output(shape.width, ROWS).strided(y_stride);
        (vec![y, first.strided(a_stride), second], vec![0, 1, 2])
    };
    let vectorized = strides.iter().all(|stride| stride % 4 == 0);
    Launch {
        file: ELEMENTWISE,
        kernel: kernel.to_owned(),
        constants: vec![(0, ConstantValue::Bool(vectorized))],
        arguments: args.as_bytes().to_vec(),
        operands,
        bindings,
        grid: Grid::Threads(Size([
            shape.width.div_ceil(4) as u32 + BEYOND,
            ROWS as u32,
            1,
        ])),
        threadgroup: [64, 2, 1],
    }
}

fn check(case: &Case, shape: Shape) {
    let (a, b) = operands(shape);
    let reference = |(a, b): (&f32, &f32)| {
        let value = (case.reference)(f64::from(*a), f64::from(*b));
        f64::from(value as f32)
    };
    let expected: Vec<_> = a.iter().zip(b.iter().cycle()).map(reference).collect();
    let found = launch(case.kernel, shape, &a, &b).run_floats();
    let difference = difference(&found, &expected);
    assert!(
        difference <= case.tolerance,
        "{} of width {}: {difference:e}",
        case.kernel,
        shape.width
    );
}

fn operands(shape: Shape) -> (Vec<f32>, Vec<f32>) {
    let a = values(ROWS * shape.width, 1);
    (a, values(shape.b_rows * shape.width, 2))
}

fn shape(width: usize, beyond: [usize; 3], in_place: bool) -> Shape {
    Shape {
        width,
        beyond,
        in_place,
        b_rows: ROWS,
    }
}

/// A launch of every kernel.
pub fn launches() -> Vec<Launch> {
    let shape = shape(33, [3, 0, 0], false);
    let (a, b) = operands(shape);
    let launch = |case: &Case| launch(case.kernel, shape, &a, &b);
    CASES.iter().map(launch).collect()
}

#[test]
fn every_operation_and_tail() {
    for case in &CASES {
        for width in WIDTHS {
            check(case, shape(width, [0, 0, 0], false));
        }
    }
}

#[test]
fn rows_apart_and_in_place() {
    for case in &CASES {
        for width in [33, 256] {
            let aligned = 4 - width % 4;
            check(case, shape(width, [aligned, aligned + 4, aligned], false));
            check(case, shape(width, [3, 1, 0], false));
            check(case, shape(width, [aligned, aligned, aligned + 4], true));
            check(case, shape(width, [1, 1, 2], true));
        }
    }
}

#[test]
fn a_bias_is_one_row_for_all() {
    for width in [33, 256] {
        let shape = Shape {
            b_rows: 1,
            ..shape(width, [0, 0, 0], false)
        };
        check(&CASES[0], shape);
    }
}
