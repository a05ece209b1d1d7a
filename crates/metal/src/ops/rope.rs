//! Rotary position embedding.

use minfer_graph::{Rope, RopeStyle};

use super::{Encode, Kernel, OpError, Rows, copied, number, same};
use crate::arguments;
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::ROPE;

const NAME: &str = "rope";

/// Rotates each head of a row by the row's position, an i32 of `positions`. `factors` are the divisors of the
/// frequencies that [`Rope::factors`] names. `y` may be `x`.
pub fn rope<D: Device>(
    encode: &mut Encode<'_, D>,
    rope: &Rope,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    positions: Rows<'_, D::Buffer>,
    factors: Option<Rows<'_, D::Buffer>>,
) -> Result<(), OpError> {
    same(NAME, "the width of the input", x.width, y.width)?;
    same(NAME, "the rows of the input", x.rows, y.rows)?;
    positions.check_integers(NAME, "positions", y.rows)?;
    check_heads(rope, y.width)?;
    if let Some(factors) = factors {
        same(NAME, "the number of factors", factors.width, rope.n_rot / 2)?;
    }
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
        log2_base: rope.freq_base.log2(),
        freq_scale: rope.freq_scale,
    };
    let interleaved = rope.style == RopeStyle::Interleaved;
    let kernel = Kernel {
        file: ROPE,
        name: NAME,
        constants: &[
            (0, ConstantValue::Bool(interleaved)),
            (1, ConstantValue::Bool(factors.is_some())),
        ],
    };
    encode.threads(
        kernel,
        [rope.head_dim / 2, heads, y.rows],
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            x.argument(NAME, 2, Access::Read)?,
            positions.argument(NAME, 3, Access::Read)?,
            // Without factors the kernel reads none, but every index must be bound.
            factors
                .unwrap_or(positions)
                .argument(NAME, 4, Access::Read)?,
        ],
    )
}

fn check_heads(rope: &Rope, width: usize) -> Result<(), OpError> {
    let Rope {
        head_dim, n_rot, ..
    } = *rope;
    if head_dim == 0 || !head_dim.is_multiple_of(2) || !width.is_multiple_of(head_dim) {
        let expected = format_args!("even and a divisor of {width}").to_string();
        return Err(OpError::value(NAME, "head_dim", head_dim, expected));
    }
    if n_rot == 0 || !n_rot.is_multiple_of(2) || n_rot > head_dim {
        let expected = format_args!("even and at most {head_dim}").to_string();
        return Err(OpError::value(NAME, "n_rot", n_rot, expected));
    }
    Ok(())
}
