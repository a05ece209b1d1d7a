//! NEON with dot products: four lanes of four products each.
//!
//! Tests on other machines run these kernels on a model of the instructions.

mod k_quants;
mod legacy;

#[cfg(not(target_arch = "aarch64"))]
mod model;

#[cfg(not(target_arch = "aarch64"))]
use model as intrinsics;
#[cfg(target_arch = "aarch64")]
use std::arch::aarch64 as intrinsics;

use intrinsics::*;
use minfer_gguf::TensorType;

use super::activations::QuantizedChunk;
use super::scalar::{self, Scales, k_quants as k, legacy as l};
use super::{GROUPS, MAX_ROWS, QuantizedJob, for_each_chunk};

/// A block format; its scales are those of the portable kernels.
trait Format: scalar::Format {
    /// Elements `32 j ..` of a chunk, signed.
    ///
    /// # Safety
    /// `chunk` is `CHUNK_BYTES` long, `j < 8`, and the machine has [`Isa::Neon`](crate::Isa::Neon).
    /// The same holds for all the functions that this calls.
    unsafe fn quants(chunk: &[u8], j: usize) -> [int8x16_t; 2];
}

/// # Safety
/// The machine has [`Isa::Neon`](crate::Isa::Neon).
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon,dotprod"))]
pub(super) unsafe fn quantized(ty: TensorType, job: QuantizedJob<'_, '_>) {
    // SAFETY: the caller's.
    unsafe {
        match ty {
            TensorType::Q4_0 => rows::<l::Q4_0>(job),
            TensorType::Q4_1 => rows::<l::Q4_1>(job),
            TensorType::Q5_0 => rows::<l::Q5_0>(job),
            TensorType::Q5_1 => rows::<l::Q5_1>(job),
            TensorType::Q8_0 => rows::<l::Q8_0>(job),
            TensorType::IQ4_NL => rows::<l::Iq4Nl>(job),
            TensorType::Q2_K => rows::<k::Q2K>(job),
            TensorType::Q3_K => rows::<k::Q3K>(job),
            TensorType::Q4_K => rows::<k::Q4K>(job),
            TensorType::Q5_K => rows::<k::Q5K>(job),
            TensorType::Q6_K => rows::<k::Q6K>(job),
            TensorType::IQ4_XS => rows::<k::Iq4Xs>(job),
            _ => unreachable!("{ty} weights have no int8 kernel"),
        }
    }
}

#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon,dotprod"))]
unsafe fn rows<F: Format>(job: QuantizedJob<'_, '_>) {
    // SAFETY: the caller's.
    unsafe {
        match job.x.rows() {
            1 => rows_of::<F, 1>(job),
            2..=4 => rows_of::<F, 4>(job),
            _ => rows_of::<F, MAX_ROWS>(job),
        }
    }
}

/// At most `N` activation rows.
#[cfg_attr(target_arch = "aarch64", target_feature(enable = "neon,dotprod"))]
unsafe fn rows_of<F: Format, const N: usize>(job: QuantizedJob<'_, '_>) {
    let per_row = job.x.chunks_per_row();
    let x_rows = if N == 1 { 1 } else { job.x.rows().min(N) };
    let x = job.x.chunks();
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        // SAFETY: the caller's.
        let mut sums = [unsafe { Sums::zero() }; N];
        let sums = &mut sums[..x_rows];
        for_each_chunk(row, F::CHUNK_BYTES, |c, chunk| {
            let scales = F::scales(chunk);
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the caller's.
                unsafe { sums.start(&scales, &x[r * per_row + c]) };
            }
            for j in 0..8 {
                // SAFETY: the caller's; the chunk is whole.
                let quants = unsafe { F::quants(chunk, j) };
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller's.
                    unsafe { sums.add(quants, j, &x[r * per_row + c]) };
                }
            }
        });
        for (r, sums) in sums.iter().enumerate() {
            // SAFETY: the caller's.
            job.out.set(r, o, unsafe { sums.total() });
        }
    }
}

/// The running sums of one output of one row, and the scales of the present chunk.
#[derive(Clone, Copy)]
struct Sums {
    sums: [float32x4_t; 2],
    /// Of weights and activations together.
    scales: [f32; GROUPS],
}

impl Sums {
    #[inline(always)]
    unsafe fn zero() -> Self {
        Sums {
            // SAFETY: the caller's.
            sums: [unsafe { vdupq_n_f32(0.0) }; 2],
            scales: [0.0; GROUPS],
        }
    }

    /// Adds the minima of a chunk.
    #[inline(always)]
    unsafe fn start(&mut self, weights: &Scales, x: &QuantizedChunk) {
        self.scales = std::array::from_fn(|g| weights.scales[g] * x.scales[g]);
        for quarter in 0..4 {
            let sum = &mut self.sums[quarter % 2];
            // SAFETY: the caller's; there are sixteen minima and sums.
            unsafe {
                let mins = vld1q_f32(weights.mins.as_ptr().add(4 * quarter));
                let x_sums = vld1q_f32(x.sums.as_ptr().add(4 * quarter));
                *sum = vfmaq_f32(*sum, mins, x_sums);
            }
        }
    }

    /// Adds the products of elements `32 j ..`.
    #[inline(always)]
    unsafe fn add(&mut self, quants: [int8x16_t; 2], j: usize, x: &QuantizedChunk) {
        for (half, quants) in quants.into_iter().enumerate() {
            let group = 2 * j + half;
            let sum = &mut self.sums[half];
            // SAFETY: the caller's; a chunk has sixteen vectors of quants.
            unsafe {
                let x = vld1q_s8(x.quants.as_ptr().add(16 * group));
                let products = vcvtq_f32_s32(dot(quants, x));
                *sum = vfmaq_n_f32(*sum, products, self.scales[group]);
            }
        }
    }

    #[inline(always)]
    unsafe fn total(&self) -> f32 {
        // SAFETY: the caller's.
        unsafe { vaddvq_f32(vaddq_f32(self.sums[0], self.sums[1])) }
    }
}

/// Sums of four products each.
#[cfg(target_arch = "aarch64")]
#[inline]
#[target_feature(enable = "neon,dotprod")]
unsafe fn dot(a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sums = vdupq_n_s32(0);
    // The intrinsic `vdotq_s32` is not stable.
    // SAFETY: the instruction only changes its destination; the features are this function's.
    unsafe {
        std::arch::asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

#[cfg(not(target_arch = "aarch64"))]
use model::dot;

/// The 16 bytes at `at`.
#[inline(always)]
unsafe fn bytes(chunk: &[u8], at: usize) -> uint8x16_t {
    debug_assert!(at + 16 <= chunk.len());
    // SAFETY: the caller's.
    unsafe { vld1q_u8(chunk.as_ptr().add(at)) }
}

/// Bits `shift ..` of each byte, of which `mask` keeps some.
#[inline(always)]
unsafe fn field(bytes: uint8x16_t, shift: usize, mask: u8) -> uint8x16_t {
    // SAFETY: the caller's.
    unsafe {
        vandq_u8(
            vshlq_u8(bytes, vdupq_n_s8(-(shift as i8))),
            vdupq_n_u8(mask),
        )
    }
}

/// Unsigned quants less their zero point.
#[inline(always)]
unsafe fn centred(quants: uint8x16_t, zero_point: i8) -> int8x16_t {
    // SAFETY: the caller's.
    unsafe { vsubq_s8(vreinterpretq_s8_u8(quants), vdupq_n_s8(zero_point)) }
}

/// The codes of IQ4_NL and IQ4_XS looked up.
#[inline(always)]
unsafe fn iq4_values(codes: uint8x16_t) -> int8x16_t {
    // SAFETY: the caller's; the table has 16 bytes.
    unsafe { vqtbl1q_s8(vld1q_s8(super::block_scales::IQ4_VALUES.as_ptr()), codes) }
}
