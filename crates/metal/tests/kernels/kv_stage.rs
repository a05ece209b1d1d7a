//! Packed cells to f32: every value is the dequantized one, to the bit, and attention reads them alike.

use minfer_gguf::TensorType::{F32, Q8_0};
use minfer_gguf::quantize::dequantize;
use minfer_graph::WindowLayout;
use minfer_metal::arguments::{KernelArguments, KvStage};
use minfer_metal::device::{Grid, Size};
use minfer_metal::kernels::KV_STAGE;
use minfer_metal::ops::kv_stage::Staging;

use crate::attention::case::{self, Case, cell_of};
use crate::attention::properties::bits;
use crate::launch::{Launch, Operand};
use crate::values::values;
use crate::{flash_decode, split_attention, three_pass};

/// Cells of `width` features.
fn cells(width: usize, count: usize) -> Vec<u8> {
    let rows = values(width * count, 5);
    let cells = rows.chunks(width).map(|row| cell_of(Q8_0, row));
    cells.flatten().collect()
}

fn launch(width: usize, cells: &[u8]) -> Launch {
    let cell_bytes = cell_of(Q8_0, &vec![0.0; width]).len();
    let count = cells.len() / cell_bytes;
    let args = KvStage {
        vectors: width as u32 / 4,
        cell_bytes: cell_bytes as u32,
    };
    Launch {
        file: KV_STAGE,
        kernel: "kv_stage_q8_0".to_owned(),
        constants: vec![],
        arguments: args.as_bytes().to_vec(),
        operands: vec![Operand::output(width, count), Operand::bytes(cells)],
        bindings: vec![0, 1],
        grid: Grid::Threads(Size([width as u32 / 4, count as u32, 1])),
        threadgroup: [32, 1, 1],
    }
}

pub fn launches() -> Vec<Launch> {
    vec![launch(64, &cells(64, 2))]
}

/// The product of an f16 and a level is a float: nothing is rounded. 34 bytes of a block are no whole word.
#[test]
fn values_are_the_dequantized_ones() {
    for width in [32, 96, 256] {
        let cells = cells(width, 5);
        let found = launch(width, &cells).run_floats();
        let cell_bytes = cells.len() / 5;
        let bytes = Q8_0.row_bytes(width).unwrap();
        for (found, cell) in found.chunks(width).zip(cells.chunks(cell_bytes)) {
            let mut expected = vec![0.0; width];
            dequantize(Q8_0, &cell[..bytes], &mut expected).unwrap();
            assert_eq!(bits(found), bits(&expected));
        }
    }
}

/// The case on its cells as f32.
fn staged(case: &Case) -> Case {
    let width = case.heads.kv * case.heads.dim;
    let stage = |cells: &[u8]| {
        let words = launch(width, cells).run();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    Case {
        ty: F32,
        keys: stage(&case.keys),
        values: stage(&case.values),
        ..case.clone()
    }
}

#[test]
fn attention_has_the_bits_of_native_reads() {
    let heads = case::heads(4, 2, 64);
    let windows = || case::causal(&[33, 130, 64]);
    let case = Case::new(Q8_0, heads, 130, windows());
    let staged = staged(&case);
    for run in [
        Case::run,
        flash_decode::run,
        split_attention::run,
        three_pass::run,
    ] {
        assert_eq!(bits(&run(&staged)), bits(&run(&case)));
    }
}

#[test]
fn runs_of_all_rows_lie_together() {
    let staging = |layout, windows: &[i32]| {
        let staging = Staging::new(layout, windows, 100).unwrap();
        (staging.cells(), staging.windows().to_vec())
    };
    assert_eq!(
        staging(WindowLayout::Causal, &[4, 9, 0]),
        (10, vec![4, 9, 0])
    );
    assert_eq!(
        staging(WindowLayout::Span, &[50, 60, 7, 7, 10, 20, 55, 62]),
        (22, vec![10, 20, 0, 0, 0, 10, 15, 22])
    );
    let maps = [[90, 10, 5, 0, 20, 5, 0, 2], [21, 6, 40, 1, 99, 1, 3, 0]];
    let moved = [[10, 10, 0, 0, 2, 5, 0, 2], [3, 6, 9, 1, 19, 1, 0, 0]];
    assert_eq!(
        staging(WindowLayout::Map, &maps.concat()),
        (20, moved.concat())
    );
    assert_eq!(staging(WindowLayout::Span, &[7, 7]), (0, vec![0, 0]));
}

#[test]
fn a_window_outside_of_the_region_is_refused() {
    let error = Staging::new(WindowLayout::Span, &[0, 4, 98, 101], 100).unwrap_err();
    assert_eq!(
        error.to_string(),
        "kv_stage_q8_0: a window is cells 98..101 of row 1, within 0..100 is needed"
    );
}
