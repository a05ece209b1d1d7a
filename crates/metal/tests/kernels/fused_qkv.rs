//! Queries, keys and values: values, and the bits of one operation after the other.

mod case;
mod refused;

use std::f64::consts::TAU;

use minfer_gguf::TensorType;
use minfer_graph::{KvFormat, RopeStyle};
use minfer_metal::arguments::{FusedQkv as Arguments, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::FUSED_QKV;

use crate::launch::{ABSENT, Launch, Operand};
use crate::stage::{Stage, Weight, in_every_mode, normalized};
use crate::values::{difference, values};
use crate::weights::TYPES;
pub use case::{Case, Shape};
use case::{EPS, HEAD_EPS};

/// Of the largest value: sums of 512 products are about a tenth of the magnitudes that their error goes by.
const TOLERANCE: f64 = 1e-5;

/// Everything that there can be.
pub const SHAPE: Shape = Shape {
    types: [8, 8, 10],
    in_width: 512,
    heads: [3, 1],
    head_dim: 64,
    n_rot: 64,
    style: RopeStyle::Split,
    format: KvFormat::F32,
    norm: true,
    biases: true,
    head_norms: true,
    rows: 3,
    beyond: 0,
};

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
const STYLES: [RopeStyle; 2] = [RopeStyle::Split, RopeStyle::Interleaved];

/// Launches with and without the normalizations.
pub fn launches() -> Vec<Launch> {
    [[false, false], [true, false], [false, true], [true, true]]
        .map(launch)
        .into()
}

/// Heads of 40 features: two strips of lanes, and a simdgroup that has outputs of two rounds.
fn launch([norm, head_norms]: [bool; 2]) -> Launch {
    let [in_width, head_dim, rows, cells] = [300, 40, 2, 3];
    let args = Arguments {
        in_width,
        q_heads: 1,
        kv_heads: 1,
        head_dim,
        n_rot: 20,
        rows,
        x_stride: in_width,
        y_stride: head_dim,
        q_row_bytes: 4 * in_width,
        k_row_bytes: 4 * in_width,
        v_row_bytes: 4 * in_width,
        cell_bytes: 4 * head_dim,
        eps: EPS,
        q_eps: EPS,
        k_eps: EPS,
    };
    let f32_code = ConstantValue::U32(TensorType::F32.code());
    let constants = [
        ConstantValue::Bool(true),
        ConstantValue::U32(rows),
        ConstantValue::Bool(norm),
        ConstantValue::U32(4),
        ConstantValue::Bool(false),
        f32_code,
        f32_code,
        f32_code,
        ConstantValue::Bool(false),
        ConstantValue::Bool(head_norms),
        ConstantValue::Bool(false),
        f32_code,
    ];
    let input = |width: u32, height: u32, seed| {
        Operand::input(width as usize, &values((width * height) as usize, seed))
    };
    let region = || Operand::output(head_dim as usize, cells as usize);
    let if_there = |is_there, operand| if is_there { operand } else { ABSENT };
    Launch {
        file: FUSED_QKV,
        kernel: "fused_qkv".to_owned(),
        constants: (0..).zip(constants).collect(),
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(head_dim as usize, rows as usize),
            region(),
            region(),
            input(in_width, rows, 1),
            input(in_width, head_dim, 2),
            Operand::integers(&[7, 1]),
            input(20, 1, 3),
            Operand::integers(&[2, 0]),
            input(in_width, 1, 4),
            input(head_dim, 1, 5),
        ],
        bindings: vec![
            0,
            1,
            2,
            3,
            4,
            4,
            4,
            5,
            6,
            7,
            if_there(norm, 8),
            ABSENT,
            ABSENT,
            ABSENT,
            if_there(head_norms, 9),
            if_there(head_norms, 9),
        ],
        grid: Grid::Threadgroups(Size([3, 1, 1])),
        threadgroup: [64, 1, 1],
    }
}

/// Heads after normalization and rotation, in double precision.
fn turned(case: &Case, x: &mut [f64], part: usize) {
    let Shape {
        head_dim,
        n_rot,
        style,
        head_norms,
        ..
    } = case.shape;
    let heads = x.len() / head_dim / case.shape.rows;
    for (i, head) in x.chunks_mut(head_dim).enumerate() {
        if head_norms {
            let squares: f64 = head.iter().map(|x| x * x).sum();
            let root = (squares / head_dim as f64 + f64::from(HEAD_EPS[part])).sqrt();
            for (x, gain) in head.iter_mut().zip(&case.head_gains[part]) {
                *x = *x / root * f64::from(*gain);
            }
        }
        let position = f64::from(case.positions[i / heads]);
        for pair in 0..n_rot / 2 {
            let frequency = 0.5 * 1e4f64.powf(-2.0 * pair as f64 / n_rot as f64);
            let (sin, cos) = (position * frequency % TAU).sin_cos();
            let (a, b) = match style {
                RopeStyle::Interleaved => (2 * pair, 2 * pair + 1),
                RopeStyle::Split => (pair, pair + n_rot / 2),
            };
            (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
        }
    }
}

/// Compares with double precision, of cells in f32.
fn check_values(case: &Case) {
    let found = in_every_mode(|stage| case.fused(stage));
    let x = normalized(&case.x, &case.gain, EPS);
    let widths = case.shape.widths();
    for (part, found) in found.into_iter().enumerate() {
        let products = case.weights[part].products(&x);
        let biases = case.biases[part].iter().cycle();
        let mut expected: Vec<_> = products
            .iter()
            .zip(biases)
            .map(|([sum, _], bias)| sum + f64::from(*bias))
            .collect();
        if part < 2 {
            turned(case, &mut expected, part);
        }
        let found: Vec<_> = found.into_iter().map(f32::from_bits).collect();
        let found = match part {
            0 => found,
            _ => {
                let cells = case.cells.iter().map(|cell| *cell as usize * widths[part]);
                cells
                    .flat_map(|first| found[first..][..widths[part]].to_vec())
                    .collect()
            }
        };
        let difference = difference(&found, &expected);
        assert!(
            difference <= TOLERANCE,
            "{:?}, part {part}: {difference:e}",
            case.shape
        );
    }
}

#[test]
fn values_of_every_type() {
    for ty in 0..TYPES.len() {
        let style = STYLES[ty % 2];
        let shape = Shape {
            types: [ty, ty, 10],
            style,
            head_norms: ty % 3 != 0,
            ..SHAPE
        };
        check_values(&Case::new(shape, Weight::quantized));
    }
}

/// In every mode: formats differ in what lanes do together.
#[test]
fn every_format_has_the_bits_of_one_operation_after_the_other() {
    for format in FORMATS {
        for (head_dim, n_rot) in [(64, 32), (96, 96)] {
            let shape = Shape {
                format,
                head_dim,
                n_rot,
                ..SHAPE
            };
            let case = Case::random(shape);
            let found = in_every_mode(|stage| case.fused(stage));
            assert!(found == case.unfused(&mut Stage::unchecked()), "{shape:?}");
        }
    }
}

/// Queries, keys and values of types that differ in blocks and in outputs that a simdgroup computes at once.
#[test]
fn every_type_and_mixture_has_these_bits() {
    let mut stage = Stage::unchecked();
    let same = (0..TYPES.len()).map(|ty| [ty; 3]);
    let mixed = [[8, 8, 10], [5, 5, 7], [3, 8, 1], [10, 0, 10], [4, 9, 9]];
    for (i, types) in same.chain(mixed).enumerate() {
        for rows in (1..=9).chain([17]) {
            let shape = Shape {
                types,
                rows,
                in_width: 1280,
                format: FORMATS[(i + rows) % 3],
                style: STYLES[rows % 2],
                heads: [2, 1],
                ..SHAPE
            };
            Case::random(shape).check_bits(&mut stage);
        }
    }
}

#[test]
fn each_part_may_be_absent() {
    let mut stage = Stage::unchecked();
    for parts in 0..16 {
        let has = |part: u32| parts >> part & 1 == 1;
        let shape = Shape {
            types: [2, 3, 7],
            norm: has(0),
            biases: has(1),
            head_norms: has(2),
            style: STYLES[usize::from(has(3))],
            n_rot: 48,
            ..SHAPE
        };
        Case::random(shape).check_bits(&mut stage);
    }
}

#[test]
fn heads_and_inputs_of_every_tail() {
    let mut stage = Stage::unchecked();
    for (head_dim, n_rot) in [(2, 2), (30, 16), (34, 34), (80, 20), (128, 128), (256, 64)] {
        for (format, style) in FORMATS.into_iter().zip([STYLES[0], STYLES[1], STYLES[0]]) {
            if format == KvFormat::Q8_0 && head_dim % 32 != 0 {
                continue;
            }
            for (in_width, rows, beyond) in [(31, 1, 3), (257, 4, 1), (896, 9, 4)] {
                let shape = Shape {
                    types: [0, 1, 2],
                    in_width,
                    head_dim,
                    n_rot,
                    style,
                    format,
                    rows,
                    beyond,
                    heads: [1, 2],
                    ..SHAPE
                };
                Case::random(shape).check_bits(&mut stage);
            }
        }
    }
}
