//! Elementwise kernels, bit for bit where the operation is one rounding.

use minfer_metal::arguments::{Elementwise, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ELEMENTWISE;

use crate::launch::{Launch, Operand, WIDTHS, difference, values};

const ROWS: usize = 3;
const FACTOR: f32 = 0.37;

/// A kernel, its value in double precision, and how far a float may be from it, relative to the largest value.
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
        tolerance: ROUNDING,
    },
    Case {
        kernel: "mul",
        reference: |a, b| a * b,
        tolerance: ROUNDING,
    },
    Case {
        kernel: "scale",
        reference: |a, _| a * FACTOR as f64,
        tolerance: ROUNDING,
    },
    // An exponential, a sum, a quotient and a product, each rounded.
    Case {
        kernel: "silu",
        reference: |a, _| a / (1.0 + (-a).exp()),
        tolerance: 4.0 * ROUNDING,
    },
    Case {
        kernel: "swiglu",
        reference: |a, b| a / (1.0 + (-a).exp()) * b,
        tolerance: 5.0 * ROUNDING,
    },
];

/// Rows lie `beyond` elements further apart than they are wide: of the output and of both operands.
fn check(case: &Case, width: usize, beyond: [usize; 3], in_place: bool) {
    let strides = beyond.map(|beyond| width + beyond);
    let [y_stride, a_stride, b_stride] = strides;
    let (a, b) = (values(ROWS * width, 1), values(ROWS * width, 2));
    let args = Elementwise {
        width: width as u32,
        y_stride: y_stride as u32,
        a_stride: if in_place { y_stride } else { a_stride } as u32,
        b_stride: b_stride as u32,
        factor: FACTOR,
    };
    let first = Operand::input(width, &a);
    let second = Operand::input(width, &b).strided(b_stride);
    let (operands, bindings): (_, &[_]) = if in_place {
        (vec![first.strided(y_stride), second], &[0, 0, 1])
    } else {
        let y = Operand::output(width, ROWS).strided(y_stride);
        (vec![y, first.strided(a_stride), second], &[0, 1, 2])
    };
    let launch = Launch {
        file: ELEMENTWISE,
        kernel: case.kernel,
        constants: &[(
            0,
            ConstantValue::Bool(strides.iter().all(|stride| stride % 4 == 0)),
        )],
        arguments: args.as_bytes(),
        operands,
        bindings,
        grid: Grid::Threads(Size([width.div_ceil(4) as u32, ROWS as u32, 1])),
        threadgroup: [64, 2, 1],
    };
    let reference = |(a, b): (&f32, &f32)| (case.reference)(f64::from(*a), f64::from(*b));
    let expected: Vec<_> = a.iter().zip(&b).map(reference).collect();
    let difference = difference(&launch.run_floats(), &expected);
    assert!(
        difference <= case.tolerance,
        "{} of width {width}: {difference:e}",
        case.kernel
    );
}

#[test]
fn every_operation_and_tail() {
    for case in &CASES {
        for width in WIDTHS {
            check(case, width, [0, 0, 0], false);
        }
    }
}

#[test]
fn rows_apart_and_in_place() {
    for case in &CASES {
        for width in [33, 256] {
            check(case, width, [4, 0, 8], false);
            check(case, width, [3, 1, 0], false);
            check(case, width, [0, 0, 4], true);
            check(case, width, [1, 1, 2], true);
        }
    }
}

#[test]
fn a_bias_is_one_row_for_all() {
    let width = 33;
    let (a, b) = (values(ROWS * width, 1), values(width, 2));
    let args = Elementwise {
        width: width as u32,
        y_stride: width as u32,
        a_stride: width as u32,
        b_stride: 0,
        factor: 0.0,
    };
    let launch = Launch {
        file: ELEMENTWISE,
        kernel: "add",
        constants: &[(0, ConstantValue::Bool(false))],
        arguments: args.as_bytes(),
        operands: vec![
            Operand::output(width, ROWS),
            Operand::input(width, &a),
            Operand::input(width, &b),
        ],
        bindings: &[0, 1, 2],
        grid: Grid::Threads(Size([width.div_ceil(4) as u32, ROWS as u32, 1])),
        threadgroup: [32, 1, 1],
    };
    let expected: Vec<_> = a.iter().zip(b.iter().cycle()).map(|(a, b)| a + b).collect();
    assert_eq!(launch.run_floats(), expected);
}
