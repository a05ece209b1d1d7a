//! AVX-512 VNNI: sixteen lanes of four products each.

mod float;
mod k_quants;
mod legacy;

use std::arch::x86_64::*;

use minfer_gguf::TensorType;

use super::activations::QuantizedChunk;
use super::{MAX_ROWS, QuantizedJob, for_each_chunk, load};

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

/// The expression for each quarter of a chunk; those of the second half are zero unless it is wide.
macro_rules! quarters {
    ($wide:expr, $j:ident => $quants:expr) => {{
        let zero = _mm512_setzero_si512();
        let mut quarters = [zero; 4];
        {
            let $j = 0;
            quarters[$j] = $quants;
        }
        {
            let $j = 1;
            quarters[$j] = $quants;
        }
        if $wide {
            {
                let $j = 2;
                quarters[$j] = $quants;
            }
            {
                let $j = 3;
                quarters[$j] = $quants;
            }
        }
        quarters
    }};
}
use quarters;

/// A block format.
trait Format {
    /// Bytes of a chunk.
    const CHUNK_BYTES: usize;

    /// Blocks of a chunk.
    const BLOCKS: usize;

    /// Whether the quants are raised by 128. A zero point that large is taken off the integer dot
    /// products: as a minimum it would dwarf them and cost float digits.
    const RAISED: bool = false;

    /// Unpacks a whole chunk, or, where it is not `wide`, the first half of its quants.
    ///
    /// # Safety
    /// `chunk` is `CHUNK_BYTES` long, and the machine has [`Isa::Avx512`](crate::Isa::Avx512). The
    /// same holds for all the functions that this calls: inlined by force into those that enable the
    /// features, they cannot enable them themselves.
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked;
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
        let sums = &mut sums[..x_rows];
        for_each_chunk(row, F::CHUNK_BYTES, |c, chunk| {
            // The last chunk of a row of 32-element blocks may be half empty.
            let wide = F::BLOCKS == 1 || row.len() - c * F::CHUNK_BYTES > F::CHUNK_BYTES / 2;
            for line in (0..F::CHUNK_BYTES).step_by(64) {
                let ahead = chunk.as_ptr().wrapping_add(PREFETCH + line);
                // A prefetch of an address outside the weights does nothing.
                _mm_prefetch(ahead.cast(), _MM_HINT_T1);
            }
            // SAFETY: the chunk is whole; the features are this function's.
            let weights = unsafe { F::unpack(chunk, wide) };
            for (r, sums) in sums.iter_mut().enumerate() {
                // SAFETY: the features are this function's.
                unsafe { sums.add::<F>(&weights, &x[r * per_row + c], wide) };
            }
        });
        for (r, sums) in sums.iter().enumerate() {
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

    #[inline(always)]
    unsafe fn add<F: Format>(&mut self, weights: &Unpacked, x: &QuantizedChunk, wide: bool) {
        // SAFETY: the caller's.
        unsafe {
            let x_scales = _mm512_load_ps(x.scales.as_ptr());
            let scales = _mm512_mul_ps(weights.scales, x_scales);
            if !F::RAISED {
                let x_sums = _mm512_load_ps(x.sums.as_ptr());
                self.odd = _mm512_fmadd_ps(weights.mins, x_sums, self.odd);
            }
            self.even = add_quarter::<F, 0>(weights, scales, x, self.even);
            self.odd = add_quarter::<F, 1>(weights, scales, x, self.odd);
            if wide {
                self.even = add_quarter::<F, 2>(weights, scales, x, self.even);
                self.odd = add_quarter::<F, 3>(weights, scales, x, self.odd);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn total(&self) -> f32 {
        _mm512_reduce_add_ps(_mm512_add_ps(self.even, self.odd))
    }
}

/// `sum` and the scaled products of elements `64 J ..`.
#[inline(always)]
unsafe fn add_quarter<F: Format, const J: usize>(
    weights: &Unpacked,
    scales: __m512,
    x: &QuantizedChunk,
    sum: __m512,
) -> __m512 {
    let [a, b, c, d] = [0, 1, 2, 3].map(|group| 4 * J as i32 + group);
    // SAFETY: the caller's; a chunk has four vectors of quants and of offsets.
    unsafe {
        let start = if F::RAISED {
            _mm512_load_si512(x.offsets.as_ptr().add(16 * J).cast())
        } else {
            _mm512_setzero_si512()
        };
        let quants = _mm512_load_si512(x.quants.as_ptr().add(64 * J).cast());
        let dots = _mm512_dpbusd_epi32(start, weights.quants[J], quants);
        // The group of each lane.
        let groups = _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
        let scales = _mm512_permutexvar_ps(groups, scales);
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), scales, sum)
    }
}

/// A symmetric format, its quants unsigned by a small zero point.
#[inline(always)]
unsafe fn centred(quants: [__m512i; 4], zero_point: f32, scales: __m512) -> Unpacked {
    // SAFETY: the caller's.
    let mins = unsafe { _mm512_mul_ps(scales, _mm512_set1_ps(-zero_point)) };
    Unpacked {
        quants,
        scales,
        mins,
    }
}

/// A [`Format::RAISED`] format.
#[inline(always)]
unsafe fn raised(quants: [__m512i; 4], scales: __m512) -> Unpacked {
    Unpacked {
        quants,
        scales,
        // SAFETY: the caller's.
        mins: unsafe { _mm512_setzero_ps() },
    }
}

/// The nibbles of two blocks, each 16 bytes whose low ones come before the high ones.
#[inline(always)]
unsafe fn low_then_high_nibbles(chunk: &[u8], first: usize, second: usize) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let both = _mm512_broadcast_i32x4(load(chunk, first));
        let both = _mm512_mask_broadcast_i32x4(both, 0xff00, load(chunk, second));
        let by_four = 0x0004_0004_0004_0004;
        let shifts = _mm512_setr_epi64(0, 0, by_four, by_four, 0, 0, by_four, by_four);
        _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(0xf))
    }
}

/// The codes of IQ4_NL and IQ4_XS looked up and raised by 128.
#[inline(always)]
unsafe fn iq4_values(codes: __m512i) -> __m512i {
    // SAFETY: the caller's; the table has 16 bytes.
    unsafe {
        let table = _mm_loadu_si128(super::block_scales::IQ4_VALUES.as_ptr().cast());
        let raised = _mm512_xor_si512(_mm512_broadcast_i32x4(table), _mm512_set1_epi8(-128));
        _mm512_shuffle_epi8(raised, codes)
    }
}
