//! Softmax attention of generated rows, by chunks of their windows.

use minfer_graph::{Attention, KvFormat};

use super::attention::{Inputs, SIMD_WIDTH, check, runs};
use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments::{FlashCombine, FlashDecode};
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::FLASH_DECODE;

/// Most chunks of a window, as in the kernels.
const MOST_CHUNKS: usize = 16;
/// Keys that a chunk has a multiple of, as in the kernels.
const BLOCK: usize = 32;
/// Most query heads of a simdgroup, as in the kernels: what a lane's registers have room for.
const MOST_HEADS: usize = 8;
/// Floats of a partial beside the outputs: the largest score and the sum of the weights.
const STATE: usize = 2;

/// Whether there are kernels for the heads.
pub fn serves(attention: &Attention) -> bool {
    matches!(attention.head_dim, 64 | 128)
}

/// Width and rows of the partials of rows with these windows.
pub fn partials(attention: &Attention, windows: &[i32]) -> [usize; 2] {
    let rows = windows.len() / attention.window.input_width().max(1);
    let chunks = most_chunks(attention, windows);
    let count = rows.saturating_mul(attention.n_head).saturating_mul(chunks);
    [attention.head_dim.saturating_add(STATE), count]
}

/// Chunks of the row that has most; one if none has any.
fn most_chunks(attention: &Attention, windows: &[i32]) -> usize {
    let rows = windows.chunks(attention.window.input_width().max(1));
    let chunks = rows.map(|row| {
        let runs = runs(attention.window, row).map(|[first, end]| end.saturating_sub(first));
        let keys = usize::try_from(runs.sum::<i64>()).unwrap_or(0);
        let length = keys.div_ceil(MOST_CHUNKS * BLOCK).max(1) * BLOCK;
        keys.div_ceil(length)
    });
    chunks.max().unwrap_or(0).max(1)
}

/// `y = softmax(scale * q k) v`, each row over the cells of its window, with heads of 64 or 128 features.
///
/// `partials` is scratch memory of the shape that [`partials()`] gives. A row's result depends on its query and its
/// cells alone, bit for bit.
pub fn flash_decode<D: Device>(
    encode: &mut Encode<'_, D>,
    attention: &Attention,
    y: Rows<'_, D::Buffer>,
    inputs: Inputs<'_, D::Buffer>,
    partials: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    let name = match inputs.keys.shape.format {
        KvFormat::F32 => "flash_decode_f32",
        KvFormat::F16 => "flash_decode_f16",
        KvFormat::Q8_0 => "flash_decode_q8_0",
    };
    if !serves(attention) {
        let found = attention.head_dim;
        return Err(OpError::value(name, "head_dim", found, "64 or 128"));
    }
    let lanes = encode.device.info().simd_width;
    let cells = check(name, attention, &y, &inputs, lanes)?;
    if y.is_empty() {
        return Ok(());
    }
    let [width, rows] = self::partials(attention, inputs.windows.values);
    same(name, "the width of the partials", partials.width, width)?;
    same(name, "the partials' stride", partials.stride, width)?;
    same(name, "the rows of the partials", partials.rows, rows)?;
    chunks(encode, name, attention, inputs, cells, partials)?;
    combine(encode, attention, y, inputs, partials)
}

fn chunks<D: Device>(
    encode: &mut Encode<'_, D>,
    name: &'static str,
    attention: &Attention,
    inputs: Inputs<'_, D::Buffer>,
    cells: usize,
    partials: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    let Inputs {
        q,
        keys,
        values,
        windows,
    } = inputs;
    let group = attention.n_head / attention.n_head_kv;
    let slices = group.div_ceil(MOST_HEADS);
    let chunks = most_chunks(attention, windows.values);
    let arguments = FlashDecode {
        group: number(name, "n_head", group)?,
        heads: number(name, "n_head", attention.n_head)?,
        chunks: number(name, "chunks", chunks)?,
        q_stride: number(name, "a stride", q.stride)?,
        cell_bytes: number(name, "the bytes of a cell", keys.cell_bytes(name)?)?,
        scale: attention.scale,
    };
    let constants = [
        attention.head_dim,
        windows.rows.width,
        group.div_ceil(slices),
    ];
    let kernel = Kernel {
        file: FLASH_DECODE,
        name,
        constants: &constants_of(name, constants)?,
    };
    encode.groups(
        kernel,
        [attention.n_head_kv * slices, chunks, q.rows],
        SIMD_WIDTH,
        &[
            copied(&arguments),
            partials.argument(name, 1, Access::Write)?,
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
    partials: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    const NAME: &str = "flash_decode_combine";
    let windows = inputs.windows;
    let chunks = most_chunks(attention, windows.values);
    let arguments = FlashCombine {
        heads: number(NAME, "n_head", attention.n_head)?,
        chunks: number(NAME, "chunks", chunks)?,
        y_stride: number(NAME, "a stride", y.stride)?,
    };
    let constants = constants_of(NAME, [attention.head_dim, windows.rows.width])?;
    let kernel = Kernel {
        file: FLASH_DECODE,
        name: NAME,
        constants: &constants,
    };
    encode.threads(
        kernel,
        [y.width, y.rows, 1],
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            partials.argument(NAME, 2, Access::Read)?,
            windows.rows.argument(NAME, 3, Access::Read)?,
        ],
    )
}

/// Function constants from index 0 on.
fn constants_of<const N: usize>(
    name: &'static str,
    values: [usize; N],
) -> Result<[(u32, ConstantValue); N], OpError> {
    let mut constants = [(0, ConstantValue::U32(0)); N];
    for (index, (constant, value)) in (0..).zip(constants.iter_mut().zip(values)) {
        *constant = (
            index,
            ConstantValue::U32(number(name, "a function constant", value)?),
        );
    }
    Ok(constants)
}
