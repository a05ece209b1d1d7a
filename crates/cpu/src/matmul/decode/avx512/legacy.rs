//! Blocks of 32 elements, eight to a chunk.

use std::arch::x86_64::*;

use super::{Format, Unpacked, centred, iq4_values, load_128, load_256, quarters, raised};
use crate::matmul::decode::block_scales::word;

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

    /// For each group, the position of its block's first word; then of the second.
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
    ///
    /// # Safety
    /// `bytes` holds a chunk.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn collect(bytes: &[u8]) -> __m512i {
        debug_assert_eq!(bytes.len(), BLOCKS * BYTES);
        let mut words = _mm512_setzero_si512();
        for (w, &mask) in Self::MASKS.iter().enumerate() {
            if mask != 0 {
                let start = w * (PER_WINDOW * BYTES - 2 * WORDS);
                // SAFETY: the mask selects words of blocks of the chunk only.
                words = unsafe {
                    _mm512_mask_loadu_epi16(words, mask, bytes.as_ptr().add(start).cast())
                };
            }
        }
        // SAFETY: the array has 64 bytes.
        let order = unsafe { _mm512_loadu_si512(Self::ORDER.as_ptr().cast()) };
        _mm512_permutexvar_epi16(order, words)
    }

    /// # Safety
    /// `bytes` holds a chunk.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales(bytes: &[u8]) -> __m512 {
        // SAFETY: the caller's.
        _mm512_cvtph_ps(_mm512_castsi512_si256(unsafe { Self::collect(bytes) }))
    }

    /// # Safety
    /// `bytes` holds a chunk.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn scales_and_mins(bytes: &[u8]) -> (__m512, __m512) {
        // SAFETY: the caller's.
        let words = unsafe { Self::collect(bytes) };
        (
            _mm512_cvtph_ps(_mm512_castsi512_si256(words)),
            _mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(words)),
        )
    }
}

/// The 4-bit quants of blocks `2 j` and `2 j + 1`, which start `at` bytes into a block.
///
/// # Safety
/// `bytes` holds a chunk of blocks of `BYTES`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn nibbles<const BYTES: usize>(bytes: &[u8], at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    let (first, second) = unsafe {
        (
            load_128(bytes, 2 * j * BYTES + at),
            load_128(bytes, (2 * j + 1) * BYTES + at),
        )
    };
    let both = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(first), 0xff00, second);
    let shifts = _mm512_setr_epi64(
        0,
        0,
        0x4_0004_0004_0004,
        0x4_0004_0004_0004,
        0,
        0,
        0x4_0004_0004_0004,
        0x4_0004_0004_0004,
    );
    _mm512_and_si512(_mm512_srlv_epi16(both, shifts), _mm512_set1_epi8(0xf))
}

/// [`nibbles`] with the fifth bits, which start `bits_at` bytes into a block.
///
/// # Safety
/// `bytes` holds a chunk of blocks of `BYTES`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn five_bits<const BYTES: usize>(bytes: &[u8], bits_at: usize, j: usize) -> __m512i {
    // SAFETY: the caller's.
    let quants = unsafe { nibbles::<BYTES>(bytes, bits_at + 4, j) };
    let bits = |block: usize| u64::from(word(&bytes[block * BYTES + bits_at..]));
    let mask = bits(2 * j) | bits(2 * j + 1) << 32;
    _mm512_mask_add_epi8(quants, mask, quants, _mm512_set1_epi8(16))
}

impl Format for Q4_0 {
    const CHUNK_BYTES: usize = BLOCKS * 18;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(j => nibbles::<18>(bytes, 2, j));
            centred(quants, 8.0, Windows::<18, 1, 4>::scales(bytes))
        }
    }
}

impl Format for Q4_1 {
    const CHUNK_BYTES: usize = BLOCKS * 20;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let (scales, mins) = Windows::<20, 2, 3>::scales_and_mins(bytes);
            Unpacked {
                quants: quarters!(j => nibbles::<20>(bytes, 4, j)),
                scales,
                mins,
            }
        }
    }
}

impl Format for Q5_0 {
    const CHUNK_BYTES: usize = BLOCKS * 22;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(j => five_bits::<22>(bytes, 2, j));
            centred(quants, 16.0, Windows::<22, 1, 3>::scales(bytes))
        }
    }
}

impl Format for Q5_1 {
    const CHUNK_BYTES: usize = BLOCKS * 24;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let (scales, mins) = Windows::<24, 2, 3>::scales_and_mins(bytes);
            Unpacked {
                quants: quarters!(j => five_bits::<24>(bytes, 4, j)),
                scales,
                mins,
            }
        }
    }
}

impl Format for Q8_0 {
    const CHUNK_BYTES: usize = BLOCKS * 34;
    const RAISED: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(j => {
                let first = _mm512_castsi256_si512(load_256(bytes, 2 * j * 34 + 2));
                let second = load_256(bytes, (2 * j + 1) * 34 + 2);
                let both = _mm512_inserti64x4::<1>(first, second);
                _mm512_xor_si512(both, _mm512_set1_epi8(-128))
            });
            raised(quants, Windows::<34, 1, 2>::scales(bytes))
        }
    }
}

impl Format for Iq4Nl {
    const CHUNK_BYTES: usize = BLOCKS * 18;
    const RAISED: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(bytes: &[u8]) -> Unpacked {
        // SAFETY: the caller's.
        unsafe {
            let quants = quarters!(j => iq4_values(nibbles::<18>(bytes, 2, j)));
            raised(quants, Windows::<18, 1, 4>::scales(bytes))
        }
    }
}
