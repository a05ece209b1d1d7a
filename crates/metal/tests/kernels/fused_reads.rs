//! What fused kernels read: weights as often as `matvec`, and rows once more for the sum of squares.

use minfer_metal::ops::fused_ffn::{FusedFfn, fused_ffn};
use minfer_metal::ops::fused_matmul::{FusedMatMul, fused_matmul};
use minfer_metal::ops::matvec::{
    SIMDGROUPS, matvec, outputs_per_threadgroup, rows_per_threadgroup,
};
use minfer_metal::ops::norm::Normalization;

use crate::fused_qkv::{Case, SHAPE, Shape};
use crate::launch::options;
use crate::stage::{Stage, Value, Weight};
use crate::values::values;
use crate::weights::{TYPES, WeightType};

/// Simdgroups of a threadgroup with a normalization.
const PARTS: usize = 8;
const IN_WIDTH: usize = 512;
const ROW: usize = 4 * IN_WIDTH;
/// Two threadgroups with a normalization for types of four outputs per simdgroup, three for those of two.
const OUT_WIDTH: usize = 37;

fn outputs_per_simdgroup(ty: &WeightType) -> usize {
    outputs_per_threadgroup(ty.ty).unwrap() / SIMDGROUPS
}

/// Bytes that the last dispatch read.
fn bytes_read(stage: &Stage) -> usize {
    let kernel = stage.device.take_statistics().kernels.pop().unwrap();
    kernel.counters.bytes_read as usize
}

fn row(stage: &Stage, width: usize, rows: usize) -> Value {
    stage.value(width, 0, &values(rows * width, 51))
}

/// Bytes that `matvec` reads of a weight for a row.
fn of_weight(stage: &mut Stage, weight: &Weight) -> usize {
    let [in_width, out_width] = weight.shape;
    let (x, y) = (row(stage, in_width, 1), row(stage, out_width, 1));
    let buffer = stage.bytes(&weight.bytes);
    let matrix = weight.matrix(&buffer);
    stage
        .run(|encode| matvec(encode, y.rows(), matrix, x.rows()))
        .unwrap();
    let of_x = out_width.div_ceil(outputs_per_simdgroup(weight.ty)) * 4 * in_width;
    bytes_read(stage) - of_x
}

/// Rows that simdgroups read, each a row of `x` or the gain, for the products of a weight.
fn rows_read(ty: &WeightType, rows: usize) -> usize {
    2 * rows * OUT_WIDTH.div_ceil(outputs_per_simdgroup(ty))
}

/// Rows that threadgroups read for their sums of squares.
fn squares_read(ty: &WeightType, rows: usize) -> usize {
    rows * OUT_WIDTH.div_ceil(PARTS * outputs_per_simdgroup(ty))
}

#[test]
fn weights_are_read_once_for_eight_rows() {
    for ty in &TYPES {
        let stage = &mut Stage::new(options());
        let weights = [52, 53].map(|seed| Weight::quantized(ty, [IN_WIDTH, OUT_WIDTH], seed));
        let once = of_weight(stage, &weights[0]);
        let buffers = [0, 1].map(|i| stage.bytes(&weights[i].bytes));
        let [gate, up] = [0, 1].map(|i| weights[i].matrix(&buffers[i]));
        let [gain, bias] = [IN_WIDTH, OUT_WIDTH].map(|width| row(stage, width, 1));
        let input_norm = Some(Normalization {
            gain: gain.rows(),
            eps: 1e-5,
        });
        for rows in [1usize, 8, 9] {
            let groups = rows.div_ceil(rows_per_threadgroup(rows));
            let (input, y) = (row(stage, IN_WIDTH, rows), row(stage, OUT_WIDTH, rows));
            let x = input.rows();
            let (rows_read, squares) = (rows_read(ty, rows), squares_read(ty, rows));

            let operands = FusedFfn {
                gate,
                up,
                x,
                input_norm,
            };
            stage
                .run(|encode| fused_ffn(encode, y.rows(), operands))
                .unwrap();
            let expected = 2 * groups * once + ROW * (2 * rows_read + squares);
            assert_eq!(bytes_read(stage), expected, "{} rows of {}", rows, ty.name);

            let operands = FusedMatMul {
                weight: up,
                x,
                input_norm,
                bias: Some(bias.rows()),
                residual: Some(y.rows()),
                gathered: None,
            };
            stage
                .run(|encode| fused_matmul(encode, y.rows(), operands))
                .unwrap();
            let of_sums = 2 * 4 * rows * OUT_WIDTH;
            let expected = groups * once + ROW * (rows_read + squares) + of_sums;
            assert_eq!(bytes_read(stage), expected, "{} rows of {}", rows, ty.name);
        }
    }
}

/// Twice the input width less once leaves out what does not depend on it.
#[test]
fn queries_keys_and_values_are_read_once() {
    for (types, rows) in [([8, 8, 10], 1), ([3, 3, 7], 8), ([0, 4, 9], 9)] {
        let stage = &mut Stage::new(options());
        let [[once, once_weights], [twice, twice_weights]] = [1, 2].map(|times| {
            let shape = Shape {
                types,
                rows,
                in_width: times * IN_WIDTH,
                ..SHAPE
            };
            let case = Case::random(shape);
            case.fused(stage);
            let read = bytes_read(stage);
            let weights = case.weights.iter().map(|weight| of_weight(stage, weight));
            [read, weights.sum()]
        });
        let span = types.map(|ty| outputs_per_simdgroup(&TYPES[ty]));
        let [q, kv] = SHAPE.heads;
        let heads = [q, kv, kv].into_iter().zip(span);
        let per_row = heads.map(|(heads, span)| heads * (2 * SHAPE.head_dim / span + 1));
        let groups = rows.div_ceil(rows_per_threadgroup(rows));
        let expected =
            groups * (twice_weights - once_weights) + ROW * rows * per_row.sum::<usize>();
        assert_eq!(twice - once, expected, "{types:?}");
    }
}
