//! Stored keys, turned.

use minfer_graph::{KeyRope, KvFormat, RopeStyle, Rotation};

use super::kv::Cells;
use super::{Encode, Kernel, OpError, copied, number, same};
use crate::arguments::KvRotate;
use crate::device::{Access, Argument, BufferRange, ConstantValue, Device};
use crate::kernels::KV_ROTATE;

/// Lanes of a simdgroup that the kernel of blocks is written for: as many as a block has elements.
const SIMD_WIDTH: usize = 32;
/// Features of a head that a lane's registers have room for, in blocks, and whose cosines and sines a dispatch copies
/// (`setBytes:length:atIndex:` takes 4096 bytes).
const MOST_FEATURES: usize = 512;

/// Turns the keys of `rotation`'s cells back, in place and in the region's format, see
/// [`minfer_graph::Backend::rotate_keys`]. `factors` are what [`KeyRope::factors`] names: a divisor for each pair,
/// or nothing.
///
/// Cosines and sines are those of the exact angle, rounded once, however large the shift.
pub fn kv_rotate<D: Device>(
    encode: &mut Encode<'_, D>,
    keys: Cells<'_, D::Buffer>,
    rotation: Rotation,
    rope: &KeyRope,
    factors: Option<&[f32]>,
) -> Result<(), OpError> {
    let name = match keys.shape.format {
        KvFormat::F32 => "kv_rotate_f32",
        KvFormat::F16 => "kv_rotate_f16",
        KvFormat::Q8_0 => "kv_rotate_q8_0",
    };
    let shape = keys.shape;
    let pairs = rope.n_rot / 2;
    check(name, &keys, rotation, rope)?;
    if let Some(factors) = factors {
        same(name, "the number of factors", factors.len(), pairs)?;
    }
    if rotation.len == 0 {
        return Ok(());
    }
    let cell_bytes = keys.cell_bytes(name)?;
    let cells = BufferRange {
        buffer: keys.buffer,
        offset: cell_bytes.saturating_mul(rotation.cell),
        bytes: cell_bytes.saturating_mul(rotation.len),
    };
    cells.check()?;
    let threads = match shape.format {
        KvFormat::F32 | KvFormat::F16 => pairs,
        KvFormat::Q8_0 => {
            let lanes = encode.device.info().simd_width;
            same(name, "the simdgroup's width", lanes, SIMD_WIDTH)?;
            SIMD_WIDTH
        }
    };
    let arguments = KvRotate {
        pairs: number(name, "n_rot", pairs)?,
        head_dim: number(name, "head_dim", shape.head_dim)?,
        cell_bytes: number(name, "the bytes of a cell", cell_bytes)?,
    };
    let interleaved = rope.style == RopeStyle::Interleaved;
    let kernel = Kernel {
        file: KV_ROTATE,
        name,
        constants: &[(0, ConstantValue::Bool(interleaved))],
    };
    encode.threads(
        kernel,
        [threads, shape.width / shape.head_dim, rotation.len],
        &[
            copied(&arguments),
            Argument::Buffer {
                index: 1,
                range: cells,
                access: Access::Write,
            },
            Argument::Bytes {
                index: 2,
                bytes: &turns(rope, rotation.by, factors),
            },
        ],
    )
}

fn check<B>(
    name: &'static str,
    keys: &Cells<'_, B>,
    rotation: Rotation,
    rope: &KeyRope,
) -> Result<(), OpError> {
    let n_rot = rope.n_rot;
    let most = keys.shape.head_dim.min(MOST_FEATURES);
    if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > most {
        let expected = format_args!("even and at most {most}").to_string();
        return Err(OpError::value(name, "n_rot", n_rot, expected));
    }
    let end = rotation.cell.saturating_add(rotation.len);
    if end > keys.shape.cells {
        let found = format_args!("{}..{end}", rotation.cell).to_string();
        let expected = format_args!("within 0..{}", keys.shape.cells).to_string();
        return Err(OpError::value(name, "the cells", found, expected));
    }
    Ok(())
}

/// Cosine and sine of each pair, f32, of a shift back by `by` positions.
fn turns(rope: &KeyRope, by: usize, factors: Option<&[f32]>) -> Vec<u8> {
    let turn = |pair: usize| {
        let power = -2.0 * pair as f64 / rope.n_rot as f64;
        let rate = f64::from(rope.freq_scale) * f64::from(rope.freq_base).powf(power);
        let factor = factors.and_then(|factors| factors.get(pair));
        let rate = rate / factor.map_or(1.0, |factor| f64::from(*factor));
        let (sin, cos) = (-(by as f64) * rate).sin_cos();
        [cos as f32, sin as f32]
    };
    let turns = (0..rope.n_rot / 2).flat_map(turn);
    turns.flat_map(f32::to_le_bytes).collect()
}
