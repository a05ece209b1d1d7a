//! AVX-512 VNNI: sixteen lanes of four products each.

mod float;
mod k_quants;
mod legacy;

use std::arch::x86_64::*;

use minfer_gguf::TensorType;

use super::activations::QuantizedChunk;
use super::{MAX_ROWS, QuantizedJob, for_each_chunk};

pub(super) use float::float;

/// Bytes between a chunk and what is fetched for later. Rows follow each other, so this hides the
/// page borders at which the hardware's own prefetching stops.
const PREFETCH: usize = 3072;

/// A chunk of weights: `scale * quant + min`, with unsigned quants and a lane per group.
struct Unpacked {
    /// 64 elements each.
    quants: [__m512i; 4],
    scales: __m512,
    /// Unused where [`Format::RAISED`].
    mins: __m512,
}

/// The expression for each quarter of a chunk.
macro_rules! quarters {
    ($j:ident => $quants:expr) => {
        [
            {
                let $j = 0;
                $quants
            },
            {
                let $j = 1;
                $quants
            },
            {
                let $j = 2;
                $quants
            },
            {
                let $j = 3;
                $quants
            },
        ]
    };
}
use quarters;

/// A block format.
trait Format {
    /// Bytes of a chunk.
    const CHUNK_BYTES: usize;

    /// Whether the quants are raised by 128. A zero point that large is taken off the integer dot
    /// products: as a minimum it would dwarf them and cost float digits.
    const RAISED: bool = false;

    /// Unpacks a whole chunk.
    ///
    /// # Safety
    /// `bytes` is `CHUNK_BYTES` long, and the machine has AVX-512 F, BW, VL and VNNI.
    unsafe fn unpack(bytes: &[u8]) -> Unpacked;
}

/// # Safety
/// The machine has [`Isa::Avx512`](crate::Isa::Avx512).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
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

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn rows<F: Format>(job: QuantizedJob<'_, '_>) {
    match job.x.rows() {
        1 => rows_of::<F, 1>(job),
        2..=4 => rows_of::<F, 4>(job),
        _ => rows_of::<F, MAX_ROWS>(job),
    }
}

/// At most `N` activation rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn rows_of<F: Format, const N: usize>(job: QuantizedJob<'_, '_>) {
    let per_row = job.x.chunks_per_row();
    let x_rows = if N == 1 { 1 } else { job.x.rows().min(N) };
    let x = job.x.chunks();
    for (o, row) in job.weights.chunks_exact(job.row_bytes).enumerate() {
        let mut sums = [Sums::zero(); N];
        for_each_chunk(row, F::CHUNK_BYTES, |c, bytes| {
            for line in (0..F::CHUNK_BYTES).step_by(64) {
                let ahead = bytes.as_ptr().wrapping_add(PREFETCH + line);
                // A prefetch of an address outside the weights does nothing.
                _mm_prefetch(ahead.cast(), _MM_HINT_T1);
            }
            // SAFETY: the chunk is whole; the features are this function's.
            let weights = unsafe { F::unpack(bytes) };
            for (r, sums) in sums[..x_rows].iter_mut().enumerate() {
                sums.add::<F>(&weights, &x[r * per_row + c]);
            }
        });
        for (r, sums) in sums[..x_rows].iter().enumerate() {
            job.out.set(r, o, sums.total());
        }
    }
}

/// The running sums of one output of one row.
#[derive(Clone, Copy)]
struct Sums {
    even: __m512,
    odd: __m512,
}

impl Sums {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn zero() -> Self {
        Sums {
            even: _mm512_setzero_ps(),
            odd: _mm512_setzero_ps(),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn add<F: Format>(&mut self, weights: &Unpacked, x: &QuantizedChunk) {
        // SAFETY: the arrays hold 16 floats.
        let (x_scales, x_sums) = unsafe {
            (
                _mm512_load_ps(x.scales.as_ptr()),
                _mm512_load_ps(x.sums.as_ptr()),
            )
        };
        if !F::RAISED {
            self.odd = _mm512_fmadd_ps(weights.mins, x_sums, self.odd);
        }
        let scales = _mm512_mul_ps(weights.scales, x_scales);
        let scaled = |j: usize, sum| {
            // SAFETY: the arrays hold four vectors.
            let (quants, offsets) = unsafe {
                (
                    _mm512_load_si512(x.quants[64 * j..].as_ptr().cast()),
                    _mm512_load_si512(x.offsets[16 * j..].as_ptr().cast()),
                )
            };
            let start = if F::RAISED {
                offsets
            } else {
                _mm512_setzero_si512()
            };
            let dots = _mm512_dpbusd_epi32(start, weights.quants[j], quants);
            let scales = _mm512_permutexvar_ps(groups(j), scales);
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scales, sum)
        };
        self.even = scaled(0, self.even);
        self.odd = scaled(1, self.odd);
        self.even = scaled(2, self.even);
        self.odd = scaled(3, self.odd);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn total(&self) -> f32 {
        _mm512_reduce_add_ps(_mm512_add_ps(self.even, self.odd))
    }
}

/// The group that each lane of the dot products of elements `64 j ..` belongs to.
#[inline]
#[target_feature(enable = "avx512f")]
fn groups(j: usize) -> __m512i {
    let first = 4 * j as i32;
    let [a, b, c, d] = [first, first + 1, first + 2, first + 3];
    _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d)
}

/// A symmetric format, its quants unsigned by a small zero point.
#[inline]
#[target_feature(enable = "avx512f")]
fn centred(quants: [__m512i; 4], zero_point: f32, scales: __m512) -> Unpacked {
    Unpacked {
        quants,
        scales,
        mins: _mm512_mul_ps(scales, _mm512_set1_ps(-zero_point)),
    }
}

/// A [`Format::RAISED`] format.
#[inline]
#[target_feature(enable = "avx512f")]
fn raised(quants: [__m512i; 4], scales: __m512) -> Unpacked {
    Unpacked {
        quants,
        scales,
        mins: _mm512_setzero_ps(),
    }
}

/// 16 bytes from `at` on.
///
/// # Safety
/// They lie within `bytes`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_128(bytes: &[u8], at: usize) -> __m128i {
    debug_assert!(at + 16 <= bytes.len());
    // SAFETY: the caller's.
    unsafe { _mm_loadu_si128(bytes.as_ptr().add(at).cast()) }
}

/// 32 bytes from `at` on.
///
/// # Safety
/// They lie within `bytes`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_256(bytes: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 32 <= bytes.len());
    // SAFETY: the caller's.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().add(at).cast()) }
}

/// 64 bytes from `at` on.
///
/// # Safety
/// They lie within `bytes`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_512(bytes: &[u8], at: usize) -> __m512i {
    debug_assert!(at + 64 <= bytes.len());
    // SAFETY: the caller's.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().add(at).cast()) }
}

/// A half float in every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512vl")]
fn half(bits: u16) -> __m512 {
    _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}

/// The codes of IQ4_NL and IQ4_XS looked up and raised by 128.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn iq4_values(codes: __m512i) -> __m512i {
    let table = super::block_scales::IQ4_VALUES.map(|v| v as u8 ^ 0x80);
    // SAFETY: the array has 16 bytes.
    let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), codes)
}
