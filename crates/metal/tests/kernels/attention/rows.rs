//! What a row depends on: its own cells, and nothing else.

use minfer_gguf::TensorType::{F16, F32, Q8_0};

use super::case::{Case, Heads, Windows};

const HEADS: Heads = Heads {
    query: 2,
    kv: 1,
    dim: 32,
};

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Two sequences that share cells 0 to 3, a long one, one that sees nothing, and one in pieces.
fn windows() -> Windows {
    Windows::Maps(vec![
        [0, 3, 3, 2, 0, 0, 0, 0],
        [0, 3, 8, 4, 20, 2, 0, 0],
        [0, 200, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [190, 10, 0, 0, 30, 90, 5, 1],
    ])
}

#[test]
fn companions_do_not_change_a_bit() {
    for ty in [F16, Q8_0] {
        let case = Case::new(ty, HEADS, 200, windows());
        let together = case.run();
        for (row, together) in together.chunks(case.width()).enumerate() {
            assert_eq!(bits(&case.row(row).run()), bits(together), "{ty} row {row}");
        }
    }
}

#[test]
fn the_same_cells_give_the_same_bits_in_every_layout() {
    let layouts = [
        Windows::Causal(vec![4, 99]),
        Windows::Spans(vec![[0, 5], [0, 100]]),
        Windows::Maps(vec![[0, 5, 0, 0, 0, 0, 0, 0], [0, 33, 0, 0, 33, 1, 34, 66]]),
    ];
    let [causal, spans, maps] = layouts.map(|layout| Case::new(F32, HEADS, 100, layout).run());
    assert_eq!(bits(&causal), bits(&spans));
    assert_eq!(bits(&causal), bits(&maps));
}

#[test]
fn a_row_without_cells_is_zeros() {
    for windows in [Windows::Spans(vec![[5, 5]]), windows().row(3)] {
        let y = Case::new(F32, HEADS, 200, windows).run();
        assert_eq!(bits(&y), vec![0; y.len()]);
    }
}

/// A cell that is not finite spoils the rows that see it, and no other: it may be left from a released sequence.
/// Heads whose last features do not fill a vector of every lane do not read the next cell.
#[test]
fn cells_outside_of_a_window_are_not_read() {
    let [nan, infinity] = [f32::NAN, f32::INFINITY].map(f32::to_le_bytes);
    for (ty, dim, poison) in [
        (F32, 48, &nan[..]),
        (F32, 48, &infinity),
        (F32, 6, &nan),
        // The scale of a block.
        (Q8_0, 32, &[0, 0x7e]),
        (Q8_0, 32, &[0, 0x7c]),
    ] {
        let clean = Case::new(ty, Heads { dim, ..HEADS }, 200, windows());
        let mut case = clean.clone();
        let poisoned = [3, 8, 12, 22, 29, 120, 189];
        for cell in poisoned {
            let place = cell * case.cell_bytes()..;
            case.keys[place.clone()][..poison.len()].copy_from_slice(poison);
            case.values[place][..poison.len()].copy_from_slice(poison);
        }
        let (found, expected) = (case.run(), clean.run());
        let rows = found
            .chunks(case.width())
            .zip(expected.chunks(case.width()));
        for ((found, expected), cells) in rows.zip(case.windows.cells()) {
            match cells.iter().any(|cell| poisoned.contains(cell)) {
                true => assert!(!found[0].is_finite(), "{ty} {dim} {cells:?}"),
                false => assert_eq!(bits(found), bits(expected), "{ty} {dim} {cells:?}"),
            }
        }
    }
}

#[test]
fn any_number_of_simdgroups() {
    for simdgroups in [1, 2, 3] {
        let mut case = Case::new(F16, HEADS, 200, windows());
        case.simdgroups = simdgroups;
        let difference = case.difference();
        assert!(
            difference <= super::TOLERANCE,
            "{simdgroups}: {difference:e}"
        );
    }
}
