//! The gated half of a feed-forward network.

use super::fused::{Constants, check_lanes, simdgroups};
use super::matvec::LANES;
use super::norm::Normalization;
use super::{Encode, Kernel, Matrix, OpError, Rows, copied};
use crate::arguments;
use crate::device::{Access, Buffer, Device, copy_references};
use crate::kernels::FUSED_FFN;

const NAME: &str = "fused_ffn";

/// What [`fused_ffn`] reads.
#[derive(Debug)]
pub struct FusedFfn<'a, B> {
    /// Weight of the gate.
    pub gate: Matrix<'a, B>,
    /// Weight of what the gate lets through, of any type.
    pub up: Matrix<'a, B>,
    /// Activations.
    pub x: Rows<'a, B>,
    /// Normalization of the rows of `x`.
    pub input_norm: Option<Normalization<'a, B>>,
}

copy_references!(FusedFfn);

impl<B: Buffer> FusedFfn<'_, B> {
    fn arguments(&self, y: &Rows<'_, B>) -> Result<arguments::FusedFfn, OpError> {
        let [gate, up] = [self.gate, self.up].map(|weight| weight.product(NAME, y, &self.x));
        let (gate, up) = (gate?, up?);
        if let Some(norm) = &self.input_norm {
            norm.check(NAME, self.x.width)?;
        }
        Ok(arguments::FusedFfn {
            in_width: gate.in_width,
            out_width: gate.out_width,
            rows: gate.rows,
            x_stride: gate.x_stride,
            y_stride: gate.y_stride,
            gate_row_bytes: gate.row_bytes,
            up_row_bytes: up.row_bytes,
            eps: self.input_norm.map_or(0.0, |norm| norm.eps),
        })
    }
}

/// `y = silu(gate n) * (up n)`, with `n` the rows of `x`, normalized or not. A row has the bits of
/// [`rms_norm`](super::norm::rms_norm), two [`matvec`](super::matvec::matvec()) and
/// [`SwiGlu`](super::elementwise::Binary::SwiGlu), one after the other.
pub fn fused_ffn<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    operands: FusedFfn<'_, D::Buffer>,
) -> Result<(), OpError> {
    let arguments = operands.arguments(&y)?;
    let FusedFfn {
        gate,
        up,
        x,
        input_norm,
    } = operands;
    let norm = input_norm.as_ref();
    let constants = Constants::new(NAME, &[gate.ty, up.ty], &x, norm, y.rows, false)?;
    check_lanes(NAME, encode)?;
    if y.is_empty() {
        return Ok(());
    }
    let kernel = Kernel {
        file: FUSED_FFN,
        name: NAME,
        constants: constants.values(),
    };
    let mut bindings = vec![
        copied(&arguments),
        y.argument(NAME, 1, Access::Write)?,
        gate.argument(NAME, 2)?,
        up.argument(NAME, 3)?,
        x.argument(NAME, 4, Access::Read)?,
    ];
    if let Some(norm) = input_norm {
        bindings.push(norm.gain.argument(NAME, 5, Access::Read)?);
    }
    let simdgroups = simdgroups(encode, kernel, norm.is_some())?;
    let groups = [
        y.width.div_ceil(simdgroups * constants.span),
        y.rows.div_ceil(constants.batch),
        1,
    ];
    encode.groups(kernel, groups, simdgroups * LANES, &bindings)
}
