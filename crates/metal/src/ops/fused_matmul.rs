//! A product with what stands before and after it in a layer.

use super::fused::{Constants, check_bias, check_lanes, simdgroups};
use super::matvec::LANES;
use super::norm::Normalization;
use super::{Encode, Indices, Kernel, Matrix, OpError, Rows, copied, number, same};
use crate::arguments;
use crate::device::{Access, Buffer, ConstantValue, Device, copy_references};
use crate::kernels::FUSED_MATMUL;

const NAME: &str = "fused_matmul";

/// What [`fused_matmul`] reads.
#[derive(Debug)]
pub struct FusedMatMul<'a, B> {
    /// The weight.
    pub weight: Matrix<'a, B>,
    /// Activations.
    pub x: Rows<'a, B>,
    /// Normalization of the rows of `x`.
    pub input_norm: Option<Normalization<'a, B>>,
    /// One row, added to every row of the product.
    pub bias: Option<Rows<'a, B>>,
    /// A row for each of `x`, added last. It may be the output where nothing is picked.
    pub residual: Option<Rows<'a, B>>,
    /// Rows of `x` and of the residual that are picked, one for each of the output; all of them if absent.
    pub gathered: Option<Indices<'a, B>>,
}

copy_references!(FusedMatMul);

impl<B: Buffer> FusedMatMul<'_, B> {
    fn arguments(&self, y: &Rows<'_, B>) -> Result<arguments::FusedMatMul, OpError> {
        let FusedMatMul { weight, x, .. } = *self;
        if let Some(indices) = &self.gathered {
            indices.check(NAME, "row", y.rows, x.rows)?;
        }
        let rows = match self.gathered {
            Some(_) => y.rows,
            None => x.rows,
        };
        let product = weight.product(NAME, y, &Rows { rows, ..x })?;
        if let Some(norm) = &self.input_norm {
            norm.check(NAME, x.width)?;
        }
        if let Some(bias) = &self.bias {
            check_bias(NAME, bias, y.width)?;
        }
        if let Some(residual) = &self.residual {
            same(NAME, "the width of the residual", residual.width, y.width)?;
            same(NAME, "the rows of the residual", residual.rows, x.rows)?;
        }
        let residual_stride = self.residual.map_or(0, |residual| residual.stride);
        Ok(arguments::FusedMatMul {
            in_width: product.in_width,
            out_width: product.out_width,
            rows: product.rows,
            x_stride: product.x_stride,
            y_stride: product.y_stride,
            residual_stride: number(NAME, "a stride", residual_stride)?,
            row_bytes: product.row_bytes,
            eps: self.input_norm.map_or(0.0, |norm| norm.eps),
        })
    }
}

/// `y[r] = weight norm(x[i]) + bias + residual[i]`, with `i` the picked row or `r`. A row has the bits of
/// [`rms_norm`](super::norm::rms_norm), [`matvec`](super::matvec::matvec()) and two sums, one after the other.
pub fn fused_matmul<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    operands: FusedMatMul<'_, D::Buffer>,
) -> Result<(), OpError> {
    let arguments = operands.arguments(&y)?;
    let FusedMatMul {
        weight,
        x,
        input_norm,
        bias,
        residual,
        gathered,
    } = operands;
    let norm = input_norm.as_ref();
    let mut constants = Constants::new(NAME, &[weight.ty], &x, norm, y.rows, gathered.is_some())?;
    check_lanes(NAME, encode)?;
    if y.is_empty() {
        return Ok(());
    }
    constants.extend(&[
        ConstantValue::Bool(bias.is_some()),
        ConstantValue::Bool(residual.is_some()),
    ]);
    let kernel = Kernel {
        file: FUSED_MATMUL,
        name: NAME,
        constants: constants.values(),
    };
    let mut bindings = vec![
        copied(&arguments),
        y.argument(NAME, 1, Access::Write)?,
        weight.argument(NAME, 2)?,
        x.argument(NAME, 3, Access::Read)?,
    ];
    let optional = [
        (4, input_norm.map(|norm| norm.gain)),
        (5, bias),
        (6, residual),
        (7, gathered.map(|indices| indices.rows)),
    ];
    for (index, rows) in optional {
        if let Some(rows) = rows {
            bindings.push(rows.argument(NAME, index, Access::Read)?);
        }
    }
    let simdgroups = simdgroups(encode, kernel, norm.is_some())?;
    let groups = [
        y.width.div_ceil(simdgroups * constants.span),
        y.rows.div_ceil(constants.batch),
        1,
    ];
    encode.groups(kernel, groups, simdgroups * LANES, &bindings)
}
