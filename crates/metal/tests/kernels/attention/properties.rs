//! What a row of attention may depend on, whatever kernels compute it.

use minfer_gguf::TensorType::{self, F32, Q8_0};

use super::case::{Case, Windows};

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
