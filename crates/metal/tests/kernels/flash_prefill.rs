//! Attention of prompt rows on simdgroup matrices: values, and what they cost.

mod encode;
mod rows;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_metal::arguments::{FlashPrefill, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::FLASH_PREFILL;
use minfer_metal::ops::flash_prefill::{QUERIES, SIMDGROUPS};

use crate::attention::case::{Case, Heads, Windows, causal, heads, maps, spans};
use crate::launch::{Launch, Operand, options};
use crate::values::difference;

/// Keys of windows: around fragments of 8, one tile of 64 and several.
const KEYS: [i32; 10] = [1, 7, 8, 9, 63, 64, 65, 100, 129, 257];
const CELLS: usize = 290;
/// Features beyond the width between rows of output and queries.
const BEYOND: [usize; 2] = [3, 6];
/// Of the largest output. Queries, keys, values and weights are f32, whatever the region's format, so that this is the
/// tolerance of attention of any shape: errors of scores, sums of up to 128 products of random signs that are about 1
/// after scaling, of exponentials and of sums. With halves it would be about 5e-4.
const TOLERANCE: f64 = 1e-6;

fn launch(case: &Case) -> Launch {
    let Heads { query, kv, dim } = case.heads;
    let (rows, group) = (case.windows.rows(), query / kv);
    let [y_stride, q_stride] = BEYOND.map(|beyond| case.width() + beyond);
    let (windows, window_width) = case.windows.encoded();
    let args = FlashPrefill {
        group: group as u32,
        rows: rows as u32,
        y_stride: y_stride as u32,
        q_stride: q_stride as u32,
        cell_bytes: case.cell_bytes() as u32,
        scale: case.scale(),
    };
    let blocks = (rows * group).div_ceil(QUERIES);
    Launch {
        file: FLASH_PREFILL,
        kernel: format!("flash_prefill_{}", case.ty).to_lowercase(),
        constants: vec![
            (0, ConstantValue::U32(dim as u32)),
            (1, ConstantValue::U32(window_width)),
        ],
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(case.width(), rows).strided(y_stride),
            Operand::input(case.width(), &case.q).strided(q_stride),
            Operand::bytes(&case.keys),
            Operand::bytes(&case.values),
            Operand::integers(&windows),
        ],
        bindings: vec![0, 1, 2, 3, 4],
        grid: Grid::Threadgroups(Size([blocks as u32, kv as u32, 1])),
        threadgroup: [32 * SIMDGROUPS as u32, 1, 1],
    }
}

/// Without reports; the bits of the output.
fn bits(case: &Case) -> Vec<u32> {
    launch(case).words(options())
}

/// Two tiles with a tail, and queries of two simdgroups.
pub fn launches() -> Vec<Launch> {
    let windows = || Windows::Causal((60..70).collect());
    [F32, F16, Q8_0]
        .map(|ty| launch(&Case::new(ty, heads(1, 1, 128), 70, windows())))
        .into()
}

/// In every mode.
fn run(case: &Case) -> Vec<f32> {
    launch(case).run_floats()
}

fn check(ty: TensorType, heads: Heads, windows: Windows) {
    let case = Case::new(ty, heads, CELLS, windows);
    let difference = difference(&run(&case), &case.expected());
    assert!(difference <= TOLERANCE, "{ty} {heads:?}: {difference:e}");
}

#[test]
fn f32_cells() {
    check(F32, heads(2, 2, 64), causal(&KEYS));
    check(F32, heads(7, 1, 128), maps(&[33, 64, 257]));
    check(F32, heads(4, 2, 128), spans(&[1, 65, 257]));
}

#[test]
fn f16_cells() {
    check(F16, heads(4, 2, 64), maps(&KEYS));
    check(F16, heads(14, 1, 128), spans(&[31, 130]));
    check(F16, heads(1, 1, 128), causal(&[32, 63]));
}

#[test]
fn q8_0_cells() {
    check(Q8_0, heads(2, 1, 128), spans(&KEYS));
    check(Q8_0, heads(14, 2, 64), maps(&[65, 257]));
    check(Q8_0, heads(40, 1, 64), causal(&[33, 130]));
}
