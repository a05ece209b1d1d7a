//! RMS normalization.

use minfer_metal::arguments::{KernelArguments, Norm};
use minfer_metal::device::{Grid, Size};
use minfer_metal::kernels::NORM;

use crate::launch::{Launch, Operand, WIDTHS, difference, values};

const EPS: f32 = 1e-5;
/// Squares, their sum in any order, a root, a quotient and two products: some units in the last place.
const TOLERANCE: f64 = 1e-6;

struct Shape {
    width: usize,
    heads: usize,
    rows: usize,
    /// Elements beyond the width between rows of output and input.
    beyond: [usize; 2],
    threads: u32,
}

fn with_launch<R>(
    shape: &Shape,
    in_place: bool,
    then: impl FnOnce(&Launch<'_>, Vec<f64>) -> R,
) -> R {
    let row = shape.width * shape.heads;
    let (x, gain) = (values(shape.rows * row, 3), values(shape.width, 4));
    let [y_stride, x_stride] = shape.beyond.map(|beyond| row + beyond);
    let args = Norm {
        width: shape.width as u32,
        heads: shape.heads as u32,
        y_stride: y_stride as u32,
        x_stride: if in_place { y_stride } else { x_stride } as u32,
        eps: EPS,
    };
    let input = Operand::input(row, &x);
    let gains = Operand::input(shape.width, &gain);
    let (operands, bindings): (_, &[_]) = if in_place {
        (vec![input.strided(y_stride), gains], &[0, 0, 1])
    } else {
        let y = Operand::output(row, shape.rows).strided(y_stride);
        (vec![y, input.strided(x_stride), gains], &[0, 1, 2])
    };
    let launch = Launch {
        file: NORM,
        kernel: "rms_norm",
        constants: &[],
        arguments: args.as_bytes(),
        operands,
        bindings,
        grid: Grid::Threadgroups(Size([shape.heads as u32, shape.rows as u32, 1])),
        threadgroup: [shape.threads, 1, 1],
    };
    then(&launch, reference(&x, &gain))
}

fn reference(x: &[f32], gain: &[f32]) -> Vec<f64> {
    let normalize = |head: &[f32]| {
        let squares: f64 = head.iter().map(|x| f64::from(*x).powi(2)).sum();
        let root = (squares / head.len() as f64 + f64::from(EPS)).sqrt();
        let scaled = head
            .iter()
            .zip(gain)
            .map(|(x, g)| f64::from(*x) / root * f64::from(*g));
        scaled.collect::<Vec<_>>()
    };
    x.chunks(gain.len()).flat_map(normalize).collect()
}

fn check(shape: &Shape, in_place: bool) {
    with_launch(shape, in_place, |launch, expected| {
        let difference = difference(&launch.run_floats(), &expected);
        assert!(
            difference <= TOLERANCE,
            "width {}: {difference:e}",
            shape.width
        );
    });
}

#[test]
fn rows_of_every_tail() {
    for width in WIDTHS {
        for threads in [256, 32] {
            check(
                &Shape {
                    width,
                    heads: 1,
                    rows: 2,
                    beyond: [0, 3],
                    threads,
                },
                false,
            );
        }
    }
}

#[test]
fn heads_within_rows_in_place() {
    check(
        &Shape {
            width: 64,
            heads: 3,
            rows: 2,
            beyond: [5, 5],
            threads: 64,
        },
        true,
    );
}

#[test]
fn every_barrier_is_needed() {
    let shape = Shape {
        width: 257,
        heads: 1,
        rows: 1,
        beyond: [0, 0],
        threads: 256,
    };
    with_launch(&shape, false, |launch, _| {
        launch.assert_barriers_are_needed()
    });
}
