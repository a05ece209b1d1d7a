//! Float weights with f32 activations.

use std::arch::x86_64::*;

use minfer_gguf::TensorType;

use super::{PREFETCH, horizontal_sum};
use crate::matmul::decode::{FloatJob, MAX_ROWS};

/// Lanes of a vector.
const LANES: usize = 8;

/// Vectors whose products are summed apart, to hide the latency of an addition.
const VECTORS: usize = 4;

/// A float type.
trait Element {
    /// Bytes of an element.
    const BYTES: usize;

    /// [`LANES`] elements.
    ///
    /// # Safety
    /// They may be read, and the machine has AVX2 and F16C.
    unsafe fn load(from: *const u8) -> __m256;
}

struct F32;
struct F16;
struct BF16;

impl Element for F32 {
    const BYTES: usize = 4;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller's.
        unsafe { _mm256_loadu_ps(from.cast()) }
    }
}

impl Element for F16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller's.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

impl Element for BF16 {
    const BYTES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn load(from: *const u8) -> __m256 {
        // SAFETY: the caller's.
        let bits = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(from.cast()) });
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
    }
}

/// # Safety
/// The machine has [`Isa::Avx2`](crate::Isa::Avx2).
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::matmul::decode) unsafe fn float(ty: TensorType, job: FloatJob<'_, '_>) {
    match ty {
        TensorType::F32 => rows::<F32>(job),
        TensorType::F16 => rows::<F16>(job),
        TensorType::BF16 => rows::<BF16>(job),
        _ => unreachable!("{ty} weights have no float kernel"),
    }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn rows<E: Element>(job: FloatJob<'_, '_>) {
    match job.x.rows() {
        1 => rows_of::<E, 1>(job),
        2..=4 => rows_of::<E, 4>(job),
        _ => rows_of::<E, MAX_ROWS>(job),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn rows_of<E: Element, const N: usize>(job: FloatJob<'_, '_>) {
    let x_rows = if N == 1 { 1 } else { job.x.rows().min(N) };
    let whole = job.x.width() / LANES;
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let mut sums = [[_mm256_setzero_ps(); VECTORS]; N];
        let sums = &mut sums[..x_rows];
        for v in 0..whole {
            let from = row[v * LANES * E::BYTES..].as_ptr();
            _mm_prefetch(from.wrapping_add(PREFETCH).cast(), _MM_HINT_T1);
            // SAFETY: the vector is whole.
            let weights = unsafe { E::load(from) };
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                let x = unsafe { _mm256_loadu_ps(job.x.row(r)[v * LANES..].as_ptr()) };
                sums[v % VECTORS] = _mm256_fmadd_ps(weights, x, sums[v % VECTORS]);
            }
        }
        let mut tail = [0; LANES * 4];
        let rest = &row[whole * LANES * E::BYTES..];
        tail[..rest.len()].copy_from_slice(rest);
        // SAFETY: the array holds a vector of the widest type.
        let weights = unsafe { E::load(tail.as_ptr()) };
        for (r, [a, b, c, d]) in sums.iter().enumerate() {
            let mut x = [0.0; LANES];
            let rest = &job.x.row(r)[whole * LANES..];
            x[..rest.len()].copy_from_slice(rest);
            // SAFETY: the array holds a vector.
            let last = _mm256_mul_ps(weights, unsafe { _mm256_loadu_ps(x.as_ptr()) });
            let sum = _mm256_add_ps(_mm256_add_ps(*a, *b), _mm256_add_ps(*c, *d));
            job.out.set(r, o, horizontal_sum(_mm256_add_ps(sum, last)));
        }
    }
}
