//! Layouts drawn by hand: one letter per cell. The first sequence is `a`, upper case where the cell is
//! reserved; `*` is shared, `.` free.

use super::*;
use crate::ir::{MAX_WINDOW_RUNS, WindowLayout};

fn draw(arena: &Arena) -> String {
    let mut drawing = vec!['.'; arena.cells()];
    for (&id, letter) in arena.sequences.keys().zip('a'..) {
        let end = arena.end(id).unwrap();
        for run in arena.runs(id).unwrap() {
            for (position, cell) in run.positions().zip(run.cells()) {
                drawing[cell] = match arena.owners(cell) {
                    1 if position < end => letter,
                    1 => letter.to_ascii_uppercase(),
                    _ => '*',
                };
            }
        }
    }
    drawing.into_iter().collect()
}

fn copy(from: usize, to: usize, len: usize) -> RowEdit {
    RowEdit::Copy(RowCopy { from, to, len })
}

fn rotate(cell: usize, len: usize, by: usize) -> RowEdit {
    RowEdit::Rotate(Rotation { cell, len, by })
}

/// Appends one token to each named sequence in turn: a drawing of the resulting cells.
fn by_turns(cells: usize, turns: &str) -> (Arena, Vec<SequenceId>) {
    let mut arena = Arena::new(cells).unwrap();
    let count = turns.bytes().max().map_or(0, |last| last - b'a' + 1);
    let ids: Vec<_> = (0..count).map(|_| arena.create()).collect();
    for turn in turns.bytes() {
        arena.append(ids[usize::from(turn - b'a')], 1).unwrap();
    }
    assert!(draw(&arena).starts_with(turns));
    (arena, ids)
}

/// Positions, cells, window and layout of a step.
type Step = (Vec<i32>, Vec<i32>, Vec<i32>, WindowLayout);

fn step(arena: &Arena, rows: &[(SequenceId, usize)]) -> Result<Step, ArenaError> {
    let mut inputs = CellInputs::default();
    arena.fill_inputs(rows.iter().copied(), &mut inputs)?;
    Ok((
        inputs.positions().to_vec(),
        inputs.cells().to_vec(),
        inputs.window().to_vec(),
        inputs.layout(),
    ))
}

#[test]
fn a_sequence_grows_in_place_while_it_can() {
    let (mut arena, ids) = by_turns(10, "aaabb");
    assert_eq!(arena.append(ids[1], 2), Ok(2..4));
    assert_eq!(draw(&arena), "aaabbbb...");
    assert_eq!(arena.append(ids[0], 2), Ok(3..5));
    assert_eq!(draw(&arena), "aaabbbbaa.");
    assert_eq!(arena.append(ids[0], 1), Ok(5..6));
    assert_eq!(draw(&arena), "aaabbbbaaa");
}

#[test]
fn a_reserve_keeps_sequences_apart() {
    let (mut arena, ids) = by_turns(10, "ab");
    arena.release(ids[1]).unwrap();
    arena.reserve(ids[0], 3).unwrap();
    let b = arena.create();
    arena.append(b, 2).unwrap();
    assert_eq!(draw(&arena), "aAAAbb....");
    arena.append(ids[0], 2).unwrap();
    arena.reserve(ids[0], 1).unwrap();
    assert_eq!(draw(&arena), "aaaAbb....");
    assert_eq!(arena.room(ids[0]), Ok(1));
    arena.remove(ids[0], 2..3).unwrap();
    assert_eq!(
        draw(&arena),
        "aa..bb....",
        "the end takes its reserve along"
    );
}

#[test]
fn first_fit_else_the_largest_gaps() {
    let (mut arena, ids) = by_turns(12, "aabbbbaabbaa");
    let b = ids[1];
    arena.remove(b, 0..2).unwrap();
    arena.remove(b, 4..6).unwrap();
    arena.remove(ids[0], 2..4).unwrap();
    assert_eq!(draw(&arena), "aa..bb....aa");
    let c = arena.create();
    arena.append(c, 2).unwrap();
    assert_eq!(draw(&arena), "aaccbb....aa");
    arena.release(c).unwrap();
    let c = arena.create();
    arena.append(c, 3).unwrap();
    assert_eq!(draw(&arena), "aa..bbccc.aa");
    arena.release(c).unwrap();
    let c = arena.create();
    arena.append(c, 5).unwrap();
    assert_eq!(draw(&arena), "aac.bbccccaa");
    assert_eq!(arena.cell(c, 0), Ok(Some(6)));
    assert_eq!(arena.cell(c, 4), Ok(Some(2)));
}

#[test]
fn nothing_fits() {
    let (mut arena, ids) = by_turns(8, "aabbaa");
    let before = arena.clone();
    let full = ArenaError::Full {
        sequence: ids[1],
        needed: 3,
        free: 2,
        cells: 8,
    };
    assert_eq!(
        full.to_string(),
        "sequence 1 needs 3 cells, 2 of 8 are free"
    );
    assert_eq!(arena.append(ids[1], 3), Err(full));
    let limit = ArenaError::PositionLimit {
        sequence: ids[0],
        end: 4,
        tokens: LIMIT - 3,
        limit: LIMIT,
    };
    assert_eq!(arena.reserve(ids[0], LIMIT - 3), Err(limit));
    assert_eq!(arena, before);
}

#[test]
fn shared_rows_outlive_their_first_owner() {
    let (mut arena, ids) = by_turns(8, "aaaa");
    let b = arena.share_prefix(ids[0], 3).unwrap();
    assert_eq!(draw(&arena), "***a....");
    arena.append(b, 2).unwrap();
    assert_eq!(draw(&arena), "***abb..");
    arena.release(ids[0]).unwrap();
    assert_eq!(draw(&arena), "aaa.aa..", "b is the first sequence now");
    assert_eq!(arena.end(b), Ok(5));
}

#[test]
fn a_store_into_a_shared_row_needs_a_copy() {
    let (mut arena, ids) = by_turns(8, "aaaa");
    let b = arena.share_prefix(ids[0], 4).unwrap();
    let shared = ArenaError::SharedStore {
        sequence: b,
        position: 3,
        cell: 3,
        owners: 2,
    };
    assert_eq!(step(&arena, &[(b, 3)]), Err(shared));
    assert_eq!(arena.unshare(b, 3..4), Ok(vec![copy(3, 4, 1)]));
    assert_eq!(draw(&arena), "***ab...");
    assert_eq!(arena.unshare(b, 3..4), Ok(vec![]), "once");
    let window = vec![0, 3, 4, 1, 0, 0, 0, 0];
    let expected = (vec![3], vec![4], window, WindowLayout::Map);
    assert_eq!(step(&arena, &[(b, 3)]), Ok(expected));
    let full = ArenaError::Full {
        sequence: b,
        needed: 3,
        free: 2,
        cells: 8,
    };
    arena.append(ids[0], 1).unwrap();
    assert_eq!(arena.unshare(b, 0..4), Err(full));
}

#[test]
fn a_shift_rotates_what_comes_after() {
    let (mut arena, ids) = by_turns(12, "aaaaaaabba");
    //  position 0 1 2 3 4 5 6 . . 7    2..4 go, 4..8 become 2..6
    assert_eq!(
        arena.shift(ids[0], 2..4),
        Ok(vec![rotate(4, 3, 2), rotate(9, 1, 2)])
    );
    assert_eq!(draw(&arena), "aa..aaabba..");
    assert_eq!(arena.cell(ids[0], 2), Ok(Some(4)));
    assert_eq!(arena.cell(ids[0], 5), Ok(Some(9)));
    assert_eq!(arena.end(ids[0]), Ok(6));
}

#[test]
fn a_shift_copies_shared_rows_first() {
    let (mut arena, ids) = by_turns(8, "aaaaaa");
    let b = arena.share_prefix(ids[0], 5).unwrap();
    arena.append(b, 1).unwrap();
    assert_eq!(draw(&arena), "*****ab.");
    let full = ArenaError::Full {
        sequence: b,
        needed: 2,
        free: 1,
        cells: 8,
    };
    assert_eq!(arena.shift(b, 1..3), Err(full));
    // One row is copied to cell 7; those of cell 3 and 6 were at positions 4 and 5.
    assert_eq!(
        arena.shift(b, 1..4),
        Ok(vec![copy(4, 7, 1), rotate(7, 1, 3), rotate(6, 1, 3)])
    );
    assert_eq!(draw(&arena), "*aaaaabb");
    assert_eq!(arena.end(ids[0]), Ok(6));
}

#[test]
fn compaction_slides_in_both_directions() {
    let (mut arena, ids) = by_turns(10, "aabbbaab");
    arena.remove(ids[1], 0..2).unwrap();
    assert_eq!(draw(&arena), "aa..baab..");
    let mut down = arena.clone();
    assert_eq!(down.compact(Direction::Down), [copy(4, 2, 4)]);
    assert_eq!(draw(&down), "aabaab....");
    assert_eq!(arena.compact(Direction::Up), [copy(4, 6, 4), copy(0, 4, 2)]);
    assert_eq!(draw(&arena), "....aabaab");
    assert_eq!(arena.compact(Direction::Up), []);
}

#[test]
fn a_sequence_is_gathered_where_fewest_rows_move() {
    let (mut arena, ids) = by_turns(16, "abababababab");
    assert_eq!(arena.window_runs(ids[0]), Ok(6));
    arena.release(ids[1]).unwrap();
    let edits = arena.defragment(ids[0]).unwrap();
    assert_eq!(draw(&arena), "aaaaaa..........");
    assert_eq!(edits[0], copy(2, 1, 1));
    assert_eq!(edits.len(), 5);
}

#[test]
fn a_full_arena_is_sorted_through_one_cell() {
    let (mut arena, ids) = by_turns(13, "abababababab");
    arena.defragment(ids[0]).unwrap();
    assert_eq!(draw(&arena), "aaaaaabbbbbb.");
    let (mut arena, ids) = by_turns(12, "abababababab");
    let fragmented = ArenaError::Fragmented {
        sequence: ids[0],
        runs: 6,
        limit: MAX_WINDOW_RUNS,
        shared: 0,
        free: 0,
        cells: 12,
    };
    assert_eq!(arena.defragment(ids[0]), Err(fragmented));
}

#[test]
fn gathering_leaves_shared_rows_alone_if_it_can() {
    let (mut arena, ids) = by_turns(20, "aaab");
    let c = arena.share_prefix(ids[0], 3).unwrap();
    for _ in 0..4 {
        arena.append(c, 1).unwrap();
        arena.append(ids[1], 1).unwrap();
    }
    assert_eq!(draw(&arena), "***bcbcbcbcb........");
    assert_eq!(arena.window_runs(c), Ok(5));
    arena.defragment(c).unwrap();
    assert_eq!(draw(&arena), "***b.b.b.b.bcccc....");
    assert_eq!(arena.window_runs(c), Ok(2));
}

#[test]
fn shared_rows_are_copied_rather_than_scatter_others() {
    for (cells, fits) in [(14, true), (13, false)] {
        let (mut arena, ids) = by_turns(cells, "aaaaaaaaa");
        let b = arena.share_prefix(ids[0], 9).unwrap();
        for position in [1, 3, 5, 7] {
            arena.remove(b, position..position + 1).unwrap();
        }
        assert_eq!(draw(&arena)[..9], *"*a*a*a*a*");
        let defragmented = arena.defragment(b);
        if fits {
            assert_eq!(defragmented.map(|edits| edits.len()), Ok(5));
            assert_eq!(draw(&arena), "aaaaaaaaabbbbb");
        } else {
            let fragmented = ArenaError::Fragmented {
                sequence: b,
                runs: 5,
                limit: MAX_WINDOW_RUNS,
                shared: 5,
                free: 4,
                cells,
            };
            assert_eq!(defragmented, Err(fragmented));
        }
    }
}

#[test]
fn a_step_has_the_smallest_layout_that_serves_it() {
    let (mut arena, ids) = by_turns(12, "aaabb");
    let (a, b) = (ids[0], ids[1]);
    let causal = (vec![1, 2], vec![1, 2], vec![], WindowLayout::Causal);
    assert_eq!(step(&arena, &[(a, 1), (a, 2)]), Ok(causal));
    let span = (
        vec![2, 0, 1],
        vec![2, 3, 4],
        vec![0, 3, 3, 4, 3, 5],
        WindowLayout::Span,
    );
    assert_eq!(step(&arena, &[(a, 2), (b, 0), (b, 1)]), Ok(span));
    arena.append(a, 1).unwrap();
    let map = vec![0, 3, 5, 1, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 0, 0];
    let map = (vec![3, 1], vec![5, 4], map, WindowLayout::Map);
    assert_eq!(step(&arena, &[(a, 3), (b, 1)]), Ok(map));
    arena.remove(a, 0..1).unwrap();
    let span = (vec![2], vec![2], vec![1, 3], WindowLayout::Span);
    assert_eq!(step(&arena, &[(a, 2)]), Ok(span), "no longer from cell 0");
    let vacant = ArenaError::Vacant {
        sequence: a,
        position: 0,
        next: 4,
    };
    assert_eq!(step(&arena, &[(a, 0)]), Err(vacant));
}

#[test]
fn a_window_of_five_runs_is_refused() {
    let (arena, ids) = by_turns(9, "ababababa");
    let runs = |cells: [i32; 8]| Ok((vec![3], vec![6], cells.to_vec(), WindowLayout::Map));
    assert_eq!(step(&arena, &[(ids[0], 3)]), runs([0, 1, 2, 1, 4, 1, 6, 1]));
    let refused = ArenaError::TooManyRuns {
        sequence: ids[0],
        position: 4,
        runs: 5,
        limit: MAX_WINDOW_RUNS,
    };
    assert_eq!(step(&arena, &[(ids[0], 4)]), Err(refused));
}
