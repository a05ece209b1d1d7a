//! Products of a weight and a few rows of activations.

use minfer_gguf::TensorType;

use super::{Encode, Kernel, Matrix, OpError, Rows, VECTOR, copied, number, same};
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::{MATVEC, MATVEC_BATCH};

const NAME: &str = "matvec";
/// Simdgroups of a threadgroup. They share nothing: two keep small outputs spread over many cores.
pub const SIMDGROUPS: usize = 2;
/// The most rows of the input that a threadgroup takes: each costs a register per output.
const MAX_BATCH: usize = 8;
/// Lanes that blocks are split among.
pub(super) const LANES: usize = 32;

/// The kernels of a type, for a row and for several, and the outputs that a simdgroup computes: more reuse its
/// activations more often, and fewer leave more simdgroups to hide latency. Blocks of 256 take twice the registers.
fn kernel(ty: TensorType) -> Option<([&'static str; 2], usize)> {
    Some(match ty {
        TensorType::F32 => (["matvec_f32", "matvec_batch_f32"], 4),
        TensorType::F16 => (["matvec_f16", "matvec_batch_f16"], 4),
        TensorType::BF16 => (["matvec_bf16", "matvec_batch_bf16"], 4),
        TensorType::Q4_0 => (["matvec_q4_0", "matvec_batch_q4_0"], 4),
        TensorType::Q4_1 => (["matvec_q4_1", "matvec_batch_q4_1"], 4),
        TensorType::Q5_0 => (["matvec_q5_0", "matvec_batch_q5_0"], 4),
        TensorType::Q5_1 => (["matvec_q5_1", "matvec_batch_q5_1"], 4),
        TensorType::Q8_0 => (["matvec_q8_0", "matvec_batch_q8_0"], 4),
        TensorType::Q4_K => (["matvec_q4_k", "matvec_batch_q4_k"], 2),
        TensorType::Q5_K => (["matvec_q5_k", "matvec_batch_q5_k"], 2),
        TensorType::Q6_K => (["matvec_q6_k", "matvec_batch_q6_k"], 2),
        _ => return None,
    })
}

/// Outputs that a simdgroup computes; `None` for a type without a kernel.
pub(super) fn outputs_per_simdgroup(ty: TensorType) -> Option<usize> {
    kernel(ty).map(|(_, outputs)| outputs)
}

/// Outputs that a threadgroup computes; `None` for a type without a kernel.
pub fn outputs_per_threadgroup(ty: TensorType) -> Option<usize> {
    kernel(ty).map(|(_, outputs)| SIMDGROUPS * outputs)
}

/// Rows that a threadgroup takes of `rows`, at least one: groups are as even as they can be.
pub fn rows_per_threadgroup(rows: usize) -> usize {
    rows.max(1).div_ceil(rows.max(1).div_ceil(MAX_BATCH))
}

/// Whether [`matvec`] reads a type.
pub fn multiplies(ty: TensorType) -> bool {
    kernel(ty).is_some()
}

/// `y[r, o] = sum of weight[o, i] * x[r, i]` over `i`. Reads the weight once for every eight rows of `x`; a row has
/// the same bits alone and among others.
pub fn matvec<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    weight: Matrix<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    let Some(([name, batch_name], outputs)) = kernel(weight.ty) else {
        let ty = weight.ty;
        return Err(OpError::Type { op: NAME, ty });
    };
    let arguments = weight.product(name, &y, &x)?;
    if y.is_empty() {
        return Ok(());
    }
    let lanes = encode.device.info().simd_width;
    same(name, "the simdgroup's width", lanes, LANES)?;
    let vectorized = x.is_vectorizable() && x.width.is_multiple_of(VECTOR);
    let batch = rows_per_threadgroup(y.rows);
    let constants = [
        (0, ConstantValue::Bool(vectorized)),
        (1, ConstantValue::U32(number(name, "rows", batch)?)),
    ];
    let kernel = if batch == 1 {
        Kernel {
            file: MATVEC,
            name,
            constants: &constants[..1],
        }
    } else {
        Kernel {
            file: MATVEC_BATCH,
            name: batch_name,
            constants: &constants,
        }
    };
    encode.groups(
        kernel,
        [
            y.width.div_ceil(SIMDGROUPS * outputs),
            y.rows.div_ceil(batch),
            1,
        ],
        SIMDGROUPS * LANES,
        &[
            copied(&arguments),
            y.argument(name, 1, Access::Write)?,
            weight.argument(name, 2)?,
            x.argument(name, 3, Access::Read)?,
        ],
    )
}
