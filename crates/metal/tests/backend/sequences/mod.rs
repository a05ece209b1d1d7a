//! Attention over keys and values that the device itself made and stored before, at sizes of real models.

mod sequence;

use minfer_graph::{KvFormat, WindowLayout};
use minfer_metal::backend::KernelChoices;

use crate::alternatives::{CLASSIC, FAST, NO_FLASH, NO_WINDOW_FLASH, STAGED};
use crate::{backend, backend_of, fast_device};
use sequence::{Role, Row, Sequence, Shape};

/// Of the largest output: f32 scores, exponentials and weighted sums, as in the operation table.
const TOLERANCE: f64 = 1e-5;
const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];
/// Features of heads and formats, each at least once.
const SOME: [(usize, KvFormat); 3] = [
    (64, KvFormat::F32),
    (64, KvFormat::Q8_0),
    (128, KvFormat::F16),
];
const ROLES: [Role; 2] = [Role::Prompt, Role::Generated];

fn small(head_dim: usize) -> Shape {
    Shape {
        heads: 2,
        kv_heads: 1,
        head_dim,
    }
}

fn assert_close((found, expected): &(Vec<f32>, Vec<f64>), what: &str) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        // NaN must not pass.
        assert!(
            error <= TOLERANCE * largest,
            "{what}: {found} at {i} is not {expected}"
        );
    }
}

/// Heads of Qwen2.5 0.5B: a prompt of 30 tokens in the last cells of a large region, then a step.
#[test]
fn a_prompt_and_a_step_at_the_end_of_a_large_region() {
    const CELLS: usize = 32_768;
    let shape = Shape {
        heads: 14,
        kv_heads: 2,
        head_dim: 64,
    };
    for format in FORMATS {
        let Some(device) = fast_device() else { return };
        let mut sequence = Sequence::new(
            backend(device),
            shape,
            (format, CELLS),
            WindowLayout::Span,
            30,
        );
        let rows = |positions: std::ops::Range<usize>| -> Vec<Row> {
            let row = |position| Row::at(position, |position| CELLS - 31 + position);
            positions.map(row).collect()
        };
        let prompt = sequence.run(&rows(0..30), Role::Prompt);
        assert_close(&prompt, &format!("{format:?} prompt"));
        let step = sequence.run(&rows(30..31), Role::Generated);
        assert_close(&step, &format!("{format:?} step"));
    }
}

/// The cell of a position when a sequence is in four pieces, in another order than they are filled, with gaps.
fn scattered(position: usize) -> usize {
    const PIECE: usize = 52;
    [170, 5, 260, 90][position / PIECE] + position % PIECE
}

/// Windows of 1 to 130 keys, each the last of some tile or chunk at one place or another; maps have up to three runs.
fn check_every_tail(
    choices: KernelChoices,
    (head_dim, format): (usize, KvFormat),
    window: WindowLayout,
) {
    let cell_of: fn(usize) -> usize = match window {
        WindowLayout::Causal => |at| at,
        WindowLayout::Span => |at| at + 117,
        WindowLayout::Map => scattered,
    };
    let rows: Vec<_> = (0..130).map(|at| Row::at(at, cell_of)).collect();
    let cells = rows.iter().map(|row| row.cell + 1).max().unwrap();
    for role in ROLES {
        let Some(device) = fast_device() else { return };
        let backend = backend_of(device, choices);
        let kv = (format, cells);
        let mut sequence = Sequence::new(backend, small(head_dim), kv, window, 130);
        let what = format!("{choices:?} {window:?} {head_dim} {format:?} {role:?}");
        assert_close(&sequence.run(&rows, role), &what);
    }
}

#[test]
fn every_tail_of_a_window() {
    for (head_dim, format) in [64, 128, 80]
        .into_iter()
        .flat_map(|head_dim| FORMATS.map(|format| (head_dim, format)))
    {
        // Cells of blocks hold whole ones.
        if head_dim % format.block_len() == 0 {
            check_every_tail(FAST, (head_dim, format), WindowLayout::Causal);
        }
    }
}

#[test]
fn every_tail_of_a_window_whatever_is_chosen() {
    let all = [WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map];
    for (choices, kv, windows) in [
        (NO_FLASH, (64, KvFormat::F16), &all[..]),
        (CLASSIC, (64, KvFormat::F32), &all),
        (STAGED, (64, KvFormat::Q8_0), &all),
        // Causal ones are for the same kernels as by default.
        (NO_WINDOW_FLASH, (128, KvFormat::Q8_0), &all[1..]),
        (FAST, (128, KvFormat::F16), &all[1..]),
    ] {
        for &window in windows {
            check_every_tail(choices, kv, window);
        }
    }
}

/// Around the ends of tiles and chunks, and of the most chunks that there are.
#[test]
fn windows_of_up_to_4097_keys() {
    const KEYS: [usize; 8] = [1, 511, 512, 513, 1025, 4095, 4096, 4097];
    const STORED: usize = 4097;
    for (head_dim, format) in SOME {
        let Some(device) = fast_device() else { return };
        let kv = (format, STORED + KEYS.len());
        let shape = small(head_dim);
        let mut sequence = Sequence::new(backend(device), shape, kv, WindowLayout::Span, STORED);
        // Each sees itself alone.
        let alone = |cell| Row {
            cell,
            window: vec![[cell, 1]],
        };
        let all: Vec<_> = (0..STORED).map(alone).collect();
        assert_close(&sequence.run(&all, Role::Prompt), "alone");
        let row = |(i, keys): (usize, usize)| Row {
            cell: STORED + i,
            window: vec![[STORED - keys, keys]],
        };
        let rows: Vec<_> = KEYS.into_iter().enumerate().map(row).collect();
        for role in ROLES {
            let what = format!("{head_dim} {format:?} {role:?}");
            assert_close(&sequence.run(&rows, role), &what);
        }
    }
}

/// Neither the chunks that a prompt of 200 tokens comes in nor where its cells are changes a bit.
#[test]
fn a_prompt_in_any_chunks_and_any_cells_has_the_same_bits() {
    const TOKENS: usize = 200;
    const CELLS: usize = 320;
    for (head_dim, format) in SOME {
        let run = |window, chunks: &[usize], cell_of: fn(usize) -> usize| {
            let device = fast_device()?;
            let kv = (format, CELLS);
            let mut sequence = Sequence::new(backend(device), small(head_dim), kv, window, TOKENS);
            let rows: Vec<_> = (0..TOKENS).map(|at| Row::at(at, cell_of)).collect();
            let mut rest = &rows[..];
            let mut bits = Vec::new();
            for &rows in chunks.iter().cycle() {
                let (chunk, after) = rest.split_at(rows.min(rest.len()));
                let found = sequence.run(chunk, Role::Prompt);
                assert_close(&found, &format!("{window:?} {chunks:?}"));
                bits.extend(found.0.iter().map(|y| y.to_bits()));
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            Some(bits)
        };
        let whole = run(WindowLayout::Causal, &[TOKENS], |at| at);
        let (causal, span, map) = (WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map);
        let shifted = |at| at + 117;
        for (window, chunks, cell_of) in [
            (causal, &[7][..], (|at| at) as fn(usize) -> usize),
            (causal, &[129, 1], |at| at),
            (span, &[64, 33], shifted),
            (span, &[199], shifted),
            (map, &[TOKENS], scattered),
            (map, &[8, 1, 57], scattered),
        ] {
            let found = run(window, chunks, cell_of);
            assert!(
                found == whole,
                "{head_dim} {format:?} {window:?} {chunks:?}"
            );
        }
    }
}
