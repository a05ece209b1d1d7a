//! RMS normalization.

use super::matvec::LANES;
use super::{Encode, Kernel, OpError, Rows, THREADS, copied, number, same};
use crate::arguments::Norm;
use crate::device::{Access, Buffer, Device, Pipeline, copy_references};
use crate::kernels::NORM;

const NAME: &str = "rms_norm";
/// Parts of a row, as in the kernels: more simdgroups would have nothing to do.
pub(super) const PARTS: usize = 8;

/// RMS normalization of what an operation reads.
#[derive(Debug)]
pub struct Normalization<'a, B> {
    /// One row, as wide as what is normalized together.
    pub gain: Rows<'a, B>,
    /// Added to the mean square.
    pub eps: f32,
}

copy_references!(Normalization);

impl<B: Buffer> Normalization<'_, B> {
    /// An error unless the gain is one row of `width`.
    pub(super) fn check(&self, op: &'static str, width: usize) -> Result<(), OpError> {
        same(op, "the rows of a gain", self.gain.rows, 1)?;
        same(op, "the width of a gain", self.gain.width, width)
    }
}

/// `y = x / sqrt(mean(x^2) + eps) * gain` over each `gain.width` features of a row: the whole row, or the heads
/// of one. `y` may be `x`.
pub fn rms_norm<D: Device>(
    encode: &mut Encode<'_, D>,
    y: Rows<'_, D::Buffer>,
    x: Rows<'_, D::Buffer>,
    gain: Rows<'_, D::Buffer>,
    eps: f32,
) -> Result<(), OpError> {
    same(NAME, "the width of the input", x.width, y.width)?;
    same(NAME, "the rows of the input", x.rows, y.rows)?;
    same(NAME, "the rows of the gain", gain.rows, 1)?;
    if gain.width == 0 || !y.width.is_multiple_of(gain.width) {
        let expected = format_args!("a divisor of {}", y.width).to_string();
        return Err(OpError::value(
            NAME,
            "the width of the gain",
            gain.width,
            expected,
        ));
    }
    if y.is_empty() {
        return Ok(());
    }
    let lanes = encode.device.info().simd_width;
    same(NAME, "the simdgroup's width", lanes, LANES)?;
    let heads = y.width / gain.width;
    let arguments = Norm {
        width: number(NAME, "width", gain.width)?,
        heads: number(NAME, "heads", heads)?,
        y_stride: number(NAME, "a stride", y.stride)?,
        x_stride: number(NAME, "a stride", x.stride)?,
        eps,
    };
    let kernel = Kernel {
        file: NORM,
        name: NAME,
        constants: &[],
    };
    let limit = encode.pipeline(kernel)?.max_threads_per_threadgroup();
    let threads = threads(gain.width, limit);
    encode.groups(
        kernel,
        [heads, y.rows, 1],
        threads,
        &[
            copied(&arguments),
            y.argument(NAME, 1, Access::Write)?,
            x.argument(NAME, 2, Access::Read)?,
            gain.argument(NAME, 3, Access::Read)?,
        ],
    )
}

/// Whole simdgroups, as many as there is work for.
fn threads(width: usize, limit: usize) -> usize {
    let most = THREADS.min(limit) / LANES;
    LANES * width.div_ceil(LANES).min(most).clamp(1, PARTS)
}

#[cfg(test)]
mod tests {
    use super::threads;

    #[test]
    fn simdgroups_follow_width_and_limit() {
        for (width, limit, expected) in [
            (1, 1024, 32),
            (64, 1024, 64),
            (65, 1024, 96),
            (4096, 1024, 256),
            (4096, 200, 192),
            (4096, 32, 32),
        ] {
            assert_eq!(threads(width, limit), expected, "{width} of {limit}");
        }
    }
}
