//! Activation rows, as they come and quantized to int8.

use super::{CHUNK, GROUP, GROUPS};
use crate::Isa;
use crate::view::MatRef;

/// Elements that share an activation scale.
pub(super) const BLOCK: usize = 32;

/// Largest quant: symmetric, so that a negated quant is one too.
const MAX_QUANT: f32 = 127.0;

/// Blocks whose largest magnitude is below this count as zero: its reciprocal would overflow.
const SMALLEST: f32 = 1e-30;

/// [`CHUNK`] quantized activations; a row is padded with zeros to whole chunks.
#[derive(Clone, Debug, PartialEq)]
#[repr(C, align(64))]
pub(super) struct QuantizedChunk {
    pub(super) quants: [i8; CHUNK],
    /// Scale of each group; the two groups of a block of 32 have the same.
    pub(super) scales: [f32; GROUPS],
    /// Scale times the sum of the group's quants.
    pub(super) sums: [f32; GROUPS],
    /// -128 times the sum of each four quants: what brings dot products with weights that were raised
    /// by 128, to be unsigned, back to those of the weights.
    pub(super) offsets: [i32; CHUNK / 4],
}

impl QuantizedChunk {
    const ZERO: Self = QuantizedChunk {
        quants: [0; CHUNK],
        scales: [0.0; GROUPS],
        sums: [0.0; GROUPS],
        offsets: [0; CHUNK / 4],
    };
}

/// Rows quantized to int8 per block of 32: `x = scale * quant` with `scale = max|x| / 127`.
///
/// A block with a NaN or an infinity has a scale that is not finite, so that every product with it
/// shows it. The memory is kept from one call to the next.
#[derive(Clone, Default)]
pub(crate) struct QuantizedRows {
    chunks: Vec<QuantizedChunk>,
    width: usize,
    rows: usize,
}

impl QuantizedRows {
    /// Replaces the rows by those of `x`, whose width is a multiple of 32. The result is the same
    /// for every `isa`.
    ///
    /// # Panics
    /// On other widths, or where the machine lacks `isa`.
    pub(crate) fn quantize(&mut self, isa: Isa, x: MatRef<'_>) {
        assert!(isa.is_available(), "{isa} is not available");
        assert!(
            x.width().is_multiple_of(BLOCK),
            "width {} is not a multiple of {BLOCK}",
            x.width()
        );
        self.width = x.width();
        self.rows = x.rows();
        let per_row = self.chunks_per_row();
        self.chunks
            .resize(per_row * self.rows, QuantizedChunk::ZERO);
        for r in 0..self.rows {
            let chunks = &mut self.chunks[r * per_row..][..per_row];
            for (chunk, x) in chunks.iter_mut().zip(x.row(r).chunks(CHUNK)) {
                if x.len() < CHUNK {
                    *chunk = QuantizedChunk::ZERO;
                }
                quantize_chunk(isa, x, chunk);
            }
        }
    }

    /// Elements per row.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn chunks_per_row(&self) -> usize {
        self.width.div_ceil(CHUNK)
    }

    /// All rows, [`QuantizedRows::chunks_per_row`] chunks each.
    pub(super) fn chunks(&self) -> &[QuantizedChunk] {
        &self.chunks
    }
}

fn quantize_chunk(isa: Isa, x: &[f32], chunk: &mut QuantizedChunk) {
    match isa {
        // SAFETY: `quantize` checked that this machine has the level.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => unsafe { quantize_chunk_avx512(x, chunk) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { quantize_chunk_avx2(x, chunk) },
        _ => quantize_chunk_portable(x, chunk),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn quantize_chunk_avx512(x: &[f32], chunk: &mut QuantizedChunk) {
    quantize_chunk_portable(x, chunk);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn quantize_chunk_avx2(x: &[f32], chunk: &mut QuantizedChunk) {
    quantize_chunk_portable(x, chunk);
}

/// Plain loops, which the compiler vectorizes for the caller's instruction set.
#[inline(always)]
fn quantize_chunk_portable(x: &[f32], chunk: &mut QuantizedChunk) {
    for (b, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
        let (scale, inverse) = block_scale(x);
        for (i, &x) in x.iter().enumerate() {
            chunk.quants[b * BLOCK + i] = round_to_quant(x * inverse);
        }
        for g in [2 * b, 2 * b + 1] {
            let sum: i32 = chunk.quants[g * GROUP..][..GROUP]
                .iter()
                .map(|&q| i32::from(q))
                .sum();
            chunk.scales[g] = scale;
            chunk.sums[g] = scale * sum as f32;
        }
    }
    let fours = chunk.quants.as_chunks::<4>().0;
    for (offset, four) in chunk.offsets.iter_mut().zip(fours) {
        *offset = -128 * four.iter().map(|&q| i32::from(q)).sum::<i32>();
    }
}

/// The scale of a block and its reciprocal, 0 for a block that counts as zero.
#[inline(always)]
fn scale_of(largest: f32) -> (f32, f32) {
    if largest < SMALLEST {
        (0.0, 0.0)
    } else {
        (largest / MAX_QUANT, MAX_QUANT / largest)
    }
}

#[inline(always)]
fn block_scale(x: &[f32; BLOCK]) -> (f32, f32) {
    // Magnitudes compare like their bits, with NaN above infinity: a NaN is never lost.
    let largest = x.iter().fold(0, |m, x| m.max(x.abs().to_bits()));
    scale_of(f32::from_bits(largest))
}

/// Rounds half to even.
#[inline(always)]
fn round_to_quant(x: f32) -> i8 {
    // Adding 1.5 * 2^23 leaves no fraction bits, so the addition itself rounds, without the library
    // call that `round_ties_even` is on a baseline target; the low byte of the sum is the integer.
    const SHIFT: f32 = 12_582_912.0;
    (x + SHIFT).to_bits() as i8
}
