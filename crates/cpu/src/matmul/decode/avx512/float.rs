//! Float weights with f32 activations.

use std::arch::x86_64::*;

use minfer_gguf::TensorType;

use super::PREFETCH;
use crate::matmul::decode::{FloatJob, MAX_ROWS};

/// Vectors of sixteen elements whose products are summed apart, to hide the latency of an addition.
const VECTORS: usize = 4;

/// A float type.
trait Element {
    /// Bytes of an element.
    const BYTES: usize;

    /// The elements of `mask` from `from` on, the others zero.
    ///
    /// # Safety
    /// The masked elements may be read, and the machine has AVX-512 F, BW and VL.
    unsafe fn load(mask: __mmask16, from: *const u8) -> __m512;
}

struct F32;
struct F16;
struct BF16;

impl Element for F32 {
    const BYTES: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(mask: __mmask16, from: *const u8) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_maskz_loadu_ps(mask, from.cast()) }
    }
}

impl Element for F16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(mask: __mmask16, from: *const u8) -> __m512 {
        // SAFETY: the caller's.
        _mm512_cvtph_ps(unsafe { _mm256_maskz_loadu_epi16(mask, from.cast()) })
    }
}

impl Element for BF16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn load(mask: __mmask16, from: *const u8) -> __m512 {
        // SAFETY: the caller's.
        let bits = _mm512_cvtepu16_epi32(unsafe { _mm256_maskz_loadu_epi16(mask, from.cast()) });
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
    }
}

/// # Safety
/// The machine has [`Isa::Avx512`](crate::Isa::Avx512).
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(in crate::matmul::decode) unsafe fn float(ty: TensorType, job: FloatJob<'_, '_>) {
    match ty {
        TensorType::F32 => rows::<F32>(job),
        TensorType::F16 => rows::<F16>(job),
        TensorType::BF16 => rows::<BF16>(job),
        _ => unreachable!("{ty} weights have no float kernel"),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn rows<E: Element>(job: FloatJob<'_, '_>) {
    match job.x.rows() {
        1 => rows_of::<E, 1>(job),
        2..=4 => rows_of::<E, 4>(job),
        _ => rows_of::<E, MAX_ROWS>(job),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn rows_of<E: Element, const N: usize>(job: FloatJob<'_, '_>) {
    let x_rows = if N == 1 { 1 } else { job.x.rows().min(N) };
    let width = job.x.width();
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let mut sums = [[_mm512_setzero_ps(); VECTORS]; N];
        for start in (0..width).step_by(16 * VECTORS) {
            let left = width - start;
            let masks = [0, 1, 2, 3].map(|v| mask_of_first(left, v));
            let from = row.as_ptr().wrapping_add(start * E::BYTES);
            _mm_prefetch(from.wrapping_add(PREFETCH).cast(), _MM_HINT_T1);
            // SAFETY: the masks select elements of the row only.
            let weights: [__m512; VECTORS] = unsafe {
                [
                    E::load(masks[0], from),
                    E::load(masks[1], from.wrapping_add(16 * E::BYTES)),
                    E::load(masks[2], from.wrapping_add(32 * E::BYTES)),
                    E::load(masks[3], from.wrapping_add(48 * E::BYTES)),
                ]
            };
            for (r, sums) in sums[..x_rows].iter_mut().enumerate() {
                let x = job.x.row(r)[start..].as_ptr();
                for (v, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    let x = unsafe { _mm512_maskz_loadu_ps(masks[v], x.wrapping_add(16 * v)) };
                    *sum = _mm512_fmadd_ps(weights[v], x, *sum);
                }
            }
        }
        for (r, [a, b, c, d]) in sums[..x_rows].iter().enumerate() {
            let sum = _mm512_add_ps(_mm512_add_ps(*a, *b), _mm512_add_ps(*c, *d));
            job.out.set(r, o, _mm512_reduce_add_ps(sum));
        }
    }
}

/// The lanes of the `v`-th vector that are among the next `left` elements.
#[inline]
fn mask_of_first(left: usize, v: usize) -> __mmask16 {
    match left.saturating_sub(16 * v) {
        0 => 0,
        n => u16::MAX >> (16 - n.min(16)),
    }
}
