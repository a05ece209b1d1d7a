//! Operations on corresponding elements.

use super::{Encode, Kernel, OpError, Rows, VECTOR, copied, number, same};
use crate::arguments::Elementwise;
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::ELEMENTWISE;

/// An operation on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a * b`
    Mul,
    /// `silu(a) * b`
    SwiGlu,
}

impl Binary {
    fn kernel(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Mul => "mul",
            Binary::SwiGlu => "swiglu",
        }
    }
}

/// `y = a op b`; `y` may be `a`. A `b` of one row goes with every row of `a`.
pub fn binary<D: Device>(
    encode: &mut Encode<'_, D>,
    op: Binary,
    y: Rows<'_, D::Buffer>,
    a: Rows<'_, D::Buffer>,
    b: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    run(encode, op.kernel(), y, a, b, 0.0)
}

/// `y = factor * x`; `y` may be `x`.
pub fn scale<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    factor: f32,
) -> Result<(), OpError> {
    run(encode, "scale", y, x, x, factor)
}

/// `y = x / (1 + exp(-x))`; `y` may be `x`.
pub fn silu<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    run(encode, "silu", y, x, x, 0.0)
}

fn run<D: Device>(
    encode: &mut Encode<'_, D>,
    name: &'static str,
    y: Rows<'_, D::Buffer>,
    a: Rows<'_, D::Buffer>,
    b: Rows<'_, D::Buffer>,
    factor: f32,
) -> Result<(), OpError> {
    same(name, "the width of operand 0", a.width, y.width)?;
    same(name, "the width of operand 1", b.width, y.width)?;
    same(name, "the rows of operand 0", a.rows, y.rows)?;
    let is_one_for_all = b.rows == 1;
    if !is_one_for_all {
        same(name, "the rows of operand 1", b.rows, y.rows)?;
    }
    if y.is_empty() {
        return Ok(());
    }
    let arguments = Elementwise {
        width: number(name, "width", y.width)?,
        y_stride: number(name, "a stride", y.stride)?,
        a_stride: number(name, "a stride", a.stride)?,
        b_stride: match is_one_for_all {
            true => 0,
            false => number(name, "a stride", b.stride)?,
        },
        factor,
    };
    let vectorized = [y, a, b].iter().all(Rows::is_vectorizable);
    let kernel = Kernel {
        file: ELEMENTWISE,
        name,
        constants: &[(0, ConstantValue::Bool(vectorized))],
    };
    encode.threads(
        kernel,
        [y.width.div_ceil(VECTOR), y.rows, 1],
        &[
            copied(&arguments),
            y.argument(name, 1, Access::Write)?,
            a.argument(name, 2, Access::Read)?,
            b.argument(name, 3, Access::Read)?,
        ],
    )
}
