//! What the fused operations of generated rows share.

use minfer_gguf::TensorType;

use super::matvec::{self, LANES, rows_per_threadgroup};
use super::norm::{Normalization, PARTS};
use super::{Encode, Kernel, OpError, Rows, VECTOR, number, same};
use crate::device::{Buffer, ConstantValue, Device, Pipeline};

/// Function constants of a fused kernel, by index: first those that all have, then its own.
pub(super) struct Constants {
    values: Vec<(u32, ConstantValue)>,
    /// Rows that a threadgroup takes.
    pub(super) batch: usize,
    /// Outputs that a simdgroup computes.
    pub(super) span: usize,
}

impl Constants {
    /// For weights of these types and `rows` rows, which are those of `x` or picked from it.
    pub(super) fn new<B: Buffer>(
        op: &'static str,
        types: &[TensorType],
        x: &Rows<'_, B>,
        norm: Option<&Normalization<'_, B>>,
        rows: usize,
        gathered: bool,
    ) -> Result<Self, OpError> {
        let span = span(op, types)?;
        let batch = rows_per_threadgroup(rows);
        let is_aligned = norm.is_none_or(|norm| norm.gain.is_vectorizable());
        let vectorized = is_aligned && x.is_vectorizable() && x.width.is_multiple_of(VECTOR);
        let shared = [
            ConstantValue::Bool(vectorized),
            ConstantValue::U32(number(op, "rows", batch)?),
            ConstantValue::Bool(norm.is_some()),
            ConstantValue::U32(number(op, "outputs", span)?),
            ConstantValue::Bool(gathered),
        ];
        let types = types.iter().map(|ty| ConstantValue::U32(ty.code()));
        Ok(Constants {
            values: (0..).zip(shared.into_iter().chain(types)).collect(),
            batch,
            span,
        })
    }

    /// The next ones.
    pub(super) fn extend(&mut self, values: &[ConstantValue]) {
        let first = self.values.len() as u32;
        self.values.extend((first..).zip(values.iter().copied()));
    }

    pub(super) fn values(&self) -> &[(u32, ConstantValue)] {
        &self.values
    }
}

/// Outputs that a simdgroup computes: as many as `matvec` of the type that has most.
fn span(op: &'static str, types: &[TensorType]) -> Result<usize, OpError> {
    types.iter().try_fold(1, |span, &ty| {
        let outputs = matvec::outputs_per_simdgroup(ty).ok_or(OpError::Type { op, ty })?;
        Ok(span.max(outputs))
    })
}

/// Simdgroups of a threadgroup where each output is for one of them. With a normalization they share its sum of squares,
/// a part each.
pub(super) fn simdgroups<D: Device>(
    encode: &mut Encode<'_, D>,
    kernel: Kernel<'_>,
    normalized: bool,
) -> Result<usize, OpError> {
    let most = encode.pipeline(kernel)?.max_threads_per_threadgroup() / LANES;
    let wanted = if normalized {
        PARTS
    } else {
        matvec::SIMDGROUPS
    };
    Ok(wanted.min(most).max(1))
}

/// An error unless the device's simdgroups are those that the kernels are written for.
pub(super) fn check_lanes<D: Device>(
    op: &'static str,
    encode: &Encode<'_, D>,
) -> Result<(), OpError> {
    let lanes = encode.device.info().simd_width;
    same(op, "the simdgroup's width", lanes, LANES)
}

/// An error unless it is one row of `width`.
pub(super) fn check_bias<B>(
    op: &'static str,
    bias: &Rows<'_, B>,
    width: usize,
) -> Result<(), OpError> {
    same(op, "the rows of a bias", bias.rows, 1)?;
    same(op, "the width of a bias", bias.width, width)
}
