//! Softmax attention of generated rows, by chunks of their windows.

use minfer_graph::{Attention, KvFormat};

use super::attention::{Inputs, SIMD_WIDTH, check, has_flash_heads, keys};
use super::kernels::constants;
use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments::{FlashCombine, FlashDecode};
use crate::device::{Access, Device, copy_references};
use crate::kernels::FLASH_DECODE;

/// Chunks of a long window, unless less are asked for: enough to keep a GPU of some 20 cores busy with one row.
pub const MOST_CHUNKS: usize = 16;
/// Keys that a chunk has a multiple of, as in the kernels.
const BLOCK: usize = 32;
/// Most query heads of a simdgroup, as in the kernels: what a lane's registers have room for.
pub(super) const MOST_HEADS: usize = 8;
/// Floats of a partial beside the outputs: the largest score and the sum of the weights.
const STATE: usize = 2;

/// Whether there are kernels for the heads.
pub fn serves(attention: &Attention) -> bool {
    has_flash_heads(attention)
}

/// Width and rows of the partials of rows with these windows, each cut into `most` chunks or less.
pub fn partials(
    attention: &Attention,
    windows: &[i32],
    most: usize,
) -> Result<[usize; 2], OpError> {
    let rows = windows.len() / attention.window.input_width().max(1);
    let chunks = longest(attention, windows, most)?;
    let count = rows.saturating_mul(attention.n_head).saturating_mul(chunks);
    Ok([attention.head_dim.saturating_add(STATE), count])
}

/// Chunks of the row that has most; one if none has any.
fn longest(attention: &Attention, windows: &[i32], most: usize) -> Result<usize, OpError> {
    if most == 0 || most > MOST_CHUNKS {
        let expected = format_args!("1 to {MOST_CHUNKS}").to_string();
        return Err(OpError::value("flash_decode", "chunks", most, expected));
    }
    let chunks = keys(attention.window, windows).map(|keys| {
        let length = keys.div_ceil(most * BLOCK).max(1) * BLOCK;
        keys.div_ceil(length)
    });
    Ok(chunks.max().unwrap_or(0).max(1))
}

/// How windows are cut.
#[derive(Debug)]
pub struct Chunks<'a, B> {
    /// Most chunks of a row's window, 1 to [`MOST_CHUNKS`].
    pub most: usize,
    /// Scratch memory of the shape that [`partials`] gives.
    pub partials: Rows<'a, B>,
}

copy_references!(Chunks);

/// `y = softmax(scale * q k) v`, each row over the cells of its window, with heads of 64 or 128 features.
///
/// A row's result depends on its query, its cells and the most chunks alone, bit for bit.
pub fn flash_decode<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
    chunks: Chunks<'_, D::Buffer>,
) -> Result<(), OpError> {
    let name = name(inputs.keys.shape.format);
    if !serves(attention) {
        let found = attention.head_dim;
        return Err(OpError::value(name, "head_dim", found, "64 or 128"));
    }
    let lanes = encode.device.info().simd_width;
    let cells = check(name, attention, &y, &inputs, lanes)?;
    if y.is_empty() {
        return Ok(());
    }
    let partials = chunks.partials;
    let [width, rows] = self::partials(attention, inputs.windows.values, chunks.most)?;
    same(name, "the width of the partials", partials.width, width)?;
    same(name, "the partials' stride", partials.stride, width)?;
    same(name, "the rows of the partials", partials.rows, rows)?;
    attend(encode, attention, inputs, cells, chunks)?;
    combine(encode, attention, y, inputs, chunks)
}

fn name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F32 => "flash_decode_f32",
        KvFormat::F16 => "flash_decode_f16",
        KvFormat::Q8_0 => "flash_decode_q8_0",
    }
}

fn attend<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    inputs: Inputs<'_, D::Buffer>,
    cells: usize,
    chunks: Chunks<'_, D::Buffer>,
) -> Result<(), OpError> {
    let Inputs {
        q,
        keys,
        values,
        windows,
    } = inputs;
    let name = name(keys.shape.format);
    let group = attention.n_head / attention.n_head_kv;
    let slices = group.div_ceil(MOST_HEADS);
    let count = longest(attention, windows.values, chunks.most)?;
    let arguments = FlashDecode {
        group: number(name, "n_head", group)?,
        heads: number(name, "n_head", attention.n_head)?,
        chunks: number(name, "chunks", count)?,
        q_stride: number(name, "a stride", q.stride)?,
        cell_bytes: number(name, "the bytes of a cell", keys.cell_bytes(name)?)?,
        scale: attention.scale,
    };
    let constant_values = [
        (0, attention.head_dim),
        (1, windows.rows.width),
        (2, group.div_ceil(slices)),
        (3, chunks.most),
    ];
    let kernel = Kernel {
        file: FLASH_DECODE,
        name,
        constants: &constants(name, constant_values)?,
    };
    encode.groups(
        kernel,
        [attention.n_head_kv * slices, count, q.rows],
        SIMD_WIDTH,
        &[
            copied(&arguments),
            chunks.partials.argument(name, 1, Access::Write)?,
            q.argument(name, 2, Access::Read)?,
            keys.argument(name, 3, cells, Access::Read)?,
            values.argument(name, 4, cells, Access::Read)?,
            windows.rows.argument(name, 5, Access::Read)?,
        ],
    )
}

fn combine<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
    chunks: Chunks<'_, D::Buffer>,
) -> Result<(), OpError> {
    const NAME: &str = "flash_decode_combine";
    let windows = inputs.windows;
    let count = longest(attention, windows.values, chunks.most)?;
    let arguments = FlashCombine {
        heads: number(NAME, "n_head", attention.n_head)?,
        chunks: number(NAME, "chunks", count)?,
        y_stride: number(NAME, "a stride", y.stride)?,
    };
    let constant_values = [
        (0, attention.head_dim),
        (1, windows.rows.width),
        (3, chunks.most),
    ];
    let kernel = Kernel {
        file: FLASH_DECODE,
        name: NAME,
        constants: &constants(NAME, constant_values)?,
    };
    encode.threads(
        kernel,
        [y.width, y.rows, 1],
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            chunks.partials.argument(NAME, 2, Access::Read)?,
            windows.rows.argument(NAME, 3, Access::Read)?,
        ],
    )
}
