//! Blocks of 32 elements, eight to a chunk.

use std::arch::x86_64::*;

use super::{Format, Unpacked, centred, iq4_values, low_then_high_nibbles, quarters, raised};
use crate::matmul::decode::load;

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;
pub(super) struct Iq4Nl;

/// Blocks of a chunk.
const BLOCKS: usize = 8;

/// How the scales of a chunk's blocks are collected.
///
/// `WORDS` half floats lead each block of `BYTES`. Windows of 64 bytes, each starting at every
/// `PER_WINDOW`-th block and loaded `WORDS` words further up in the register than the one before, are
/// laid over each other under masks: no two scales meet, and one permutation brings them in order.
struct Windows<const BYTES: usize, const WORDS: usize, const PER_WINDOW: usize>;

impl<const BYTES: usize, const WORDS: usize, const PER_WINDOW: usize>
    Windows<BYTES, WORDS, PER_WINDOW>
{
    /// The words of window `w` that are kept.
    const MASKS: [u32; BLOCKS] = {
        let mut masks = [0; BLOCKS];
        let mut block = 0;
        while block < BLOCKS {
            masks[block / PER_WINDOW] |= ((1 << WORDS) - 1) << Self::position(block);
            block += 1;
        }
        masks
    };

    /// For each group, the position of its block's first word; then of the last.
    const ORDER: [u16; 32] = {
        let mut order = [0; 32];
        let mut lane = 0;
        while lane < 32 {
            order[lane] = (Self::position(lane % 16 / 2) + lane / 16 * (WORDS - 1)) as u16;
            lane += 1;
        }
        order
    };

    const fn position(block: usize) -> usize {
        block / PER_WINDOW * WORDS + block % PER_WINDOW * BYTES / 2
    }

    /// The scales of all groups in the low half, their minima (if there are any) in the high half.
    #[inline(always)]
    unsafe fn collect(chunk: &[u8]) -> __m512i {
        // SAFETY: the caller's; the masks select words of blocks of the chunk only.
        unsafe {
            let mut words = _mm512_maskz_loadu_epi16(Self::MASKS[0], chunk.as_ptr().cast());
            for (w, &mask) in Self::MASKS.iter().enumerate().skip(1) {
                if mask != 0 {
                    let window = chunk.as_ptr().add(w * (PER_WINDOW * BYTES - 2 * WORDS));
                    words = _mm512_mask_loadu_epi16(words, mask, window.cast());
                }
            }
            let order = _mm512_loadu_si512(Self::ORDER.as_ptr().cast());
            _mm512_permutexvar_epi16(order, words)
        }
    }

    #[inline(always)]
    unsafe fn scales(chunk: &[u8]) -> __m512 {
        // SAFETY: the caller's.
        unsafe { _mm512_cvtph_ps(_mm512_castsi512_si256(Self::collect(chunk))) }
    }

    #[inline(always)]
    unsafe fn scales_and_mins(chunk: &[u8]) -> (__m512, __m512) {
        // SAFETY: the caller's.
        unsafe {
            let words = Self::collect(chunk);
            (
                _mm512_cvtph_ps(_mm512_castsi512_si256(words)),
                _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(words)),
            )
        }
    }
}

/// The 4-bit quants of blocks `2 j` and `2 j + 1`, which start `at` bytes into a block.
#[inline(always)]
unsafe fn nibbles<const BYTES: usize>(chunk: &[u8], at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    unsafe { low_then_high_nibbles(chunk, 2 * j * BYTES + at, (2 * j + 1) * BYTES + at) }
}

/// [`nibbles`] with the fifth bits, which start `bits_at` bytes into a block.
#[inline(always)]
unsafe fn five_bits<const BYTES: usize>(chunk: &[u8], bits_at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    unsafe {
        let quants = nibbles::<BYTES>(chunk, bits_at + 4, j);
        let first: u32 = load(chunk, 2 * j * BYTES + bits_at);
        let second: u32 = load(chunk, (2 * j + 1) * BYTES + bits_at);
        let mask = u64::from(first) | u64::from(second) << 32;
        _mm512_mask_add_epi8(quants, mask, quants, _mm512_set1_epi8(16))
    }
}

impl Format for Q4_0 {
    const CHUNK_BYTES: usize = BLOCKS * 18;
    const BLOCKS: usize = BLOCKS;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(wide, j => nibbles::<18>(chunk, 2, j));
            centred(quants, 8.0, Windows::<18, 1, 4>::scales(chunk))
        }
    }
}

impl Format for Q4_1 {
    const CHUNK_BYTES: usize = BLOCKS * 20;
    const BLOCKS: usize = BLOCKS;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let (scales, mins) = Windows::<20, 2, 3>::scales_and_mins(chunk);
            Unpacked {
                quants: quarters!(wide, j => nibbles::<20>(chunk, 4, j)),
                scales,
                mins,
            }
        }
    }
}

impl Format for Q5_0 {
    const CHUNK_BYTES: usize = BLOCKS * 22;
    const BLOCKS: usize = BLOCKS;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(wide, j => five_bits::<22>(chunk, 2, j));
            centred(quants, 16.0, Windows::<22, 1, 3>::scales(chunk))
        }
    }
}

impl Format for Q5_1 {
    const CHUNK_BYTES: usize = BLOCKS * 24;
    const BLOCKS: usize = BLOCKS;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let (scales, mins) = Windows::<24, 2, 3>::scales_and_mins(chunk);
            Unpacked {
                quants: quarters!(wide, j => five_bits::<24>(chunk, 4, j)),
                scales,
                mins,
            }
        }
    }
}

impl Format for Q8_0 {
    const CHUNK_BYTES: usize = BLOCKS * 34;
    const BLOCKS: usize = BLOCKS;
    const RAISED: bool = true;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(wide, j => {
                let first = _mm512_castsi256_si512(load(chunk, 2 * j * 34 + 2));
                let both = _mm512_inserti64x4::<1>(first, load(chunk, (2 * j + 1) * 34 + 2));
                _mm512_xor_si512(both, _mm512_set1_epi8(-128))
            });
            raised(quants, Windows::<34, 1, 2>::scales(chunk))
        }
    }
}

impl Format for Iq4Nl {
    const CHUNK_BYTES: usize = BLOCKS * 18;
    const BLOCKS: usize = BLOCKS;
    const RAISED: bool = true;

    #[inline(always)]
    unsafe fn unpack(chunk: &[u8], wide: bool) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(wide, j => iq4_values(nibbles::<18>(chunk, 2, j)));
            raised(quants, Windows::<18, 1, 4>::scales(chunk))
        }
    }
}
