//! Rotary position embedding.

use std::f64::consts::TAU;

use minfer_metal::arguments::{KernelArguments, Rope};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::ROPE;

use crate::launch::{Launch, Operand};
use crate::values::{difference, values};

const BASE: f32 = 10_000.0;
const SCALE: f32 = 0.5;
const POSITIONS: [i32; 5] = [0, -7, 200, 131_071, 1_000_000];
const HEADS: usize = 2;

/// Metal allows sine and cosine 4 units in the last place, 2.4e-7, of each of two products.
const TOLERANCE: f64 = 1e-6;

struct Case {
    interleaved: bool,
    factors: bool,
    head_dim: usize,
    n_rot: usize,
    in_place: bool,
}

fn operands(case: &Case) -> (Vec<f32>, Vec<f32>) {
    let x = values(POSITIONS.len() * HEADS * case.head_dim, 5);
    let factors = values(case.n_rot / 2, 6);
    (x, factors.iter().map(|value| value.abs() + 0.5).collect())
}

fn launch(case: &Case) -> Launch {
    let width = HEADS * case.head_dim;
    let stride = width + 6;
    let (x, factors) = operands(case);
    let args = Rope {
        heads: HEADS as u32,
        head_dim: case.head_dim as u32,
        n_rot: case.n_rot as u32,
        y_stride: stride as u32,
        x_stride: if case.in_place { stride } else { width } as u32,
    };
    let input = Operand::input(width, &x);
    let rest = [Operand::integers(&POSITIONS), turns(case, &factors)];
    let (mut operands, bindings) = if case.in_place {
        (vec![input.strided(stride)], vec![0, 0, 1, 2])
    } else {
        (
            vec![
                Operand::output(width, POSITIONS.len()).strided(stride),
                input,
            ],
            vec![0, 1, 2, 3],
        )
    };
    operands.extend(rest);
    Launch {
        file: ROPE,
        kernel: "rope".to_owned(),
        constants: vec![(0, ConstantValue::Bool(case.interleaved))],
        arguments: args.as_bytes().to_vec(),
        operands,
        bindings,
        grid: Grid::Threads(Size([
            case.head_dim as u32 / 2 + 5,
            HEADS as u32,
            POSITIONS.len() as u32,
        ])),
        threadgroup: [32, 2, 1],
    }
}

fn check(case: &Case) {
    let (x, factors) = operands(case);
    let expected = reference(case, &x, &factors);
    let difference = difference(&launch(case).run_floats(), &expected);
    assert!(
        difference <= TOLERANCE,
        "head {}: {difference:e}",
        case.head_dim
    );
}

/// Revolutions per position of each pair.
fn revolutions(case: &Case, factors: &[f32]) -> impl Iterator<Item = f64> {
    factors.iter().enumerate().map(|(i, factor)| {
        let frequency = f64::from(BASE).powf(-2.0 * i as f64 / case.n_rot as f64);
        let factor = if case.factors {
            f64::from(*factor)
        } else {
            1.0
        };
        f64::from(SCALE) * frequency / factor / TAU
    })
}

/// The same as the kernel takes them, sums of two floats.
fn turns(case: &Case, factors: &[f32]) -> Operand {
    let parts = revolutions(case, factors).flat_map(|turn| {
        let first = turn as f32;
        [first, (turn - f64::from(first)) as f32]
    });
    let parts: Vec<_> = parts.collect();
    Operand::input(parts.len(), &parts)
}

fn reference(case: &Case, x: &[f32], factors: &[f32]) -> Vec<f64> {
    let mut y: Vec<_> = x.iter().map(|x| f64::from(*x)).collect();
    for (index, head) in y.chunks_mut(case.head_dim).enumerate() {
        let position = f64::from(POSITIONS[index / HEADS]);
        for (i, turn) in revolutions(case, factors).enumerate() {
            let (sin, cos) = (position * turn * TAU).sin_cos();
            let (a, b) = match case.interleaved {
                true => (2 * i, 2 * i + 1),
                false => (i, i + case.n_rot / 2),
            };
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
        }
    }
    y
}

/// A launch of each style.
pub fn launches() -> Vec<Launch> {
    let case = |interleaved| Case {
        interleaved,
        factors: true,
        head_dim: 80,
        n_rot: 20,
        in_place: false,
    };
    [false, true].map(|style| launch(&case(style))).into()
}

#[test]
fn both_styles_whole_and_partial_heads() {
    for interleaved in [false, true] {
        for factors in [false, true] {
            for (head_dim, n_rot) in [(64, 64), (128, 96), (80, 20)] {
                for in_place in [false, true] {
                    check(&Case {
                        interleaved,
                        factors,
                        head_dim,
                        n_rot,
                        in_place,
                    });
                }
            }
        }
    }
}

/// Heads have an even width.
#[test]
fn heads_of_every_tail() {
    for interleaved in [false, true] {
        for head_dim in [2, 32, 34, 256, 258, 896, 1536] {
            check(&Case {
                interleaved,
                factors: false,
                head_dim,
                n_rot: head_dim,
                in_place: false,
            });
        }
    }
}
