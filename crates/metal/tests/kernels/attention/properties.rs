//! What a row of attention may depend on, whatever kernels compute it.

use minfer_gguf::TensorType::{self, F16, F32, Q8_0};

use super::case::{Case, Windows};
use crate::values::difference;

/// Kernels, as the outputs of a case.
pub type Run = fn(&Case) -> Vec<f32>;

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Each row alone has the bits that it has among the others.
pub fn companions_do_not_change_a_bit(run: Run, case: &Case) {
    let together = run(case);
    for (row, together) in together.chunks(case.width()).enumerate() {
        assert_eq!(bits(&run(&case.row(row))), bits(together), "row {row}");
    }
}

/// Makes one feature of a cell NaN: of q8_0, the first block's.
pub fn poison(ty: TensorType, cells: &mut [u8], cell_bytes: usize, cell: usize) {
    let nan = f32::NAN.to_le_bytes();
    let bytes = match ty {
        F32 => &nan[..],
        Q8_0 => &[0, 0x7e],
        _ => panic!("no NaN of {ty}"),
    };
    cells[cell * cell_bytes..][..bytes.len()].copy_from_slice(bytes);
}

/// A cell that is not finite spoils the rows that see it, and no other: its key, its value, and both.
pub fn cells_outside_of_a_window_are_not_read(run: Run, clean: &Case, poisoned: &[usize]) {
    let expected = run(clean);
    for which in [[true, false], [false, true], [true, true]] {
        let mut case = clean.clone();
        let cell_bytes = case.cell_bytes();
        for &cell in poisoned {
            if which[0] {
                poison(case.ty, &mut case.keys, cell_bytes, cell);
            }
            if which[1] {
                poison(case.ty, &mut case.values, cell_bytes, cell);
            }
        }
        let found = run(&case);
        let rows = found
            .chunks(case.width())
            .zip(expected.chunks(case.width()));
        for ((found, expected), cells) in rows.zip(case.windows.cells()) {
            match cells.iter().any(|cell| poisoned.contains(cell)) {
                true => assert!(!found[0].is_finite(), "{which:?} {cells:?}"),
                false => assert_eq!(bits(found), bits(expected), "{which:?} {cells:?}"),
            }
        }
    }
}

/// The same cells in three layouts.
pub fn the_same_cells_give_the_same_bits_in_every_layout(run: Run) {
    let layouts = [
        Windows::Causal(vec![299]),
        Windows::Spans(vec![[0, 300]]),
        Windows::Maps(vec![[0, 33, 0, 0, 33, 1, 34, 266]]),
    ];
    let heads = super::heads(2, 1, 64);
    let run = |windows| bits(&run(&Case::new(F32, heads, 300, windows)));
    let [causal, spans, maps] = layouts.map(run);
    assert_eq!(causal, spans);
    assert_eq!(causal, maps);
}

/// Its weight is 1, in whichever of four runs it lies.
pub fn a_row_that_sees_one_cell_is_its_value(run: Run) {
    let map = |(i, cell): (usize, i32)| {
        let mut map = [7, 0, 1, 0, 50, 0, 3, 0];
        map[i % 4 * 2] = cell;
        map[i % 4 * 2 + 1] = 1;
        map
    };
    let cells = [4, 0, 9, 63, 64, 10, 2, 69, 8];
    let maps: Vec<_> = cells.into_iter().enumerate().map(map).collect();
    for ty in [F32, F16, Q8_0] {
        for dim in [64, 128] {
            let windows = Windows::Maps(maps.clone());
            let case = Case::new(ty, super::heads(2, 1, dim), 70, windows);
            let expected: Vec<_> = case.expected().iter().map(|y| *y as f32).collect();
            assert_eq!(bits(&run(&case)), bits(&expected), "{ty} {dim}");
        }
    }
}

/// All scores of a row, of one key or many, are between -210 and -160: beside a maximum of 0 they would weigh nothing.
pub fn scores_far_below_zero(run: Run) {
    const FACTOR: f32 = 20.0;
    let size = |x: f32| 1.0 + x.abs() / 16.0;
    let windows = Windows::Causal([1, 130, 33].map(|keys| keys - 1).to_vec());
    let mut case = Case::new(F32, super::heads(2, 1, 64), 130, windows);
    for q in &mut case.q {
        *q = FACTOR * size(*q);
    }
    for key in case.keys.as_chunks_mut().0 {
        *key = (-size(f32::from_le_bytes(*key))).to_le_bytes();
    }
    let difference = difference(&run(&case), &case.expected());
    assert!(difference <= f64::from(FACTOR) * 1e-6, "{difference:e}");
}
