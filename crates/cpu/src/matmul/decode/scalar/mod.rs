//! The reference kernels, in plain Rust.

pub(super) mod k_quants;
pub(super) mod legacy;

use minfer_gguf::TensorType;

use super::activations::QuantizedChunk;
use super::block_scales::half_word;
use super::{CHUNK, FloatJob, GROUP, GROUPS, MAX_ROWS, QuantizedJob, for_each_chunk};
use crate::simd::f16_to_f32;

/// What the quants of each group are scaled with: `weight = scale * quant + min`.
pub(super) struct Scales {
    pub(super) scales: [f32; GROUPS],
    pub(super) mins: [f32; GROUPS],
}

impl Scales {
    /// From the scale and the minimum of each group.
    #[inline(always)]
    fn of_groups(group: impl Fn(usize) -> (f32, f32)) -> Self {
        let mut all = Scales {
            scales: [0.0; GROUPS],
            mins: [0.0; GROUPS],
        };
        for (g, (scale, min)) in all.scales.iter_mut().zip(&mut all.mins).enumerate() {
            (*scale, *min) = group(g);
        }
        all
    }
}

/// A block format.
pub(super) trait Format {
    /// Bytes of a chunk.
    const CHUNK_BYTES: usize;

    /// The scales of a chunk.
    fn scales(chunk: &[u8]) -> Scales;

    /// The `i`-th quant of a chunk, signed.
    fn quant(chunk: &[u8], i: usize) -> i8;
}

pub(super) fn quantized(ty: TensorType, job: QuantizedJob<'_, '_>) {
    match ty {
        TensorType::Q4_0 => rows::<legacy::Q4_0>(job),
        TensorType::Q4_1 => rows::<legacy::Q4_1>(job),
        TensorType::Q5_0 => rows::<legacy::Q5_0>(job),
        TensorType::Q5_1 => rows::<legacy::Q5_1>(job),
        TensorType::Q8_0 => rows::<legacy::Q8_0>(job),
        TensorType::IQ4_NL => rows::<legacy::Iq4Nl>(job),
        TensorType::Q2_K => rows::<k_quants::Q2K>(job),
        TensorType::Q3_K => rows::<k_quants::Q3K>(job),
        TensorType::Q4_K => rows::<k_quants::Q4K>(job),
        TensorType::Q5_K => rows::<k_quants::Q5K>(job),
        TensorType::Q6_K => rows::<k_quants::Q6K>(job),
        TensorType::IQ4_XS => rows::<k_quants::Iq4Xs>(job),
        _ => unreachable!("{ty} weights have no int8 kernel"),
    }
}

fn rows<F: Format>(job: QuantizedJob<'_, '_>) {
    let per_row = job.x.chunks_per_row();
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let mut sums = [0.0; MAX_ROWS];
        let sums = &mut sums[..job.x.rows()];
        for_each_chunk(row, F::CHUNK_BYTES, |c, chunk| {
            let scales = F::scales(chunk);
            let quants = std::array::from_fn(|i| F::quant(chunk, i));
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum += dot(&scales, &quants, &job.x.chunks()[r * per_row + c]);
            }
        });
        for (r, sum) in sums.iter().enumerate() {
            job.out.set(r, o, *sum);
        }
    }
}

fn dot(weights: &Scales, quants: &[i8; CHUNK], x: &QuantizedChunk) -> f32 {
    let quants = quants.as_chunks::<GROUP>().0;
    let x_quants = x.quants.as_chunks::<GROUP>().0;
    let mut sum = 0.0;
    for g in 0..GROUPS {
        let dot: i32 = std::iter::zip(quants[g], x_quants[g])
            .map(|(w, x)| i32::from(w) * i32::from(x))
            .sum();
        sum += weights.scales[g] * x.scales[g] * dot as f32 + weights.mins[g] * x.sums[g];
    }
    sum
}

pub(super) fn float(ty: TensorType, job: FloatJob<'_, '_>) {
    match ty {
        TensorType::F32 => float_rows(job, f32::from_le_bytes),
        TensorType::F16 => float_rows(job, |b| f16_to_f32(u16::from_le_bytes(b))),
        TensorType::BF16 => float_rows(job, |b| {
            f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
        }),
        _ => unreachable!("{ty} weights have no float kernel"),
    }
}

/// Independent sums, so that rounding errors grow with the width over their number.
const LANES: usize = 16;

fn float_rows<const N: usize>(job: FloatJob<'_, '_>, widen: impl Fn([u8; N]) -> f32) {
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let weights = row.as_chunks::<N>().0;
        for r in 0..job.x.rows() {
            let mut sums = [0.0; LANES];
            for (weights, x) in weights.chunks(LANES).zip(job.x.row(r).chunks(LANES)) {
                for ((sum, &w), x) in sums.iter_mut().zip(weights).zip(x) {
                    *sum = widen(w).mul_add(*x, *sum);
                }
            }
            job.out.set(r, o, sums.iter().sum());
        }
    }
}

/// Half float that `bytes` starts with.
#[inline(always)]
fn half(bytes: &[u8]) -> f32 {
    f16_to_f32(half_word(bytes))
}
