//! Softmax attention over a KV region.

use minfer_graph::{Attention, KvFormat, MAX_WINDOW_RUNS, WindowLayout};

use super::kv::Cells;
use super::{Encode, Indices, Kernel, OpError, Rows, copied, number, same};
use crate::arguments;
use crate::device::{Access, Buffer, ConstantValue, Device, Pipeline, copy_references};
use crate::kernels::ATTENTION;

/// Simdgroups that share a row's keys. They count in blocks of 32 keys, so that a few hundred keep all busy, and a
/// short window does not leave many idle.
const SIMDGROUPS: usize = 4;
/// Lanes of a simdgroup that the kernels are written for.
pub(super) const SIMD_WIDTH: usize = 32;
/// Features that a lane's registers have room for.
pub(crate) const MOST_FEATURES: usize = 512;

// The kernels read a map as four runs.
const _: () = assert!(MAX_WINDOW_RUNS == 4);

/// What an attention reads.
#[derive(Debug)]
pub struct Inputs<'a, B> {
    /// Queries, a row for each of the output.
    pub q: Rows<'a, B>,
    /// The region's keys.
    pub keys: Cells<'a, B>,
    /// The region's values.
    pub values: Cells<'a, B>,
    /// The rows' positions where the layout is causal, else the window input. A window that is not in the region is
    /// refused; one without cells gives zeros.
    pub windows: Indices<'a, B>,
}

copy_references!(Inputs);

impl<B: Buffer> Inputs<'_, B> {
    /// Those of the first `count` rows, and of the others.
    pub(crate) fn split_at(self, count: usize) -> [Self; 2] {
        let [first, others] = self.q.split_at(count);
        let [first_windows, other_windows] = self.windows.split_at(count);
        [(first, first_windows), (others, other_windows)].map(|(q, windows)| Inputs {
            q,
            windows,
            ..self
        })
    }
}

/// Whether heads have the sizes that the kernels for simdgroups of keys or queries are made for.
pub(crate) fn has_flash_heads(attention: &Attention) -> bool {
    matches!(attention.head_dim, 64 | 128)
}

/// `y = softmax(scale * q k) v`, each row over the cells of its window.
///
/// A row's result depends on its query and its cells alone, bit for bit; not on its role.
pub fn attention<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
) -> Result<(), OpError> {
    let Inputs {
        q,
        keys,
        values,
        windows,
    } = inputs;
    let name = match keys.shape.format {
        KvFormat::F32 => "attention_f32",
        KvFormat::F16 => "attention_f16",
        KvFormat::Q8_0 => "attention_q8_0",
    };
    let lanes = encode.device.info().simd_width;
    let cells = check(name, attention, &y, &inputs, lanes)?;
    if y.is_empty() {
        return Ok(());
    }
    let arguments = arguments::Attention {
        group: number(name, "n_head", attention.n_head / attention.n_head_kv)?,
        y_stride: number(name, "a stride", y.stride)?,
        q_stride: number(name, "a stride", q.stride)?,
        cell_bytes: number(name, "the bytes of a cell", keys.cell_bytes(name)?)?,
        scale: attention.scale,
    };
    let head_dim = number(name, "head_dim", attention.head_dim)?;
    let window_width = number(name, "a window's width", windows.rows.width)?;
    let kernel = Kernel {
        file: ATTENTION,
        name,
        constants: &[
            (0, ConstantValue::U32(head_dim)),
            (1, ConstantValue::U32(window_width)),
        ],
    };
    let most = encode.pipeline(kernel)?.max_threads_per_threadgroup();
    let simdgroups = (most / SIMD_WIDTH).clamp(1, SIMDGROUPS);
    encode.groups(
        kernel,
        [attention.n_head, y.rows, 1],
        simdgroups * SIMD_WIDTH,
        &[
            copied(&arguments),
            y.argument(name, 1, Access::Write)?,
            q.argument(name, 2, Access::Read)?,
            keys.argument(name, 3, cells, Access::Read)?,
            values.argument(name, 4, cells, Access::Read)?,
            windows.rows.argument(name, 5, Access::Read)?,
        ],
    )
}

/// How many cells are read from the first on, at least one; `lanes` are those of the device's simdgroups.
pub(super) fn check<B: Buffer>(
    name: &'static str,
    attention: &Attention,
    y: &Rows<'_, B>,
    inputs: &Inputs<'_, B>,
    lanes: usize,
) -> Result<usize, OpError> {
    let Inputs {
        q,
        keys,
        values,
        windows,
    } = inputs;
    check_heads(name, attention, keys, values)?;
    let width = attention.n_head.saturating_mul(attention.head_dim);
    same(name, "the width of the queries", q.width, width)?;
    same(name, "the width of the output", y.width, width)?;
    same(name, "the rows of the queries", q.rows, y.rows)?;
    let cells = check_windows(name, attention.window, windows, y.rows, keys.shape.cells)?;
    same(name, "the simdgroup's width", lanes, SIMD_WIDTH)?;
    Ok(cells)
}

fn check_heads<B>(
    name: &'static str,
    attention: &Attention,
    keys: &Cells<'_, B>,
    values: &Cells<'_, B>,
) -> Result<(), OpError> {
    let Attention {
        n_head,
        n_head_kv,
        head_dim,
        ..
    } = *attention;
    if keys.shape != values.shape {
        let [keys, values] = [keys, values].map(|cells| format!("{:?}", cells.shape));
        return Err(OpError::value(
            name,
            "the shape of the values",
            values,
            keys,
        ));
    }
    if head_dim == 0 || head_dim > MOST_FEATURES {
        let expected = format_args!("1 to {MOST_FEATURES}").to_string();
        return Err(OpError::value(name, "head_dim", head_dim, expected));
    }
    if n_head_kv == 0 || !n_head.is_multiple_of(n_head_kv) {
        let expected = format_args!("a multiple of n_head_kv {n_head_kv}").to_string();
        return Err(OpError::value(name, "n_head", n_head, expected));
    }
    let found = keys.shape.head_dim;
    same(name, "head_dim of the region", found, head_dim)?;
    let width = n_head_kv.saturating_mul(head_dim);
    same(name, "the width of the region", keys.shape.width, width)
}

/// How many cells are read from the first on, at least one.
fn check_windows<B: Buffer>(
    name: &'static str,
    layout: WindowLayout,
    windows: &Indices<'_, B>,
    rows: usize,
    cells: usize,
) -> Result<usize, OpError> {
    let width = layout.input_width().max(1);
    same(name, "the width of the windows", windows.rows.width, width)?;
    same(name, "the rows of the windows", windows.rows.rows, rows)?;
    if rows > 1 {
        same(name, "the windows' stride", windows.rows.stride, width)?;
    }
    let values = windows.values;
    same(
        name,
        "the number of values of windows",
        values.len(),
        rows.saturating_mul(width),
    )?;
    cells_read(name, layout, values, cells)
}

/// How many of a region's `cells` windows read from the first on, at least one.
pub(crate) fn cells_read(
    name: &'static str,
    layout: WindowLayout,
    windows: &[i32],
    cells: usize,
) -> Result<usize, OpError> {
    let mut most = 1;
    for (row, window) in windows.chunks(layout.input_width().max(1)).enumerate() {
        for [first, end] in runs(layout, window) {
            if first < 0 || end < first || end > cells as i64 {
                let found = format_args!("cells {first}..{end} of row {row}").to_string();
                let expected = format_args!("within 0..{cells}").to_string();
                return Err(OpError::value(name, "a window", found, expected));
            }
            most = most.max(end as usize);
        }
    }
    Ok(most)
}

/// First cells and ends of the runs of a window that are not empty.
pub(super) fn runs(layout: WindowLayout, window: &[i32]) -> impl Iterator<Item = [i64; 2]> {
    let pairs = window.chunks(2).map(move |pair| {
        let [first, second] = [0, pair.len() - 1].map(|i| i64::from(pair[i]));
        match layout {
            WindowLayout::Causal => [first.min(0), first + 1],
            WindowLayout::Span => [first, second],
            WindowLayout::Map => [first, first + second],
        }
    });
    pairs.filter(|[first, end]| first != end)
}

/// Number of keys of each row's window.
pub(super) fn keys(layout: WindowLayout, windows: &[i32]) -> impl Iterator<Item = usize> {
    let rows = windows.chunks(layout.input_width().max(1));
    rows.map(move |row| {
        let runs = runs(layout, row).map(|[first, end]| end.saturating_sub(first));
        usize::try_from(runs.sum::<i64>()).unwrap_or(0)
    })
}
