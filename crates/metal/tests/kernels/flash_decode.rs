//! Attention of generated rows by chunks: values, and what a row may depend on.

mod encode;

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};
use minfer_metal::arguments::{FlashCombine, FlashDecode, KernelArguments};
use minfer_metal::device::{ConstantValue, Grid, Size};
use minfer_metal::kernels::FLASH_DECODE;

use crate::attention::case::{Case, Heads, Windows, causal, heads, maps, spans};
use crate::attention::properties;
use crate::launch::{Launch, Operand};
use crate::values::difference;

/// Keys of windows: around blocks, one chunk of one block to several of more.
const KEYS: [i32; 10] = [1, 31, 32, 33, 63, 64, 65, 130, 257, 1025];
const CELLS: usize = 1060;
/// Features beyond the width between rows of output and queries.
const BEYOND: [usize; 2] = [3, 6];
/// As for attention of any shape: the errors of scores, exponentials and sums.
const TOLERANCE: f64 = 1e-6;

/// Chunks that a window of `keys` has: as many as 32 keys each give, up to `most`, then longer ones.
fn chunks_of(keys: usize, most: usize) -> usize {
    let blocks = keys.div_ceil(32);
    let blocks_of_chunk = (1..).find(|n| n * most >= blocks).unwrap();
    blocks.div_ceil(blocks_of_chunk)
}

fn longest(case: &Case, most: usize) -> usize {
    let windows = case.windows.cells();
    let chunks = windows.iter().map(|cells| chunks_of(cells.len(), most));
    chunks.max().unwrap().max(1)
}

fn constants(case: &Case, most: usize) -> Vec<(u32, ConstantValue)> {
    let (_, window_width) = case.windows.encoded();
    vec![
        (0, ConstantValue::U32(case.heads.dim as u32)),
        (1, ConstantValue::U32(window_width)),
        (3, ConstantValue::U32(most as u32)),
    ]
}

/// Partials; those that nothing writes stay NaN.
fn chunks(case: &Case, most: usize) -> Launch {
    let Heads { query, kv, dim } = case.heads;
    let (rows, chunks) = (case.windows.rows(), longest(case, most));
    let group = query / kv;
    let slices = group.div_ceil(8);
    let q_stride = case.width() + BEYOND[1];
    let args = FlashDecode {
        group: group as u32,
        heads: query as u32,
        chunks: chunks as u32,
        q_stride: q_stride as u32,
        cell_bytes: case.cell_bytes() as u32,
        scale: case.scale(),
    };
    let mut partials = Operand::output(dim + 2, rows * query * chunks);
    partials.words.fill(f32::NAN.to_bits());
    let mut constants = constants(case, most);
    constants.push((2, ConstantValue::U32(group.div_ceil(slices) as u32)));
    Launch {
        file: FLASH_DECODE,
        kernel: format!("flash_decode_{}", case.ty).to_lowercase(),
        constants,
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            partials,
            Operand::input(case.width(), &case.q).strided(q_stride),
            Operand::bytes(&case.keys),
            Operand::bytes(&case.values),
            Operand::integers(&case.windows.encoded().0),
        ],
        bindings: vec![0, 1, 2, 3, 4],
        grid: Grid::Threadgroups(Size([kv * slices, chunks, rows].map(|n| n as u32))),
        threadgroup: [32, 1, 1],
    }
}

fn combine(case: &Case, partials: &[f32], most: usize) -> Launch {
    let rows = case.windows.rows();
    let y_stride = case.width() + BEYOND[0];
    let args = FlashCombine {
        heads: case.heads.query as u32,
        chunks: longest(case, most) as u32,
        y_stride: y_stride as u32,
    };
    Launch {
        file: FLASH_DECODE,
        kernel: "flash_decode_combine".to_owned(),
        constants: constants(case, most),
        arguments: args.as_bytes().to_vec(),
        operands: vec![
            Operand::output(case.width(), rows).strided(y_stride),
            Operand::input(case.heads.dim + 2, partials),
            Operand::integers(&case.windows.encoded().0),
        ],
        bindings: vec![0, 1, 2],
        grid: Grid::Threads(Size([case.width() as u32, rows as u32, 1])),
        threadgroup: [64, 1, 1],
    }
}

/// Both kernels, in every mode, with windows cut into `most` chunks or less.
fn run_chunks(case: &Case, most: usize) -> Vec<f32> {
    combine(case, &chunks(case, most).run_floats(), most).run_floats()
}

pub fn run(case: &Case) -> Vec<f32> {
    run_chunks(case, 16)
}

pub fn launches() -> Vec<Launch> {
    let case = |ty| Case::new(ty, heads(2, 1, 64), 40, Windows::Causal(vec![39]));
    let mut launches: Vec<_> = [F32, F16, Q8_0].map(|ty| chunks(&case(ty), 16)).into();
    launches.push(combine(&case(F32), &[1.0; 2 * 2 * 66], 16));
    launches
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
    check(F32, heads(4, 2, 128), spans(&[1, 65, 1025]));
}

#[test]
fn f16_cells() {
    check(F16, heads(4, 2, 64), maps(&KEYS));
    check(F16, heads(14, 1, 128), spans(&[31, 130]));
    check(F16, heads(1, 1, 128), causal(&[32, 63]));
}

/// 9 query heads are served by two simdgroups, the second of which has one less.
#[test]
fn q8_0_cells() {
    check(Q8_0, heads(2, 1, 128), spans(&KEYS));
    check(Q8_0, heads(14, 2, 64), maps(&[65, 257]));
    check(Q8_0, heads(18, 2, 64), causal(&[33, 130]));
}

/// Every weight is far from 1 unless the largest score of all chunks is its scale.
#[test]
fn scores_far_from_zero() {
    const FACTOR: f32 = 64.0;
    let mut case = Case::new(F32, heads(2, 1, 64), CELLS, causal(&[130, 600]));
    case.q.iter_mut().for_each(|q| *q *= FACTOR);
    let difference = difference(&run(&case), &case.expected());
    let tolerance = f64::from(FACTOR) * TOLERANCE;
    assert!(difference <= tolerance, "{difference:e}");
}

/// Of several chunks, each of several blocks.
#[test]
fn scores_far_below_zero() {
    properties::scores_far_below_zero(|case| run_chunks(case, 2));
}

#[test]
fn any_number_of_chunks() {
    let case = Case::new(F16, heads(2, 1, 64), CELLS, spans(&[1, 65, 129, 530]));
    for most in [1, 2, 3, 15] {
        let difference = difference(&run_chunks(&case, most), &case.expected());
        assert!(difference <= TOLERANCE, "{most}: {difference:e}");
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn companions_do_not_change_a_bit() {
    for (ty, windows) in [(F16, maps(&[40, 700, 65])), (Q8_0, spans(&[1, 530, 64]))] {
        let case = Case::new(ty, heads(2, 1, 64), CELLS, windows);
        let together = run(&case);
        for (row, together) in together.chunks(case.width()).enumerate() {
            assert_eq!(bits(&run(&case.row(row))), bits(together), "{ty} row {row}");
        }
    }
}

#[test]
fn the_same_cells_give_the_same_bits_in_every_layout() {
    let layouts = [
        Windows::Causal(vec![599]),
        Windows::Spans(vec![[0, 600]]),
        Windows::Maps(vec![[0, 33, 0, 0, 33, 1, 34, 566]]),
    ];
    let run = |windows| bits(&run(&Case::new(F32, heads(2, 1, 64), CELLS, windows)));
    let [causal, spans, maps] = layouts.map(run);
    assert_eq!(causal, spans);
    assert_eq!(causal, maps);
}

#[test]
fn a_row_without_cells_is_zeros() {
    let y = run(&Case::new(
        F32,
        heads(2, 1, 64),
        8,
        Windows::Spans(vec![[5, 5]]),
    ));
    assert_eq!(bits(&y), vec![0; 128]);
}

#[test]
fn a_row_that_sees_one_cell_is_its_value() {
    properties::a_row_that_sees_one_cell_is_its_value(run);
}

/// A cell that is not finite spoils the rows that see it, and no other.
#[test]
fn cells_outside_of_a_window_are_not_read() {
    let nan = f32::NAN.to_le_bytes();
    // Of q8_0, the scale of a block.
    for (ty, poison) in [(F32, &nan[..]), (Q8_0, &[0, 0x7e])] {
        let windows = Windows::Maps(vec![
            [0, 3, 3, 2, 0, 0, 0, 0],
            [0, 3, 8, 4, 20, 2, 0, 0],
            [0, 200, 0, 0, 0, 0, 0, 0],
            [190, 10, 0, 0, 30, 90, 5, 1],
        ]);
        let clean = Case::new(ty, heads(2, 1, 64), 200, windows);
        let mut case = clean.clone();
        let poisoned = [3, 12, 22, 29, 120, 189];
        for cell in poisoned {
            let place = cell * case.cell_bytes()..;
            case.keys[place.clone()][..poison.len()].copy_from_slice(poison);
            case.values[place][..poison.len()].copy_from_slice(poison);
        }
        let (found, expected) = (run(&case), run(&clean));
        let rows = found.chunks(128).zip(expected.chunks(128));
        for ((found, expected), cells) in rows.zip(case.windows.cells()) {
            match cells.iter().any(|cell| poisoned.contains(cell)) {
                true => assert!(found.iter().all(|y| y.is_nan()), "{ty} {cells:?}"),
                false => assert_eq!(bits(found), bits(expected), "{ty} {cells:?}"),
            }
        }
    }
}

/// An odd number of keys where two are read together: the second would be beyond the region.
#[test]
fn cells_after_the_last_are_not_read() {
    for ty in [F32, F16, Q8_0] {
        let case = Case::new(ty, heads(2, 1, 64), 33, causal(&[33]));
        let difference = difference(&run(&case), &case.expected());
        assert!(difference <= TOLERANCE, "{ty}: {difference:e}");
    }
}
