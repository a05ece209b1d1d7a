//! The formats compiled for each instruction-set level.

use half::f16;
use minfer_gguf::TensorType;

use super::Dequantize;
use super::blocks::{Half, Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::formats::{Format, Level};

#[inline(always)]
fn row<B: Format<N>, const N: usize, L: Level>(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in B::of_row(bytes).iter().zip(out.as_chunks_mut::<N>().0) {
        block.decode::<L>(out);
    }
}

#[inline(always)]
fn row_f32(bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = f32::from_le_bytes(bytes);
    }
}

#[inline(always)]
fn row_bf16(bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
    }
}

#[inline(always)]
fn row_f16<L: Level>(bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = L::half(bytes);
    }
}

/// One function per weight type, for a level and through a wrapper that enables its instructions.
macro_rules! table {
    ($ty:expr, $level:ty, $wrap:ident) => {
        match $ty {
            TensorType::F32 => $wrap!(row_f32),
            TensorType::F16 => $wrap!(row_f16::<$level>),
            TensorType::BF16 => $wrap!(row_bf16),
            TensorType::Q4_0 => $wrap!(row::<Q4_0, 32, $level>),
            TensorType::Q4_1 => $wrap!(row::<Q4_1, 32, $level>),
            TensorType::Q5_0 => $wrap!(row::<Q5_0, 32, $level>),
            TensorType::Q5_1 => $wrap!(row::<Q5_1, 32, $level>),
            TensorType::Q8_0 => $wrap!(row::<Q8_0, 32, $level>),
            TensorType::Q2_K => $wrap!(row::<Q2K, 256, $level>),
            TensorType::Q3_K => $wrap!(row::<Q3K, 256, $level>),
            TensorType::Q4_K => $wrap!(row::<Q4K, 256, $level>),
            TensorType::Q5_K => $wrap!(row::<Q5K, 256, $level>),
            TensorType::Q6_K => $wrap!(row::<Q6K, 256, $level>),
            TensorType::IQ4_NL => $wrap!(row::<Iq4Nl, 32, $level>),
            TensorType::IQ4_XS => $wrap!(row::<Iq4Xs, 256, $level>),
            _ => None,
        }
    };
}

struct Portable;

impl Level for Portable {
    #[inline(always)]
    fn half(bits: Half) -> f32 {
        f16::from_le_bytes(bits).to_f32_const()
    }

    #[inline(always)]
    fn look_up(table: &[i8; 16], indices: &[u8; 32]) -> [i8; 32] {
        indices.map(|i| table[usize::from(i & 15)])
    }
}

macro_rules! plain {
    ($row:expr) => {
        Some(|bytes, out| $row(bytes, out))
    };
}

pub(super) fn portable(ty: TensorType) -> Option<Dequantize> {
    table!(ty, Portable, plain)
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    /// Only used inside functions compiled for AVX2 and F16C.
    struct X86;

    impl Level for X86 {
        #[inline(always)]
        fn half(bits: Half) -> f32 {
            // SAFETY: F16C is enabled where this is used.
            unsafe {
                let half = _mm_cvtsi32_si128(i32::from(u16::from_le_bytes(bits)));
                _mm_cvtss_f32(_mm_cvtph_ps(half))
            }
        }

        #[inline(always)]
        fn look_up(table: &[i8; 16], indices: &[u8; 32]) -> [i8; 32] {
            let mut out = [0; 32];
            // SAFETY: AVX2 is enabled where this is used; the arrays have the vectors' sizes.
            unsafe {
                let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                let indices = _mm256_loadu_si256(indices.as_ptr().cast());
                let values = _mm256_shuffle_epi8(table, indices);
                _mm256_storeu_si256(out.as_mut_ptr().cast(), values);
            }
            out
        }
    }

    macro_rules! with_avx2 {
        ($row:expr) => {{
            #[target_feature(enable = "avx2,f16c")]
            fn inner(bytes: &[u8], out: &mut [f32]) {
                $row(bytes, out)
            }
            // SAFETY: `dequantizer` gives this function out only where the level is available.
            Some(|bytes, out| unsafe { inner(bytes, out) })
        }};
    }

    macro_rules! with_avx512 {
        ($row:expr) => {{
            #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            fn inner(bytes: &[u8], out: &mut [f32]) {
                $row(bytes, out)
            }
            // SAFETY: `dequantizer` gives this function out only where the level is available.
            Some(|bytes, out| unsafe { inner(bytes, out) })
        }};
    }

    pub fn avx2(ty: TensorType) -> Option<Dequantize> {
        table!(ty, X86, with_avx2)
    }

    pub fn avx512(ty: TensorType) -> Option<Dequantize> {
        table!(ty, X86, with_avx512)
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod neon {
    use std::arch::aarch64::*;

    use super::*;

    /// AArch64, where NEON is part of the base architecture.
    struct Neon;

    impl Level for Neon {
        #[inline(always)]
        fn half(bits: Half) -> f32 {
            Portable::half(bits)
        }

        #[inline(always)]
        fn look_up(table: &[i8; 16], indices: &[u8; 32]) -> [i8; 32] {
            let mut out = [0; 32];
            // SAFETY: the arrays have the vectors' sizes.
            unsafe {
                let table = vld1q_s8(table.as_ptr());
                for half in [0, 16] {
                    let values = vqtbl1q_s8(table, vld1q_u8(indices.as_ptr().add(half)));
                    vst1q_s8(out.as_mut_ptr().add(half), values);
                }
            }
            out
        }
    }

    pub fn neon(ty: TensorType) -> Option<Dequantize> {
        table!(ty, Neon, plain)
    }
}
