//! Rows by index, of activations and of weights.

use minfer_gguf::TensorType;

use super::{Encode, Indices, Kernel, Matrix, OpError, Rows, VECTOR, copied, number, same};
use crate::arguments::{Embed, GetRows};
use crate::device::{Access, Argument, ConstantValue, Device};
use crate::kernels::ROWS;

/// Elements of a row that make a thread worth having where threads take as many parts of blocks as it needs.
const PART: usize = 8;

/// `y[r] = x[indices[r]]`.
pub fn get_rows<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    indices: Indices<'_, D::Buffer>,
) -> Result<(), OpError> {
    const NAME: &str = "get_rows";
    same(NAME, "the width of the input", x.width, y.width)?;
    indices.check(NAME, "row", y.rows, x.rows)?;
    if y.is_empty() {
        return Ok(());
    }
    let arguments = GetRows {
        width: number(NAME, "width", y.width)?,
        y_stride: number(NAME, "a stride", y.stride)?,
        x_stride: number(NAME, "a stride", x.stride)?,
    };
    let vectorized = y.is_vectorizable() && x.is_vectorizable();
    let kernel = Kernel {
        file: ROWS,
        name: NAME,
        constants: &[(0, ConstantValue::Bool(vectorized))],
    };
    encode.threads(
        kernel,
        [y.width.div_ceil(VECTOR), y.rows, 1],
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            x.argument(NAME, 2, Access::Read)?,
            indices.rows.argument(NAME, 3, Access::Read)?,
        ],
    )
}

/// `y[r] = table[indices[r]]`, dequantized.
pub fn embed<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    table: Matrix<'_, D::Buffer>,
    indices: Indices<'_, D::Buffer>,
) -> Result<(), OpError> {
    const NAME: &str = "embed";
    same(NAME, "the width of a row", table.in_width, y.width)?;
    indices.check(NAME, "token id", y.rows, table.out_width)?;
    let row_bytes = table.row_bytes(NAME)?;
    gather(
        encode,
        embed_kernel(table.ty)?,
        y,
        table.argument(NAME, 2)?,
        row_bytes,
        indices,
    )
}

/// Rows of blocks, `row_bytes` apart, to f32. The indices were checked.
pub(super) fn gather<'a, D: Device>(
    encode: &mut Encode<'_, D>,
    name: &'static str,
    y: Rows<'a, D::Buffer>,
    table: Argument<'a, D::Buffer>,
    row_bytes: usize,
    indices: Indices<'a, D::Buffer>,
) -> Result<(), OpError> {
    if y.is_empty() {
        return Ok(());
    }
    let arguments = Embed {
        width: number(name, "width", y.width)?,
        y_stride: number(name, "a stride", y.stride)?,
        row_bytes: number(name, "the bytes of a row", row_bytes)?,
    };
    // Rows of floats in whole vectors are as aligned as their first.
    let vectorized = y.is_vectorizable() && y.width.is_multiple_of(VECTOR);
    let kernel = Kernel {
        file: ROWS,
        name,
        constants: &[(0, ConstantValue::Bool(vectorized))],
    };
    encode.threads(
        kernel,
        [y.width.div_ceil(PART), y.rows, 1],
        &[
            copied(&arguments),
            y.argument(name, 1, Access::Write)?,
            table,
            indices.rows.argument(name, 3, Access::Read)?,
        ],
    )
}

pub(super) fn embed_kernel(ty: TensorType) -> Result<&'static str, OpError> {
    Ok(match ty {
        TensorType::F32 => "embed_f32",
        TensorType::F16 => "embed_f16",
        TensorType::BF16 => "embed_bf16",
        TensorType::Q4_0 => "embed_q4_0",
        TensorType::Q4_1 => "embed_q4_1",
        TensorType::Q5_0 => "embed_q5_0",
        TensorType::Q5_1 => "embed_q5_1",
        TensorType::Q8_0 => "embed_q8_0",
        TensorType::Q4_K => "embed_q4_k",
        TensorType::Q5_K => "embed_q5_k",
        TensorType::Q6_K => "embed_q6_k",
        _ => return Err(OpError::Type { op: "embed", ty }),
    })
}

/// Whether [`embed`] reads a type.
pub fn embeds(ty: TensorType) -> bool {
    embed_kernel(ty).is_ok()
}
