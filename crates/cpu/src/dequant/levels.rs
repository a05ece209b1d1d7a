//! The formats compiled for each instruction-set level.

use minfer_gguf::TensorType;

use super::Dequantize;
use super::blocks::{Iq4Nl, Iq4Xs, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0};
use super::formats::{Format, Level};
use super::portable::Portable;

#[inline(always)]
fn row<B: Format<GROUPS>, const GROUPS: usize, L: Level>(level: L, bytes: &[u8], out: &mut [f32]) {
    let out = out.as_chunks_mut::<32>().0.as_chunks_mut::<GROUPS>().0;
    for (block, out) in B::of_row(bytes).iter().zip(out) {
        block.decode(level, out);
    }
}

#[inline(always)]
fn row_f32<L: Level>(_: L, bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = f32::from_le_bytes(bytes);
    }
}

#[inline(always)]
fn row_bf16<L: Level>(_: L, bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16);
    }
}

#[inline(always)]
fn row_f16<L: Level>(level: L, bytes: &[u8], out: &mut [f32]) {
    for (&bytes, out) in bytes.as_chunks().0.iter().zip(out) {
        *out = level.half(bytes);
    }
}

/// One function per weight type, for a level and through a wrapper that enables its instructions.
macro_rules! table {
    ($ty:expr, $level:expr, $wrap:ident) => {
        match $ty {
            TensorType::F32 => $wrap!($level, row_f32),
            TensorType::F16 => $wrap!($level, row_f16),
            TensorType::BF16 => $wrap!($level, row_bf16),
            TensorType::Q4_0 => $wrap!($level, row::<Q4_0, 1, _>),
            TensorType::Q4_1 => $wrap!($level, row::<Q4_1, 1, _>),
            TensorType::Q5_0 => $wrap!($level, row::<Q5_0, 1, _>),
            TensorType::Q5_1 => $wrap!($level, row::<Q5_1, 1, _>),
            TensorType::Q8_0 => $wrap!($level, row::<Q8_0, 1, _>),
            TensorType::Q2_K => $wrap!($level, row::<Q2K, 8, _>),
            TensorType::Q3_K => $wrap!($level, row::<Q3K, 8, _>),
            TensorType::Q4_K => $wrap!($level, row::<Q4K, 8, _>),
            TensorType::Q5_K => $wrap!($level, row::<Q5K, 8, _>),
            TensorType::Q6_K => $wrap!($level, row::<Q6K, 8, _>),
            TensorType::IQ4_NL => $wrap!($level, row::<Iq4Nl, 1, _>),
            TensorType::IQ4_XS => $wrap!($level, row::<Iq4Xs, 8, _>),
            _ => None,
        }
    };
}

macro_rules! plain {
    ($level:expr, $row:expr) => {
        Some(|bytes, out| $row($level, bytes, out))
    };
}

pub(super) fn portable(ty: TensorType) -> Option<Dequantize> {
    table!(ty, Portable, plain)
}

#[cfg(target_arch = "x86_64")]
pub(super) mod x86 {
    use super::*;
    use crate::dequant::x86::X86;

    macro_rules! with_avx2 {
        ($level:expr, $row:expr) => {{
            #[target_feature(enable = "avx2,f16c")]
            fn inner(bytes: &[u8], out: &mut [f32]) {
                // SAFETY: this function enables the instructions.
                let level = unsafe { $level };
                $row(level, bytes, out)
            }
            // SAFETY: `dequantizer` gives this function out only where the level is available.
            Some(|bytes, out| unsafe { inner(bytes, out) })
        }};
    }

    macro_rules! with_avx512 {
        ($level:expr, $row:expr) => {{
            #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
            fn inner(bytes: &[u8], out: &mut [f32]) {
                // SAFETY: this function enables the instructions.
                let level = unsafe { $level };
                $row(level, bytes, out)
            }
            // SAFETY: `dequantizer` gives this function out only where the level is available.
            Some(|bytes, out| unsafe { inner(bytes, out) })
        }};
    }

    pub fn avx2(ty: TensorType) -> Option<Dequantize> {
        table!(ty, X86::<false>::enabled(), with_avx2)
    }

    pub fn avx512(ty: TensorType) -> Option<Dequantize> {
        table!(ty, X86::<true>::enabled(), with_avx512)
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) mod neon {
    use super::*;
    use crate::dequant::neon::Neon;

    pub fn neon(ty: TensorType) -> Option<Dequantize> {
        table!(ty, Neon, plain)
    }
}
