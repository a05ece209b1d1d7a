//! Attention of generated rows: keys split at fixed positions of the row's window, so that threads
//! share a long context, and merged in ascending order.

use super::tile::{Left, PADDING, ROWS, Right, multiply_add};
use super::window::Window;
use super::{Regions, Shape};
use crate::ops::exp::exp;
use crate::ops::kv::load_body;
use crate::ops::reduce::{dot, max, sum};
use crate::simd::{Simd, per_isa};
use crate::view::{MatMut, MatRef};

/// Keys per split.
pub(crate) const SPLIT: usize = 256;

/// Values converted at a time.
const BLOCK: usize = 32;

/// Working memory of one worker. The heads of a group are padded to whole tiles.
#[derive(Default)]
pub(crate) struct Scratch {
    queries: Vec<f32>,
    /// Scores `[SPLIT, heads]`.
    scores: Vec<f32>,
    /// A key.
    key: Vec<f32>,
    /// Values `[padded head_dim, BLOCK]`.
    values: Vec<f32>,
    /// Weighted values `[padded head_dim, heads]`.
    sums: Vec<f32>,
}

impl Scratch {
    /// Makes room for a split. Which worker gets one is chance, and a step must not allocate by chance.
    pub(crate) fn reserve(&mut self, shape: &Shape) {
        let heads = shape.group().next_multiple_of(ROWS);
        let padded = shape.head_dim.next_multiple_of(PADDING);
        for (buffer, len) in [
            (&mut self.queries, shape.head_dim * shape.group()),
            (&mut self.scores, SPLIT * heads),
            (&mut self.key, shape.head_dim),
            (&mut self.values, padded * BLOCK),
            (&mut self.sums, padded * heads),
        ] {
            buffer.reserve(len.saturating_sub(buffer.len()));
        }
    }
}

/// Elements of a partial result: per head of a group the maximum, the sum, and the weighted values.
pub(crate) fn partial_len(shape: &Shape) -> usize {
    shape.group() * (2 + shape.head_dim)
}

/// One parallel task: the query heads of one KV head of one row, for the keys of one split.
#[derive(Clone, Copy)]
pub(crate) struct SplitTask<'a> {
    pub(crate) shape: Shape,
    /// Features of the row's query.
    pub(crate) q: &'a [f32],
    pub(crate) regions: Regions<'a>,
    pub(crate) window: &'a Window,
    pub(crate) kv_head: usize,
    pub(crate) split: usize,
}

per_isa! {
    /// Writes the partial result of a split; a split behind the window's end is left alone.
    pub(crate) fn attend(task: SplitTask<'_>, scratch: &mut Scratch, partial: &mut [f32]) = attend_body;
}

#[inline(always)]
fn attend_body<S: Simd>(task: SplitTask<'_>, scratch: &mut Scratch, partial: &mut [f32]) {
    let start = task.split * SPLIT;
    let len = task.window.len().saturating_sub(start).min(SPLIT);
    if len == 0 {
        return;
    }
    let mut cells = [0; SPLIT];
    let cells = &mut cells[..len];
    task.window.cells(start, cells);
    score::<S>(&task, scratch, cells);
    let head_dim = task.shape.head_dim;
    let parts = partial.chunks_exact_mut(2 + head_dim);
    for (part, scores) in parts.zip(scratch.scores.chunks_exact_mut(SPLIT)) {
        let scores = &mut scores[..len];
        let largest = max::<S>(scores);
        for score in &mut *scores {
            *score = exp(*score - largest);
        }
        part[0] = largest;
        part[1] = sum::<S>(scores);
    }
    weigh::<S>(&task, scratch, cells);
    let padded = head_dim.next_multiple_of(PADDING);
    let parts = partial.chunks_exact_mut(2 + head_dim);
    for (part, sums) in parts.zip(scratch.sums.chunks_exact(padded)) {
        part[2..].copy_from_slice(&sums[..head_dim]);
    }
}

/// Scores of the keys in `cells`, for every head of the group.
#[inline(always)]
fn score<S: Simd>(task: &SplitTask<'_>, scratch: &mut Scratch, cells: &[usize]) {
    let Shape {
        head_dim, scale, ..
    } = task.shape;
    let group = task.shape.group();
    let keys = task.regions.keys;
    let feature = task.kv_head * head_dim;
    scratch.queries.clear();
    let heads = &task.q[feature * group..][..head_dim * group];
    scratch.queries.extend(heads.iter().map(|x| x * scale));
    scratch
        .scores
        .resize(SPLIT * group.next_multiple_of(ROWS), 0.0);
    scratch.key.resize(head_dim, 0.0);
    for (j, &cell) in cells.iter().enumerate() {
        load_body::<S>(keys.format, keys.cell(cell), feature, &mut scratch.key);
        let heads = scratch.queries.chunks_exact(head_dim);
        for (head, scores) in heads.zip(scratch.scores.chunks_exact_mut(SPLIT)) {
            scores[j] = dot::<S>(head, &scratch.key);
        }
    }
}

/// Sums the values in `cells`, weighted by the scores.
#[inline(always)]
fn weigh<S: Simd>(task: &SplitTask<'_>, scratch: &mut Scratch, cells: &[usize]) {
    let head_dim = task.shape.head_dim;
    let padded = head_dim.next_multiple_of(PADDING);
    let heads = task.shape.group().next_multiple_of(ROWS);
    let values = task.regions.values;
    let feature = task.kv_head * head_dim;
    scratch.values.resize(padded * BLOCK, 0.0);
    scratch.sums.clear();
    scratch.sums.resize(padded * heads, 0.0);
    for (block, cells) in cells.chunks(BLOCK).enumerate() {
        for (&cell, row) in cells.iter().zip(scratch.values.chunks_exact_mut(padded)) {
            let row = &mut row[..head_dim];
            load_body::<S>(values.format, values.cell(cell), feature, row);
        }
        let rows = scratch.scores.chunks_exact(SPLIT * ROWS);
        for (sums, scores) in scratch.sums.chunks_exact_mut(padded * ROWS).zip(rows) {
            let a = Left {
                data: &scores[block * BLOCK..],
                stride: SPLIT,
                depth: cells.len(),
            };
            let b = Right {
                data: &scratch.values,
                stride: padded,
            };
            multiply_add::<S, ROWS>(sums, padded, padded, a, b);
        }
    }
}

per_isa! {
    /// Merges the partial results of one KV head (`splits` rows of `partials`) into the output
    /// features of its query heads.
    pub(crate) fn merge(shape: Shape, partials: MatRef<'_>, splits: usize, out: &mut [f32]) = merge_body;
}

#[inline(always)]
fn merge_body<S: Simd>(shape: Shape, partials: MatRef<'_>, splits: usize, out: &mut [f32]) {
    let part_len = 2 + shape.head_dim;
    for (head, out) in out.chunks_exact_mut(shape.head_dim).enumerate() {
        let part = |split: usize| &partials.row(split)[head * part_len..][..part_len];
        let mut largest = f32::NEG_INFINITY;
        for split in 0..splits {
            let candidate = part(split)[0];
            largest = if candidate > largest {
                candidate
            } else {
                largest
            };
        }
        let mut total = 0.0f32;
        out.fill(0.0);
        for split in 0..splits {
            let (state, values) = part(split).split_at(2);
            let weight = exp(state[0] - largest);
            total = weight.mul_add(state[1], total);
            for (out, value) in out.iter_mut().zip(values) {
                *out = weight.mul_add(*value, *out);
            }
        }
        let factor = if splits == 0 { 0.0 } else { 1.0 / total };
        for x in out {
            *x *= factor;
        }
    }
}

/// Where the partial results of a step lie: `splits` rows per (row, KV head).
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) kv_heads: usize,
    /// Splits of the longest window.
    pub(crate) splits: usize,
}

impl Layout {
    pub(crate) fn tasks(&self) -> usize {
        self.rows * self.kv_heads * self.splits
    }

    /// Row, KV head and split of a task; tasks are rows of the partial results.
    pub(crate) fn locate(&self, task: usize) -> (usize, usize, usize) {
        let (rest, split) = (task / self.splits, task % self.splits);
        (rest / self.kv_heads, rest % self.kv_heads, split)
    }
}

/// Splits of a window.
pub(crate) fn splits_of(window: &Window) -> usize {
    window.len().div_ceil(SPLIT)
}

/// The partial results as a matrix, grown when they do not fit yet.
pub(crate) fn partials<'a>(buffer: &'a mut Vec<f32>, shape: &Shape, layout: Layout) -> MatMut<'a> {
    let width = partial_len(shape);
    let len = width * layout.tasks();
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    MatMut::new(buffer, width, layout.tasks())
}
