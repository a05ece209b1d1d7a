//! Blocks of 32 elements: byte `i` of the 4-bit quants holds elements `i` (low) and `16 + i` (high).

use super::{Format, Scales, half};
use crate::matmul::decode::block_scales::{IQ4_VALUES, word};

pub(in crate::matmul::decode) struct Q4_0;
pub(in crate::matmul::decode) struct Q4_1;
pub(in crate::matmul::decode) struct Q5_0;
pub(in crate::matmul::decode) struct Q5_1;
pub(in crate::matmul::decode) struct Q8_0;
pub(in crate::matmul::decode) struct Iq4Nl;

/// Scales of blocks of `BYTES` that start with a half float.
#[inline(always)]
fn scales<const BYTES: usize>(chunk: &[u8]) -> Scales {
    Scales::of_groups(|g| (half(&chunk[g / 2 * BYTES..]), 0.0))
}

/// Scales and minima of blocks of `BYTES` that start with two half floats.
#[inline(always)]
fn scales_and_mins<const BYTES: usize>(chunk: &[u8]) -> Scales {
    Scales::of_groups(|g| {
        let block = &chunk[g / 2 * BYTES..];
        (half(block), half(&block[2..]))
    })
}

/// Element `i` of the 4-bit quants that start `at` bytes into blocks of `BYTES`.
#[inline(always)]
fn nibble<const BYTES: usize>(chunk: &[u8], at: usize, i: usize) -> u8 {
    let byte = chunk[i / 32 * BYTES + at + i % 16];
    (byte >> (i / 16 % 2 * 4)) & 0xf
}

/// [`nibble`] with a fifth bit, from 4 bytes that start `bits_at` bytes into a block.
#[inline(always)]
fn five_bits<const BYTES: usize>(chunk: &[u8], bits_at: usize, i: usize) -> u8 {
    let bits = word(&chunk[i / 32 * BYTES + bits_at..]);
    let high = (bits >> (i % 32)) as u8 & 1;
    nibble::<BYTES>(chunk, bits_at + 4, i) | high << 4
}

impl Format for Q4_0 {
    const CHUNK_BYTES: usize = 8 * 18;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales::<18>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        nibble::<18>(chunk, 2, i) as i8 - 8
    }
}

impl Format for Q4_1 {
    const CHUNK_BYTES: usize = 8 * 20;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales_and_mins::<20>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        nibble::<20>(chunk, 4, i) as i8
    }
}

impl Format for Q5_0 {
    const CHUNK_BYTES: usize = 8 * 22;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales::<22>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        five_bits::<22>(chunk, 2, i) as i8 - 16
    }
}

impl Format for Q5_1 {
    const CHUNK_BYTES: usize = 8 * 24;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales_and_mins::<24>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        five_bits::<24>(chunk, 4, i) as i8
    }
}

impl Format for Q8_0 {
    const CHUNK_BYTES: usize = 8 * 34;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales::<34>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        chunk[i / 32 * 34 + 2 + i % 32] as i8
    }
}

impl Format for Iq4Nl {
    const CHUNK_BYTES: usize = 8 * 18;

    #[inline(always)]
    fn scales(chunk: &[u8]) -> Scales {
        scales::<18>(chunk)
    }

    #[inline(always)]
    fn quant(chunk: &[u8], i: usize) -> i8 {
        IQ4_VALUES[usize::from(nibble::<18>(chunk, 2, i))]
    }
}
