//! Memory layout of the quantized blocks.
//!
//! Source of the layouts: the `block_*` structures of ggml-common.h. Two-byte fields are
//! little-endian half floats, kept as bytes because blocks in a file are unaligned.

/// A little-endian half-precision number.
pub type Half = [u8; 2];

/// A block that is nothing but bytes.
///
/// # Safety
/// The type consists of bytes only: alignment 1, no padding, every bit pattern valid.
pub unsafe trait Block: Sized {
    /// The blocks in a row's bytes; trailing bytes that fill no block are left out.
    fn of_row(bytes: &[u8]) -> &[Self] {
        let n = bytes.len() / size_of::<Self>();
        // SAFETY: `n` blocks fit in `bytes`, and by the trait's contract any bytes at any address
        // are valid blocks.
        unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), n) }
    }
}

macro_rules! blocks {
    ($($(#[$doc:meta])* $name:ident[$bytes:literal] { $($field:ident: $ty:ty),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name { $(pub $field: $ty),+ }

        const _: () = assert!(size_of::<$name>() == $bytes && align_of::<$name>() == 1);

        // SAFETY: `repr(C)` over arrays of bytes; size and alignment are asserted above.
        unsafe impl Block for $name {}
    )+};
}

blocks! {
    /// `d * (q - 8)`, 32 elements.
    Q4_0[18] { d: Half, q: [u8; 16] }
    /// `d * q + m`, 32 elements.
    Q4_1[20] { d: Half, m: Half, q: [u8; 16] }
    /// `d * (q - 16)`, 32 elements; `high` holds bit 4 of each.
    Q5_0[22] { d: Half, high: [u8; 4], q: [u8; 16] }
    /// `d * q + m`, 32 elements; `high` holds bit 4 of each.
    Q5_1[24] { d: Half, m: Half, high: [u8; 4], q: [u8; 16] }
    /// `d * q`, 32 elements.
    Q8_0[34] { d: Half, q: [u8; 32] }
    /// 16 groups of 16; a scale byte holds a 4-bit scale and, above it, a 4-bit minimum.
    Q2K[84] { scales: [u8; 16], q: [u8; 64], d: Half, dmin: Half }
    /// 16 groups of 16 with 6-bit scales; `high` holds bit 2 of each element.
    Q3K[110] { high: [u8; 32], q: [u8; 64], scales: [u8; 12], d: Half }
    /// 8 groups of 32 with 6-bit scales and minima.
    Q4K[144] { d: Half, dmin: Half, scales: [u8; 12], q: [u8; 128] }
    /// [`Q4K`] with bit 4 of each element in `high`.
    Q5K[176] { d: Half, dmin: Half, scales: [u8; 12], high: [u8; 32], q: [u8; 128] }
    /// 16 groups of 16 with signed 8-bit scales; `high` holds bits 4 and 5.
    Q6K[210] { low: [u8; 128], high: [u8; 64], scales: [u8; 16], d: Half }
    /// 32 elements that index [`minfer_gguf::quantize::IQ4_NL_VALUES`].
    Iq4Nl[18] { d: Half, q: [u8; 16] }
    /// 8 groups of [`Iq4Nl`] elements with 6-bit scales.
    Iq4Xs[136] { d: Half, scales_high: [u8; 2], scales_low: [u8; 4], q: [u8; 128] }
}
