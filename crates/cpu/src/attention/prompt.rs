//! Attention of prompt rows: tiles of queries over blocks of keys, with a running softmax.
//!
//! A row's arithmetic is fixed by its own window: blocks of [`BLOCK`] keys count from the window's
//! start, a masked key is left out, and rows never mix.

use super::tile::{Left, PADDING, ROWS, Right, multiply_add};
use super::window::Window;
use super::{Regions, Shape};
use crate::ops::exp::exp;
use crate::ops::kv::load_body;
use crate::ops::reduce::{max, sum};
use crate::simd::{Simd, per_isa};
use crate::view::{MatMut, MatRef};

/// Keys per block.
const BLOCK: usize = 64;
/// Query vectors (rows times heads of a group) that share a converted key block.
const QUERIES: usize = 128;

/// Consecutive rows of which each window is a prefix of the longest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowTile {
    pub(crate) first: usize,
    pub(crate) len: usize,
    /// Row with the longest window.
    longest: usize,
}

/// Groups rows into tiles. Which tile a row is in does not change its result.
pub(crate) fn make_tiles(windows: &[Window], group: usize, tiles: &mut Vec<RowTile>) {
    let most = (QUERIES / group).max(1);
    tiles.clear();
    for (row, window) in windows.iter().enumerate() {
        if let Some(tile) = tiles.last_mut()
            && tile.len < most
        {
            let longest = &windows[tile.longest];
            let grows = longest.is_prefix_of(window);
            if grows || window.is_prefix_of(longest) {
                tile.len += 1;
                if grows {
                    tile.longest = row;
                }
                continue;
            }
        }
        tiles.push(RowTile {
            first: row,
            len: 1,
            longest: row,
        });
    }
}

/// Working memory of one worker.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Scaled queries `[head_dim, queries]`.
    queries: Vec<f32>,
    /// Unnormalized outputs `[padded head_dim, queries]`.
    outputs: Vec<f32>,
    /// Running maximum and sum, and keys in the window, of each query.
    states: Vec<State>,
    /// Keys of a block, transposed: `[BLOCK, head_dim]`.
    keys: Vec<f32>,
    /// Values of a block, `[padded head_dim, BLOCK]`.
    values: Vec<f32>,
}

#[derive(Clone, Copy)]
struct State {
    largest: f32,
    sum: f32,
    window: usize,
}

/// One parallel task: the query heads of one KV head, for the rows of one tile.
#[derive(Clone, Copy)]
pub(crate) struct TileTask<'a> {
    pub(crate) shape: Shape,
    pub(crate) q: MatRef<'a>,
    pub(crate) regions: Regions<'a>,
    /// Windows of the rows of `q`.
    pub(crate) windows: &'a [Window],
    pub(crate) tile: &'a RowTile,
    pub(crate) kv_head: usize,
}

per_isa! {
    /// Computes the segments of `out` that belong to the task; no other task may touch them.
    pub(crate) fn attend(task: TileTask<'_>, scratch: &mut Scratch, out: &MatMut<'_>) = attend_body;
}

#[inline(always)]
fn attend_body<S: Simd>(task: TileTask<'_>, scratch: &mut Scratch, out: &MatMut<'_>) {
    load_queries(&task, scratch);
    let keys = task.windows[task.tile.longest].len();
    for start in (0..keys).step_by(BLOCK) {
        let len = (keys - start).min(BLOCK);
        load_block::<S>(&task, scratch, start, len);
        for first in (0..scratch.states.len()).step_by(ROWS) {
            attend_block::<S>(task.shape.head_dim, scratch, first, start);
        }
    }
    write_outputs(&task, scratch, out);
}

#[inline(always)]
fn load_queries(task: &TileTask<'_>, scratch: &mut Scratch) {
    let Shape {
        head_dim, scale, ..
    } = task.shape;
    let group = task.shape.group();
    let queries = (task.tile.len * group).next_multiple_of(ROWS);
    let padded = head_dim.next_multiple_of(PADDING);
    // The queries that fill up the last tile see what the last row does, so that they split no tile.
    let last = task.tile.first + task.tile.len - 1;
    let idle = State {
        largest: f32::NEG_INFINITY,
        sum: 0.0,
        window: task.windows[last].len(),
    };
    scratch.queries.clear();
    scratch.queries.resize(queries * head_dim, 0.0);
    scratch.outputs.clear();
    scratch.outputs.resize(queries * padded, 0.0);
    scratch.states.clear();
    scratch.states.resize(queries, idle);
    scratch.keys.resize(head_dim * BLOCK, 0.0);
    scratch.values.clear();
    scratch.values.resize(padded * BLOCK, 0.0);
    for r in 0..task.tile.len {
        let row = task.tile.first + r;
        let heads = &task.q.row(row)[task.kv_head * group * head_dim..][..group * head_dim];
        let packed = &mut scratch.queries[r * group * head_dim..][..group * head_dim];
        for (to, x) in packed.iter_mut().zip(heads) {
            *to = x * scale;
        }
        for state in &mut scratch.states[r * group..][..group] {
            state.window = task.windows[row].len();
        }
    }
}

/// Converts the keys and values at key positions `start .. start + len`.
#[inline(always)]
fn load_block<S: Simd>(task: &TileTask<'_>, scratch: &mut Scratch, start: usize, len: usize) {
    let head_dim = task.shape.head_dim;
    let padded = head_dim.next_multiple_of(PADDING);
    let feature = task.kv_head * head_dim;
    let Regions { keys, values } = task.regions;
    let mut cells = [0; BLOCK];
    task.windows[task.tile.longest].cells(start, &mut cells[..len]);
    for (j, &cell) in cells[..len].iter().enumerate() {
        // The row of values is scratch for the key before it is filled.
        let row = &mut scratch.values[j * padded..][..head_dim];
        load_body::<S>(keys.format, keys.cell(cell), feature, row);
        for (column, x) in scratch.keys.chunks_exact_mut(BLOCK).zip(&*row) {
            column[j] = *x;
        }
        load_body::<S>(values.format, values.cell(cell), feature, row);
    }
}

/// Attends [`ROWS`] queries to the loaded block, which begins at key position `start`.
#[inline(always)]
fn attend_block<S: Simd>(head_dim: usize, scratch: &mut Scratch, first: usize, start: usize) {
    let padded = head_dim.next_multiple_of(PADDING);
    let Some((states, _)) = scratch.states[first..].split_first_chunk_mut::<ROWS>() else {
        return;
    };
    let visible = |state: &State| state.window.saturating_sub(start).min(BLOCK);
    let most = states.iter().map(visible).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let mut scores = [0.0; ROWS * BLOCK];
    let a = Left {
        data: &scratch.queries[first * head_dim..],
        stride: head_dim,
        depth: head_dim,
    };
    let b = Right {
        data: &scratch.keys,
        stride: BLOCK,
    };
    let columns = most.next_multiple_of(PADDING);
    multiply_add::<S, ROWS>(&mut scores, BLOCK, columns, a, b);
    let outputs = &mut scratch.outputs[first * padded..][..ROWS * padded];
    let (rows, _) = scores.as_chunks_mut::<BLOCK>();
    for ((row, state), output) in rows
        .iter_mut()
        .zip(&mut *states)
        .zip(outputs.chunks_exact_mut(padded))
    {
        let rescale = update::<S>(row, visible(state), state);
        if rescale != 1.0 {
            for x in output {
                *x *= rescale;
            }
        }
    }
    weigh::<S>(
        outputs,
        padded,
        &scores,
        &scratch.values,
        states.each_ref().map(visible),
    );
}

/// Adds the values of the loaded block, weighted by the scores of [`ROWS`] queries.
///
/// Beyond what all of them see, each gets its own values only: a weight of 0 would not keep it from a
/// value that is not finite.
#[inline(always)]
fn weigh<S: Simd>(
    outputs: &mut [f32],
    padded: usize,
    scores: &[f32; ROWS * BLOCK],
    values: &[f32],
    visible: [usize; ROWS],
) {
    let shared = visible.into_iter().min().unwrap_or(0);
    let a = Left {
        data: scores,
        stride: BLOCK,
        depth: shared,
    };
    let b = Right {
        data: values,
        stride: padded,
    };
    multiply_add::<S, ROWS>(outputs, padded, padded, a, b);
    for (row, output) in outputs.chunks_exact_mut(padded).enumerate() {
        let a = Left {
            data: &scores[row * BLOCK + shared..],
            stride: BLOCK,
            depth: visible[row] - shared,
        };
        let b = Right {
            data: &values[shared * padded..],
            stride: padded,
        };
        multiply_add::<S, 1>(output, padded, padded, a, b);
    }
}

/// Turns the first `visible` scores into weights; returns the factor that the query's output so far
/// needs.
#[inline(always)]
fn update<S: Simd>(scores: &mut [f32; BLOCK], visible: usize, state: &mut State) -> f32 {
    if visible == 0 {
        return 1.0;
    }
    scores[visible..].fill(f32::NEG_INFINITY);
    let block_largest = max::<S>(&*scores);
    let largest = if block_largest > state.largest {
        block_largest
    } else {
        state.largest
    };
    let rescale = exp(state.largest - largest);
    for score in &mut *scores {
        *score = exp(*score - largest);
    }
    state.sum = state.sum.mul_add(rescale, sum::<S>(&*scores));
    state.largest = largest;
    rescale
}

/// Normalizes. A query without keys gets zeros.
#[inline(always)]
fn write_outputs(task: &TileTask<'_>, scratch: &Scratch, out: &MatMut<'_>) {
    let head_dim = task.shape.head_dim;
    let padded = head_dim.next_multiple_of(PADDING);
    let group = task.shape.group();
    for query in 0..task.tile.len * group {
        let head = task.kv_head * group + query % group;
        let features = head * head_dim..(head + 1) * head_dim;
        // SAFETY: (row, head) pairs belong to exactly one task.
        let to = unsafe { out.segment(task.tile.first + query / group, features) };
        let state = scratch.states[query];
        let factor = if state.window == 0 {
            0.0
        } else {
            1.0 / state.sum
        };
        for (to, x) in to.iter_mut().zip(&scratch.outputs[query * padded..]) {
            *to = x * factor;
        }
    }
}
