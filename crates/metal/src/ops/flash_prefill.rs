//! Softmax attention of the rows of a prompt, on simdgroup matrices.

use minfer_graph::{Attention, KvFormat};

use super::attention::{Inputs, SIMD_WIDTH, check, has_flash_heads};
use super::{Encode, Kernel, OpError, Rows, copied, number};
use crate::arguments::FlashPrefill;
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::FLASH_PREFILL;

/// Simdgroups that share tiles of keys and values.
pub const SIMDGROUPS: usize = 4;
/// Queries, of one head each, that share them.
pub const QUERIES: usize = 8 * SIMDGROUPS;

/// Whether there are kernels for the heads.
pub fn serves(attention: &Attention) -> bool {
    has_flash_heads(attention)
}

/// `y = softmax(scale * q k) v`, each row over the cells of its window, with heads of 64 or 128 features.
///
/// Reads keys and values once for every [`QUERIES`] queries of neighbouring rows whose windows begin alike: each is the
/// beginning of the longest, through all runs. Rows with other windows are served too, one such set after the other.
///
/// A row's result depends on its query and its cells alone, bit for bit. A value that is not finite makes its head NaN
/// for the rows that see it.
pub fn flash_prefill<D: Device>(
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
        KvFormat::F32 => "flash_prefill_f32",
        KvFormat::F16 => "flash_prefill_f16",
        KvFormat::Q8_0 => "flash_prefill_q8_0",
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
    let group = attention.n_head / attention.n_head_kv;
    let arguments = FlashPrefill {
        group: number(name, "n_head", group)?,
        rows: number(name, "the rows of the queries", q.rows)?,
        y_stride: number(name, "a stride", y.stride)?,
        q_stride: number(name, "a stride", q.stride)?,
        cell_bytes: number(name, "the bytes of a cell", keys.cell_bytes(name)?)?,
        scale: attention.scale,
    };
    // Kernels count queries in 32 bits, those of the last threadgroup beyond the last one too.
    let queries = q.rows.saturating_mul(group);
    number(
        name,
        "the number of queries",
        queries.saturating_add(QUERIES),
    )?;
    let head_dim = number(name, "head_dim", attention.head_dim)?;
    let window_width = number(name, "a window's width", windows.rows.width)?;
    let kernel = Kernel {
        file: FLASH_PREFILL,
        name,
        constants: &[
            (0, ConstantValue::U32(head_dim)),
            (1, ConstantValue::U32(window_width)),
        ],
    };
    encode.groups(
        kernel,
        [queries.div_ceil(QUERIES), attention.n_head_kv, 1],
        SIMDGROUPS * SIMD_WIDTH,
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
