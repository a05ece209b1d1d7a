//! RMS normalization.

use minfer_metal::arguments::{KernelArguments, Norm};
use minfer_metal::device::{Grid, Size};
use minfer_metal::kernels::NORM;

use crate::launch::{Launch, Operand};
use crate::values::{WIDTHS, difference, values};

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
    in_place: bool,
}

/// One row apiece, not in place.
const ROW: Shape = Shape {
    width: 257,
    heads: 1,
    rows: 2,
    beyond: [0, 3],
    threads: 256,
    in_place: false,
};

fn operands(shape: &Shape) -> (Vec<f32>, Vec<f32>) {
    let x = values(shape.rows * shape.width * shape.heads, 3);
    (x, values(shape.width, 4))
}

fn launch(shape: &Shape) -> Launch {
    let row = shape.width * shape.heads;
    let (x, gain) = operands(shape);
    let [y_stride, x_stride] = shape.beyond.map(|beyond| row + beyond);
    let args = Norm {
        width: shape.width as u32,
        heads: shape.heads as u32,
        y_stride: y_stride as u32,
        x_stride: if shape.in_place { y_stride } else { x_stride } as u32,
        eps: EPS,
    };
    let input = Operand::input(row, &x);
    let gains = Operand::input(shape.width, &gain);
    let (operands, bindings) = if shape.in_place {
        (vec![input.strided(y_stride), gains], vec![0, 0, 1])
    } else {
        let y = Operand::output(row, shape.rows).strided(y_stride);
        (vec![y, input.strided(x_stride), gains], vec![0, 1, 2])
    };
    Launch {
        file: NORM,
        kernel: "rms_norm".to_owned(),
        constants: vec![],
        arguments: args.as_bytes().to_vec(),
        operands,
        bindings,
        grid: Grid::Threadgroups(Size([shape.heads as u32, shape.rows as u32, 1])),
        threadgroup: [shape.threads, 1, 1],
    }
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

fn check(shape: &Shape) {
    let (x, gain) = operands(shape);
    let found = launch(shape).run_floats();
    let difference = difference(&found, &reference(&x, &gain));
    assert!(
        difference <= TOLERANCE,
        "width {}, {} heads: {difference:e}",
        shape.width,
        shape.heads
    );
}

/// Launches of one and of several simdgroups.
pub fn launches() -> Vec<Launch> {
    [32, 256]
        .map(|threads| launch(&Shape { threads, ..ROW }))
        .into()
}

#[test]
fn rows_of_every_tail() {
    for width in WIDTHS {
        for threads in [256, 32] {
            check(&Shape {
                width,
                threads,
                ..ROW
            });
        }
    }
}

#[test]
fn heads_of_every_tail() {
    for width in WIDTHS {
        check(&Shape {
            width,
            heads: 2,
            rows: 1,
            threads: 64,
            ..ROW
        });
    }
}

#[test]
fn heads_within_rows_in_place() {
    check(&Shape {
        width: 64,
        heads: 3,
        rows: 2,
        beyond: [5, 5],
        threads: 64,
        in_place: true,
    });
}

/// A threadgroup that the device's limits make smaller, or a fused kernel with more simdgroups.
#[test]
fn the_number_of_threads_changes_no_bit() {
    for (width, in_place) in [(31, false), (257, false), (1536, true)] {
        let with = |threads| {
            let shape = Shape {
                width,
                threads,
                in_place,
                beyond: [3, 3],
                ..ROW
            };
            launch(&shape).run()
        };
        let expected = with(256);
        for threads in [32, 96, 160, 512] {
            assert!(with(threads) == expected, "{threads} threads, {width}");
        }
    }
}
