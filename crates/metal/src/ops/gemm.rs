//! Products of a weight and the rows of a prompt.

use minfer_gguf::TensorType;

use super::{Encode, Kernel, Matrix, OpError, Rows, VECTOR, copied, same};
use crate::device::{Access, ConstantValue, Device};
use crate::kernels::GEMM;

const NAME: &str = "gemm";
/// Outputs of a threadgroup's tile.
pub const OUTPUTS: usize = 64;
/// Rows of a threadgroup's tile.
pub const ROWS: usize = 32;
/// Simdgroups that share a tile.
pub const SIMDGROUPS: usize = 4;
/// Lanes that fragments of the tile are spread over.
const LANES: usize = 32;

/// The kernel of a type.
fn kernel(ty: TensorType) -> Option<&'static str> {
    Some(match ty {
        TensorType::F32 => "gemm_f32",
        TensorType::F16 => "gemm_f16",
        TensorType::BF16 => "gemm_bf16",
        TensorType::Q4_0 => "gemm_q4_0",
        TensorType::Q4_1 => "gemm_q4_1",
        TensorType::Q5_0 => "gemm_q5_0",
        TensorType::Q5_1 => "gemm_q5_1",
        TensorType::Q8_0 => "gemm_q8_0",
        TensorType::Q4_K => "gemm_q4_k",
        TensorType::Q5_K => "gemm_q5_k",
        TensorType::Q6_K => "gemm_q6_k",
        _ => return None,
    })
}

/// Whether [`gemm`] reads a type.
pub fn multiplies(ty: TensorType) -> bool {
    kernel(ty).is_some()
}

/// `y[r, o] = sum of weight[o, i] * x[r, i]` over `i`. Reads the weight once for every [`ROWS`] rows of `x`.
pub fn gemm<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    weight: Matrix<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
) -> Result<(), OpError> {
    let Some(name) = kernel(weight.ty) else {
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
    let kernel = Kernel {
        file: GEMM,
        name,
        constants: &[(0, ConstantValue::Bool(vectorized))],
    };
    // Tiles of the same outputs follow each other, so that the weights they share stay in the cache.
    encode.groups(
        kernel,
        [y.rows.div_ceil(ROWS), y.width.div_ceil(OUTPUTS), 1],
        SIMDGROUPS * LANES,
        &[
            copied(&arguments),
            y.argument(name, 1, Access::Write)?,
            weight.argument(name, 2)?,
            x.argument(name, 3, Access::Read)?,
        ],
    )
}
