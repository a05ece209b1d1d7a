//! AVX2: eight lanes of four products each, in two multiply-add steps.

mod float;
mod k_quants;
mod legacy;

use std::arch::x86_64::*;

use minfer_gguf::TensorType;

use super::activations::QuantizedChunk;
use super::{MAX_ROWS, QuantizedJob, for_each_chunk, load};

pub(super) use float::float;

/// Bytes between a chunk and what is fetched for later.
const PREFETCH: usize = 3072;

/// What the quants of a chunk are scaled with: `weight = scale * quant + min`, a lane per group.
struct Scales {
    scales: [__m256; 2],
    mins: [__m256; 2],
}

/// A block format.
trait Format {
    /// Bytes of a chunk.
    const CHUNK_BYTES: usize;

    /// Whether quants may be negative.
    ///
    /// Unsigned ones save two instructions. But the first multiply-add step has 16 bits for the sum
    /// of two products, so they must not exceed 128: the 8-bit formats stay signed.
    const SIGNED: bool = false;

    /// The scales of a chunk. Symmetric formats with unsigned quants have their zero point in the
    /// minima.
    ///
    /// # Safety
    /// `chunk` is `CHUNK_BYTES` long, and the machine has [`Isa::Avx2`](crate::Isa::Avx2). The same
    /// holds for all the functions that this calls: inlined by force into those that enable the
    /// features, they cannot enable them themselves.
    unsafe fn scales(chunk: &[u8]) -> Scales;

    /// Elements `32 j ..` of a chunk.
    ///
    /// # Safety
    /// As for [`Format::scales`], and `j < 8`.
    unsafe fn quants(chunk: &[u8], j: usize) -> __m256i;
}

/// # Safety
/// The machine has [`Isa::Avx2`](crate::Isa::Avx2).
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn quantized(ty: TensorType, job: QuantizedJob<'_, '_>) {
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

#[target_feature(enable = "avx2,fma,f16c")]
fn rows<F: Format>(job: QuantizedJob<'_, '_>) {
    match job.x.rows() {
        1 => rows_of::<F, 1>(job),
        2..=4 => rows_of::<F, 4>(job),
        _ => rows_of::<F, MAX_ROWS>(job),
    }
}

/// At most `N` activation rows.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn rows_of<F: Format, const N: usize>(job: QuantizedJob<'_, '_>) {
    let per_row = job.x.chunks_per_row();
    let x_rows = if N == 1 { 1 } else { job.x.rows().min(N) };
    let x = job.x.chunks();
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let mut sums = [Sums::zero(); N];
        let sums = &mut sums[..x_rows];
        for_each_chunk(row, F::CHUNK_BYTES, |c, chunk| {
            for line in (0..F::CHUNK_BYTES).step_by(64) {
                let ahead = chunk.as_ptr().wrapping_add(PREFETCH + line);
                // A prefetch of an address outside the weights does nothing.
                _mm_prefetch(ahead.cast(), _MM_HINT_T1);
            }
            // SAFETY: the chunk is whole; the features are this function's.
            let scales = unsafe { F::scales(chunk) };
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: as above.
                unsafe { sums.start(&scales, &x[r * per_row + c]) };
            }
            for j in 0..8 {
                // SAFETY: as above.
                let quants = unsafe { F::quants(chunk, j) };
                for (r, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    unsafe { sums.add::<F>(quants, j, &x[r * per_row + c]) };
                }
            }
        });
        for (r, sums) in sums.iter().enumerate() {
            job.out.set(r, o, sums.total());
        }
    }
}

/// The running sums of one output of one row, and the scales of the present chunk.
#[derive(Clone, Copy)]
struct Sums {
    sums: [__m256; 2],
    /// Of weights and activations together, a lane per group.
    scales: [__m256; 2],
}

impl Sums {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero() -> Self {
        Sums {
            sums: [_mm256_setzero_ps(); 2],
            scales: [_mm256_setzero_ps(); 2],
        }
    }

    /// Adds the minima of a chunk.
    #[inline(always)]
    unsafe fn start(&mut self, weights: &Scales, x: &QuantizedChunk) {
        for half in 0..2 {
            // SAFETY: the caller's; a chunk has sixteen scales and sums.
            unsafe {
                let x_scales = _mm256_load_ps(x.scales.as_ptr().add(8 * half));
                let x_sums = _mm256_load_ps(x.sums.as_ptr().add(8 * half));
                self.scales[half] = _mm256_mul_ps(weights.scales[half], x_scales);
                self.sums[half] = _mm256_fmadd_ps(weights.mins[half], x_sums, self.sums[half]);
            }
        }
    }

    /// Adds the products of elements `32 j ..`.
    #[inline(always)]
    unsafe fn add<F: Format>(&mut self, quants: __m256i, j: usize, x: &QuantizedChunk) {
        let sum = &mut self.sums[j % 2];
        // SAFETY: the caller's; a chunk has eight vectors of quants.
        unsafe {
            let x = _mm256_load_si256(x.quants.as_ptr().add(32 * j).cast());
            let pairs = if F::SIGNED {
                _mm256_maddubs_epi16(_mm256_abs_epi8(quants), _mm256_sign_epi8(x, quants))
            } else {
                _mm256_maddubs_epi16(quants, x)
            };
            let dots = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            let [first, second] = [0, 1].map(|group| (j % 4 * 2) as i32 + group);
            // The group of each lane.
            let groups =
                _mm256_setr_epi32(first, first, first, first, second, second, second, second);
            let scales = _mm256_permutevar8x32_ps(self.scales[j / 4], groups);
            *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots), scales, *sum);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(&self) -> f32 {
        horizontal_sum(_mm256_add_ps(self.sums[0], self.sums[1]))
    }
}

impl Scales {
    /// A symmetric format with the given zero point, 0 where quants are signed.
    #[inline(always)]
    unsafe fn symmetric(scales: [__m256; 2], zero_point: f32) -> Self {
        // SAFETY: the caller's.
        let mins = unsafe {
            let zero_point = _mm256_set1_ps(-zero_point);
            [
                _mm256_mul_ps(scales[0], zero_point),
                _mm256_mul_ps(scales[1], zero_point),
            ]
        };
        Scales { scales, mins }
    }
}

/// A lane for each of the two groups of a block, from a lane per block.
#[inline(always)]
unsafe fn groups_of_blocks(blocks: __m256) -> [__m256; 2] {
    // SAFETY: the caller's.
    unsafe {
        [
            _mm256_permutevar8x32_ps(blocks, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3)),
            _mm256_permutevar8x32_ps(blocks, _mm256_setr_epi32(4, 4, 5, 5, 6, 6, 7, 7)),
        ]
    }
}

/// The sum of all lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn horizontal_sum(v: __m256) -> f32 {
    let quarters = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let halves = _mm_add_ps(quarters, _mm_movehl_ps(quarters, quarters));
    _mm_cvtss_f32(_mm_add_ss(halves, _mm_movehdup_ps(halves)))
}

/// Bits `shift .. shift + 8` of each 16-bit lane, of which `mask` keeps what belongs to its byte.
#[inline(always)]
unsafe fn field(v: __m256i, shift: usize, mask: i8) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let shifted = _mm256_srl_epi16(v, _mm_cvtsi32_si128(shift as i32));
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
    }
}

/// The nibbles of 16 bytes: the low ones, then the high ones.
#[inline(always)]
unsafe fn low_then_high_nibbles(chunk: &[u8], at: usize) -> __m256i {
    // SAFETY: the caller's.
    unsafe {
        let packed: __m128i = load(chunk, at);
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(packed), packed);
        _mm256_and_si256(both, _mm256_set1_epi8(0xf))
    }
}

/// The codes of IQ4_NL and IQ4_XS looked up.
#[inline(always)]
unsafe fn iq4_values(codes: __m256i) -> __m256i {
    // SAFETY: the caller's; the table has 16 bytes.
    unsafe {
        let table = _mm_loadu_si128(super::block_scales::IQ4_VALUES.as_ptr().cast());
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), codes)
    }
}
