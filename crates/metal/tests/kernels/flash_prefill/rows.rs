//! What a row depends on: its query and its own cells, and nothing else.

use std::ops::Range;

use minfer_gguf::TensorType::{F16, F32, Q8_0};
use minfer_softmetal::{KernelStatistics, Mode, Options};

use super::{TOLERANCE, bits, heads, launch, run};
use crate::attention::case::{Case, Windows};
use crate::attention::properties;
use crate::launch::options;
use crate::values::difference;

/// Rows of a causal prompt.
fn prompt(rows: Range<i32>) -> Windows {
    Windows::Causal(rows.collect())
}

/// Some rows of a case.
fn part(case: &Case, rows: Range<usize>) -> Case {
    let windows = match &case.windows {
        Windows::Causal(all) => Windows::Causal(all[rows.clone()].to_vec()),
        Windows::Spans(all) => Windows::Spans(all[rows.clone()].to_vec()),
        Windows::Maps(all) => Windows::Maps(all[rows.clone()].to_vec()),
    };
    let width = case.width();
    Case {
        windows,
        q: case.q[rows.start * width..rows.end * width].to_vec(),
        ..case.clone()
    }
}

/// Rows of two sequences that share their first cells, each in pieces; a row without cells, and one of other runs.
fn sequences() -> Windows {
    let mut maps: Vec<_> = (1..6).map(|n| [0, 60, 100, n, 0, 0, 0, 0]).collect();
    maps.extend((1..5).map(|n| [0, 60, 90, 8, 180, n, 0, 0]));
    maps.push([0; 8]);
    // The cells of the first rows, cut differently.
    maps.extend((70..73).map(|n| [0, 33, 40, 0, 33, 27, 100, n - 60]));
    maps.push([190, 10, 0, 0, 30, 90, 5, 1]);
    Windows::Maps(maps)
}

#[test]
fn rows_have_the_same_bits_alone_and_among_others() {
    for (ty, heads) in [(F32, heads(3, 1, 64)), (Q8_0, heads(2, 2, 128))] {
        let case = Case::new(ty, heads, 200, sequences());
        let together = bits(&case);
        for (row, together) in together.chunks(case.width()).enumerate() {
            assert_eq!(bits(&case.row(row)), together, "{ty} row {row}");
        }
    }
}

/// Pairs whose longer window leaves the cells of the shorter one: where the longer one's run ends, or the shorter one's
/// does, or at the last run, or at once.
#[test]
fn windows_that_begin_alike_and_part_share_nothing() {
    for pair in [
        [[0, 60, 100, 60, 0, 0, 0, 0], [0, 66, 0, 0, 0, 0, 0, 0]],
        [[0, 100, 0, 0, 0, 0, 0, 0], [0, 60, 100, 6, 0, 0, 0, 0]],
        [[0, 9, 20, 9, 40, 9, 60, 80], [0, 9, 20, 9, 40, 9, 61, 5]],
        [[0, 100, 0, 0, 0, 0, 0, 0], [1, 99, 0, 0, 0, 0, 0, 0]],
    ] {
        let windows = Windows::Maps(pair.to_vec());
        let case = Case::new(F32, heads(1, 1, 64), 200, windows);
        let rows = [0, 1].map(|row| bits(&case.row(row))).concat();
        assert_eq!(bits(&case), rows, "{pair:?}");
    }
}

/// A prompt of 200 rows in pieces. Every place in a threadgroup comes up, and each tail of the first fragments.
#[test]
fn rows_have_the_same_bits_in_every_chunk() {
    for (ty, heads) in [(F16, heads(1, 1, 64)), (F32, heads(3, 1, 64))] {
        let case = Case::new(ty, heads, 200, prompt(0..200));
        let whole = bits(&case);
        let ends = [0, 1, 8, 17, 24, 57, 121, 200];
        let chunks = ends.windows(2).map(|ends| part(&case, ends[0]..ends[1]));
        let chunks: Vec<_> = chunks.flat_map(|chunk| bits(&chunk)).collect();
        assert!(chunks == whole, "{ty}");
    }
}

#[test]
fn prompts_of_any_length() {
    for rows in [1, 7, 8, 9, 33, 64, 65, 197, 200] {
        let heads = heads(if rows % 2 == 0 { 1 } else { 3 }, 1, 64);
        let case = Case::new(F32, heads, 200, prompt(0..rows));
        let found: Vec<_> = bits(&case).into_iter().map(f32::from_bits).collect();
        let difference = difference(&found, &case.expected());
        assert!(difference <= TOLERANCE, "{rows} rows: {difference:e}");
    }
}

/// The region ends with the window. A key that were read twice or not at all would show, and one beyond be reported.
#[test]
fn windows_of_every_tail() {
    for (place, ty) in [F32, F16, Q8_0].into_iter().enumerate() {
        let whole = Case::new(ty, heads(1, 1, 64), 130, prompt(0..130));
        let rows = bits(&whole);
        let found: Vec<_> = rows.iter().copied().map(f32::from_bits).collect();
        let difference = difference(&found, &whole.expected());
        assert!(difference <= TOLERANCE, "{ty}: {difference:e}");
        for row in (0..130).filter(|row| row % 3 == place) {
            let mut case = whole.row(row);
            case.keys.truncate((row + 1) * case.cell_bytes());
            case.values.truncate((row + 1) * case.cell_bytes());
            assert!(bits(&case) == rows[64 * row..][..64], "{ty} row {row}");
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
    let run = |windows| bits(&Case::new(F32, heads(2, 1, 64), 100, windows));
    let [causal, spans, maps] = layouts.map(run);
    assert_eq!(causal, spans);
    assert_eq!(causal, maps);
}

#[test]
fn a_row_without_cells_is_zeros() {
    let windows = Windows::Spans(vec![[5, 5], [3, 3]]);
    let y = bits(&Case::new(F32, heads(2, 1, 64), 8, windows));
    assert_eq!(y, vec![0; 256]);
}

#[test]
fn a_row_that_sees_one_cell_is_its_value() {
    properties::a_row_that_sees_one_cell_is_its_value(run);
}

/// A cell that is not finite spoils the rows that see it, and no other, not even those of the same fragment.
#[test]
fn cells_outside_of_a_window_do_not_count() {
    let [nan, infinity] = [f32::NAN, f32::INFINITY].map(f32::to_le_bytes);
    for (ty, poison) in [
        (F32, &nan[..]),
        (F32, &infinity),
        // Of q8_0, the scale of a block.
        (Q8_0, &[0, 0x7e]),
        (Q8_0, &[0, 0x7c]),
    ] {
        let clean = Case::new(ty, heads(2, 1, 64), 200, sequences());
        let poisoned = [62, 98, 103, 181, 195];
        for (in_keys, in_values) in [(true, false), (false, true)] {
            let mut case = clean.clone();
            for cell in poisoned {
                let place = cell * case.cell_bytes()..;
                if in_keys {
                    case.keys[place.clone()][..poison.len()].copy_from_slice(poison);
                }
                if in_values {
                    case.values[place][..poison.len()].copy_from_slice(poison);
                }
            }
            let (found, expected) = (bits(&case), bits(&clean));
            let rows = found.chunks(128).zip(expected.chunks(128));
            for ((found, expected), cells) in rows.zip(case.windows.cells()) {
                let is_finite = |bits: &u32| f32::from_bits(*bits).is_finite();
                match cells.iter().any(|cell| poisoned.contains(cell)) {
                    // A key of infinity may also weigh nothing.
                    true => assert!(in_keys || !found.iter().any(is_finite), "{ty} {cells:?}"),
                    false => assert_eq!(found, expected, "{ty} {cells:?}"),
                }
            }
        }
    }
}

/// Queries that are not numbers stand beside each of the others in turn.
#[test]
fn queries_do_not_influence_each_other() {
    let clean = Case::new(F16, heads(1, 1, 64), 100, prompt(60..100));
    let expected = bits(&clean);
    for spoiled in 0..2 {
        let mut case = clean.clone();
        for (row, q) in case.q.chunks_mut(64).enumerate() {
            if row % 2 == spoiled {
                q.fill(f32::NAN);
            }
        }
        let found = bits(&case);
        for (row, (found, expected)) in found.chunks(64).zip(expected.chunks(64)).enumerate() {
            match row % 2 == spoiled {
                true => assert!(found.iter().all(|y| f32::from_bits(*y).is_nan())),
                false => assert_eq!(found, expected, "row {row}"),
            }
        }
    }
}

/// Scores that rise or fall along the keys, so that the largest changes at every tile or never.
#[test]
fn scores_far_from_zero() {
    const FACTOR: f32 = 64.0;
    for rises in [false, true] {
        let mut case = Case::new(F32, heads(2, 1, 64), 200, prompt(150..200));
        for q in case.q.iter_mut() {
            *q = q.abs();
        }
        let cell_bytes = case.cell_bytes();
        for (cell, key) in case.keys.chunks_mut(cell_bytes).enumerate() {
            let place = if rises { cell } else { 199 - cell } as f32 / 199.0;
            for element in key.as_chunks_mut().0 {
                let size = f32::from_le_bytes(*element).abs();
                *element = (0.05 * FACTOR * place * size).to_le_bytes();
            }
        }
        let found: Vec<_> = bits(&case).into_iter().map(f32::from_bits).collect();
        let difference = difference(&found, &case.expected());
        let tolerance = f64::from(FACTOR) * TOLERANCE;
        assert!(difference <= tolerance, "rises {rises}: {difference:e}");
    }
}

#[test]
fn scores_far_below_zero() {
    properties::scores_far_below_zero(run);
}

fn statistics(case: &Case) -> KernelStatistics {
    launch(case).run_with(options()).statistics
}

#[test]
fn runs_far_apart_cost_as_much_as_adjacent_ones() {
    let maps = |gap: i32| {
        let map = |n: i32| [gap + 30, 20, 0, 30, 50 + 2 * gap, 5, 55 + 3 * gap, n];
        Windows::Maps((1..17).map(map).collect())
    };
    let [adjacent, apart] =
        [0, 400].map(|gap| statistics(&Case::new(F32, heads(2, 1, 64), 1300, maps(gap))));
    assert_eq!(adjacent.counters.bytes_read, apart.counters.bytes_read);
    assert_eq!(
        adjacent.counters.matrix_operations,
        apart.counters.matrix_operations
    );
}

/// Products of fragments for the keys that any of 8 queries sees, and each key and value once for 32 queries.
#[test]
fn products_and_reads_are_those_of_tiles() {
    for (ty, group, dim, read) in [
        (F32, 1, 64, 1.0),
        (F16, 7, 64, 1.0),
        (F16, 6, 128, 1.0),
        // Each of the eight vectors of a block comes with the block's scale.
        (Q8_0, 2, 128, 48.0 / 34.0),
    ] {
        let rows = 100;
        let case = Case::new(ty, heads(group, 1, dim), rows, prompt(0..rows as i32));
        let found = statistics(&case);
        let queries: Vec<_> = (0..rows * group).map(|query| query / group + 1).collect();
        let fragments = queries
            .chunks(8)
            .map(|queries| queries[queries.len() - 1].div_ceil(8));
        let products = 2 * fragments.sum::<usize>() * dim / 8;
        assert_eq!(found.counters.matrix_operations, products as u64, "{ty}");

        let keys = queries.chunks(32).map(|queries| queries[queries.len() - 1]);
        let blocks = queries.len().div_ceil(32);
        let of_cells = read * (2 * keys.sum::<usize>() * case.cell_bytes()) as f64;
        let of_queries = 4 * case.q.len();
        // Every lane reads a window, before the first tile and with it.
        let of_windows = 2 * blocks * 4 * 32 * 4;
        let others = found.counters.bytes_read - of_cells.round() as u64;
        assert!(others <= (of_queries + of_windows) as u64, "{ty}: {others}");
        assert!(others > of_queries as u64, "{ty}: {others}");
    }
}

/// Without checks as with them.
#[test]
fn modes_agree_on_a_prompt_of_sequences() {
    let case = Case::new(F16, heads(7, 1, 64), 200, sequences());
    let unchecked = Options {
        mode: Mode::Unchecked,
        ..options()
    };
    assert!(launch(&case).words(unchecked) == bits(&case));
}
