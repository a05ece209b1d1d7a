//! Scales that the K-quants pack into odd bit fields, brought to bytes.
//!
//! Source of the layouts: `ggml-common.h` and the comments of `ggml-quants.c`.

/// Scales and minima of the eight blocks of a Q4_K or Q5_K super-block, 6 bits each, one per byte.
///
/// Bytes 0..4 and 4..8 hold scales and minima 0..4 in their low 6 bits. Scales and minima 4..8 have
/// their low halves in the nibbles of bytes 8..12, their upper 2 bits on top of bytes 0..4 and 4..8.
#[inline(always)]
pub(super) fn q4_k(packed: [u32; 3]) -> (u64, u64) {
    let [scales, mins, high] = packed;
    let join = |low: u32, high: u32| {
        let first = low & 0x3f3f_3f3f;
        let second = (high & 0x0f0f_0f0f) | ((low >> 2) & 0x3030_3030);
        u64::from(first) | u64::from(second) << 32
    };
    (join(scales, high), join(mins, high >> 4))
}

/// Scales of the sixteen groups of a Q3_K super-block, 6 bits each, one per byte, 32 too large.
///
/// The nibbles of bytes 0..8 hold the low halves of scales 0..8 and 8..16; bits `2k, 2k + 1` of byte
/// `8 + i` are the upper bits of scale `4k + i`.
#[inline(always)]
pub(super) fn q3_k(packed: [u32; 3]) -> [u64; 2] {
    let nibbles = u64::from(packed[0]) | u64::from(packed[1]) << 32;
    let high = |k: u32| u64::from((packed[2] >> (2 * k)) & 0x0303_0303) << 4;
    let low_half = 0x0f0f_0f0f_0f0f_0f0f;
    [
        (nibbles & low_half) | high(0) | high(1) << 32,
        ((nibbles >> 4) & low_half) | high(2) | high(3) << 32,
    ]
}

/// Scales of the eight blocks of an IQ4_XS super-block, 6 bits each, 32 too large.
#[inline(always)]
pub(super) fn iq4_xs(high: u16, low: u32) -> [u8; 8] {
    std::array::from_fn(|j| {
        let low = (low >> (4 * j)) & 0xf;
        let high = u32::from(high) >> (2 * j) & 3;
        (low | high << 4) as u8
    })
}

/// Values of the 4-bit codes of IQ4_NL and IQ4_XS.
pub(super) const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Little-endian words of the 12 bytes that `bytes` starts with.
#[inline(always)]
pub(super) fn words(bytes: &[u8]) -> [u32; 3] {
    std::array::from_fn(|i| word(&bytes[4 * i..]))
}

/// Little-endian word that `bytes` starts with.
#[inline(always)]
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Little-endian half word that `bytes` starts with.
#[inline(always)]
pub(super) fn half_word(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}
