//! Products of weights, alone and with what is fused with them.

use minfer_graph::{KvFormat, RopeStyle};
use minfer_metal::ops::gemm::gemm;
use minfer_metal::ops::matvec::matvec;
use minfer_metal::ops::{Encode, Matrix, OpError, Rows};
use minfer_softmetal::{SoftBuffer, SoftDevice};

use super::table::{Table, Work};
use super::{FORMATS, GENERATED, HEAD_DIM, HEADS, PROMPT, WIDTH, rows_of};
use crate::fused_matmul::Parts;
use crate::fused_qkv::Shape;
use crate::stage::Weight;
use crate::values::values;
use crate::weights::{TYPES, WeightType};
use crate::{fused_ffn, fused_matmul, fused_qkv};

/// Of rows of blocks of 256, which are no part of 896.
const BLOCKS: usize = 1024;
/// An eighth of the feed-forward network.
const HIDDEN: usize = 608;

/// Place of Q8_0 in [`TYPES`].
const Q8_0: usize = 7;

type Product = fn(
    &mut Encode<'_, SoftDevice>,
    Rows<'_, SoftBuffer>,
    Matrix<'_, SoftBuffer>,
    Rows<'_, SoftBuffer>,
) -> Result<(), OpError>;

pub fn count(table: &mut Table) {
    for ty in &TYPES {
        product(table, ty, HEADS[1] * HEAD_DIM, PROMPT, gemm);
    }
    for rows in GENERATED {
        for ty in &TYPES {
            product(table, ty, WIDTH, rows, matvec);
        }
    }
    // One row of every type, several of one.
    let types_and_rows = || (0..TYPES.len()).map(|ty| (ty, 1)).chain([(Q8_0, 4)]);
    for (ty, rows) in types_and_rows() {
        down(table, ty, rows);
    }
    for (ty, rows) in types_and_rows() {
        feed_forward(table, ty, rows);
    }
    for (ty, rows) in types_and_rows() {
        queries_keys_values(table, ty, rows, KvFormat::F16);
    }
    for format in FORMATS {
        queries_keys_values(table, Q8_0, 1, format);
    }
}

fn in_width(ty: &WeightType) -> usize {
    if ty.has(WIDTH) { WIDTH } else { BLOCKS }
}

fn product(
    table: &mut Table,
    ty: &'static WeightType,
    out_width: usize,
    rows: usize,
    product: Product,
) {
    let in_width = in_width(ty);
    let weight = Weight::random(ty, [in_width, out_width], 1);
    let work = Work {
        what: format!("{in_width} → {out_width}, {}", rows_of(rows)),
        multiplications: in_width * out_width * rows,
    };
    table.count(&work, |stage| {
        let buffer = stage.bytes(&weight.bytes);
        let x = stage.value(in_width, 0, &values(in_width * rows, 2));
        let y = stage.value(out_width, 0, &vec![0.0; out_width * rows]);
        let matrix = weight.matrix(&buffer);
        stage
            .run(|encode| product(encode, y.rows(), matrix, x.rows()))
            .unwrap();
    });
}

/// The end of an attention or of a feed-forward network.
fn down(table: &mut Table, ty: usize, rows: usize) {
    let ty = &TYPES[ty];
    let in_width = in_width(ty);
    let parts = Parts {
        norm: false,
        bias: false,
        residual: true,
        gathered: false,
    };
    let weight = Weight::random(ty, [in_width, WIDTH], 3);
    let case = fused_matmul::Case::new(weight, parts, rows, 0);
    let what = format!(
        "{}, {in_width} → {WIDTH}, residual, {}",
        ty.name,
        rows_of(rows)
    );
    table.count(&Work::new(what), |stage| {
        case.fused(stage);
    });
}

fn feed_forward(table: &mut Table, ty: usize, rows: usize) {
    let name = TYPES[ty].name;
    let in_width = in_width(&TYPES[ty]);
    let case = fused_ffn::Case::random([ty, ty], [in_width, HIDDEN], true, rows, 0);
    let what = format!("{name}, {in_width} → 2 × {HIDDEN}, {}", rows_of(rows));
    table.count(&Work::new(what), |stage| {
        case.fused(stage);
    });
}

fn queries_keys_values(table: &mut Table, ty: usize, rows: usize, format: KvFormat) {
    let name = TYPES[ty].name;
    let in_width = in_width(&TYPES[ty]);
    let shape = Shape {
        types: [ty; 3],
        in_width,
        heads: HEADS,
        head_dim: HEAD_DIM,
        n_rot: HEAD_DIM,
        style: RopeStyle::Split,
        format,
        norm: true,
        biases: true,
        head_norms: false,
        rows,
        beyond: 0,
    };
    let case = fused_qkv::Case::random(shape);
    let [q, kv] = HEADS;
    let heads = format!("{q} + {kv} + {kv} heads");
    let format = format!("{format:?}").to_lowercase();
    let rows = rows_of(rows);
    let what = format!("{name}, {in_width} → {heads}, {format} cells, {rows}");
    table.count(&Work::new(what), |stage| {
        case.fused(stage);
    });
}
