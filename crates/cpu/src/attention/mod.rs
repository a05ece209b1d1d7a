//! Grouped-query softmax attention over a KV region.

mod generated;
mod prompt;
#[cfg(test)]
mod tests;
mod tile;
mod window;

use minfer_graph::WindowLayout;

use crate::ops::kv::Cells;
use crate::view::{MatMut, MatRef};
use crate::{Isa, Pool};
use generated::{Layout, SplitTask};
use prompt::TileTask;
use window::Window;
pub(crate) use window::WindowError;

/// Multiply-adds below which a parallel region costs more than it saves.
const SERIAL_WORK: usize = 32 * 1024;

/// Heads of an attention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    /// Factor on the scores.
    pub(crate) scale: f32,
}

impl Shape {
    /// Query heads per KV head.
    #[inline(always)]
    pub(crate) fn group(&self) -> usize {
        self.heads / self.kv_heads
    }
}

/// Keys and values of a layer.
#[derive(Clone, Copy)]
pub(crate) struct Regions<'a> {
    pub(crate) keys: Cells<'a>,
    pub(crate) values: Cells<'a>,
}

/// Inputs of an attention; rows of `q`, prompt rows first.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) shape: Shape,
    pub(crate) q: MatRef<'a>,
    /// Leading rows of `q` that belong to a prompt.
    pub(crate) prompt_rows: usize,
    pub(crate) regions: Regions<'a>,
    /// Cells of the region.
    pub(crate) cells: usize,
    pub(crate) layout: WindowLayout,
    pub(crate) positions: MatRef<'a, i32>,
    pub(crate) window: Option<MatRef<'a, i32>>,
}

/// Memory that attentions reuse; it grows to the largest step and stays.
#[derive(Default)]
pub(crate) struct Scratch {
    windows: Vec<Window>,
    tiles: Vec<prompt::RowTile>,
    partials: Vec<f32>,
    workers: Vec<WorkerScratch>,
}

#[derive(Default)]
struct WorkerScratch {
    prompt: prompt::Scratch,
    generated: generated::Scratch,
}

/// `out = softmax(scale * q k) v` over each row's window.
///
/// # Errors
/// When a window reaches outside the region; `out` is then unchanged.
pub(crate) fn attend(
    isa: Isa,
    pool: &Pool,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    mut out: MatMut<'_>,
) -> Result<(), WindowError> {
    let rows = inputs.q.rows();
    scratch.windows.clear();
    for row in 0..rows {
        let window = Window::read(
            inputs.layout,
            row,
            inputs.positions,
            inputs.window,
            inputs.cells,
        )?;
        scratch.windows.push(window);
    }
    scratch
        .workers
        .resize_with(pool.threads(), WorkerScratch::default);
    let prompt = inputs.prompt_rows.min(rows);
    attend_prompt(
        isa,
        pool,
        inputs,
        scratch,
        prompt,
        out.slice_rows(0..prompt),
    );
    attend_generated(isa, pool, inputs, scratch, out.slice_rows(prompt..rows));
    Ok(())
}

fn attend_prompt(
    isa: Isa,
    pool: &Pool,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    rows: usize,
    out: MatMut<'_>,
) {
    let Scratch {
        windows,
        tiles,
        workers,
        ..
    } = scratch;
    let windows = &windows[..rows];
    prompt::make_tiles(windows, inputs.shape.group(), tiles);
    let kv_heads = inputs.shape.kv_heads;
    let tasks = tiles.len() * kv_heads;
    pool.for_each_chunk_with(workers, tasks, 1, |scratch, range| {
        for task in range {
            // Later rows of a prompt see more keys: they start first, so that no thread ends late.
            let tile = &tiles[tiles.len() - 1 - task / kv_heads];
            let task = TileTask {
                shape: inputs.shape,
                q: inputs.q,
                regions: inputs.regions,
                windows,
                tile,
                kv_head: task % kv_heads,
            };
            prompt::attend(isa, task, &mut scratch.prompt, &out);
        }
    });
}

/// `out` holds the generated rows: the last ones of the inputs.
fn attend_generated(
    isa: Isa,
    pool: &Pool,
    inputs: Inputs<'_>,
    scratch: &mut Scratch,
    out: MatMut<'_>,
) {
    let Scratch {
        windows,
        partials,
        workers,
        ..
    } = scratch;
    let shape = inputs.shape;
    for worker in &mut *workers {
        worker.generated.reserve(&shape);
    }
    let first = inputs.q.rows() - out.rows();
    let windows = &windows[first..];
    let splits = windows.iter().map(generated::splits_of).max().unwrap_or(0);
    let layout = Layout {
        rows: out.rows(),
        kv_heads: shape.kv_heads,
        splits,
    };
    let partials = generated::partials(partials, &shape, layout);
    let keys: usize = windows.iter().map(Window::len).sum();
    let serial = keys * shape.heads * shape.head_dim < SERIAL_WORK;
    let chunk = if serial { layout.tasks() } else { 1 };
    pool.for_each_chunk_with(workers, layout.tasks(), chunk, |scratch, range| {
        for task in range {
            let (row, kv_head, split) = layout.locate(task);
            let split = SplitTask {
                shape,
                q: inputs.q.row(first + row),
                regions: inputs.regions,
                window: &windows[row],
                kv_head,
                split,
            };
            // SAFETY: every task has a row of its own.
            let partial = unsafe { partials.segment(task, 0..partials.width()) };
            generated::attend(isa, split, &mut scratch.generated, partial);
        }
    });
    let merges = out.rows() * shape.kv_heads;
    let chunk = if serial { merges } else { 1 };
    let group_width = shape.group() * shape.head_dim;
    pool.for_each_chunk(merges, chunk, |range| {
        for merge in range {
            let (row, kv_head) = (merge / shape.kv_heads, merge % shape.kv_heads);
            let own = partials
                .as_ref()
                .slice_rows(merge * splits..(merge + 1) * splits);
            let features = kv_head * group_width..(kv_head + 1) * group_width;
            // SAFETY: (row, KV head) pairs have disjoint features.
            let to = unsafe { out.segment(row, features) };
            generated::merge(isa, shape, own, generated::splits_of(&windows[row]), to);
        }
    });
}
