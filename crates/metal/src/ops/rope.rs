//! Rotary position embedding.

use std::f64::consts::TAU;

use minfer_graph::{Rope, RopeStyle};

use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments;
use crate::device::{Access, Argument, ConstantValue, Device};
use crate::kernels::ROPE;

const NAME: &str = "rope";
/// Bytes of a pair's entry in the table.
const TURN: usize = 8;
/// Most bytes that a dispatch copies (`setBytes:length:atIndex:`).
const MAX_TABLE: usize = 4096;
/// Most features of a head that are rotated.
pub(crate) const MOST_ROTATED: usize = 2 * MAX_TABLE / TURN;

/// Revolutions per position of each pair of a rotation, for [`rope`].
#[derive(Clone, Debug, PartialEq)]
pub struct Turns {
    /// Two f32 for each pair, whose sum it is.
    bytes: Vec<u8>,
}

impl Turns {
    /// Those of a rotation. `factors` are what [`Rope::factors`] names: a divisor for each pair, or nothing.
    pub fn new(rope: &Rope, factors: Option<&[f32]>) -> Result<Self, OpError> {
        let pairs = rope.n_rot / 2;
        if let Some(factors) = factors {
            same(NAME, "the number of factors", factors.len(), pairs)?;
        }
        if rope.n_rot > MOST_ROTATED {
            let expected = format_args!("at most {MOST_ROTATED}").to_string();
            return Err(OpError::value(NAME, "n_rot", rope.n_rot, expected));
        }
        let turn = |pair: usize| {
            let power = -2.0 * pair as f64 / rope.n_rot as f64;
            let frequency = f64::from(rope.freq_scale) * f64::from(rope.freq_base).powf(power);
            let factor = factors.and_then(|factors| factors.get(pair));
            frequency / factor.map_or(1.0, |factor| f64::from(*factor)) / TAU
        };
        let parts = (0..pairs).map(turn).flat_map(|turn| {
            let first = turn as f32;
            [first, (turn - f64::from(first)) as f32]
        });
        Ok(Turns {
            bytes: parts.flat_map(f32::to_le_bytes).collect(),
        })
    }

    /// Binds them.
    pub(super) fn argument<B>(&self, index: u32) -> Argument<'_, B> {
        Argument::Bytes {
            index,
            bytes: &self.bytes,
        }
    }
}

/// Rotates each head of a row by the row's position, an i32 of `positions`, of at most 2^24. `turns` are those of the
/// same rotation. `y` may be `x`.
pub fn rope<D: Device>(
    encode: &mut Encode<'_, D>,
    rope: &Rope,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    positions: Rows<'_, D::Buffer>,
    turns: &Turns,
) -> Result<(), OpError> {
    same(NAME, "the width of the input", x.width, y.width)?;
    same(NAME, "the rows of the input", x.rows, y.rows)?;
    positions.check_integers(NAME, "positions", y.rows)?;
    check(NAME, rope, turns, y.width)?;
    if y.is_empty() {
        return Ok(());
    }
    let heads = y.width / rope.head_dim;
    let arguments = arguments::Rope {
        heads: number(NAME, "heads", heads)?,
        head_dim: number(NAME, "head_dim", rope.head_dim)?,
        n_rot: number(NAME, "n_rot", rope.n_rot)?,
        y_stride: number(NAME, "a stride", y.stride)?,
        x_stride: number(NAME, "a stride", x.stride)?,
    };
    let interleaved = rope.style == RopeStyle::Interleaved;
    let kernel = Kernel {
        file: ROPE,
        name: NAME,
        constants: &[(0, ConstantValue::Bool(interleaved))],
    };
    encode.threads(
        kernel,
        [rope.head_dim / 2, heads, y.rows],
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            x.argument(NAME, 2, Access::Read)?,
            positions.argument(NAME, 3, Access::Read)?,
            turns.argument(4),
        ],
    )
}

/// An error unless rows of `width` are heads that `turns` rotate.
pub(super) fn check(
    op: &'static str,
    rope: &Rope,
    turns: &Turns,
    width: usize,
) -> Result<(), OpError> {
    let Rope {
        head_dim, n_rot, ..
    } = *rope;
    if head_dim == 0 || !head_dim.is_multiple_of(2) || !width.is_multiple_of(head_dim) {
        let expected = format_args!("even and a divisor of {width}").to_string();
        return Err(OpError::value(op, "head_dim", head_dim, expected));
    }
    if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > head_dim {
        let expected = format_args!("even and at most {head_dim}").to_string();
        return Err(OpError::value(op, "n_rot", n_rot, expected));
    }
    let table = turns.bytes.len();
    same(op, "the bytes of the table", table, n_rot / 2 * TURN)
}
