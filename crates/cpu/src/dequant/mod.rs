//! Rows of weights as f32.

mod blocks;
mod formats;
mod levels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use minfer_gguf::TensorType;

use crate::isa::Isa;

/// Writes the elements of a row, given its bytes. The lengths must agree, as
/// [`TensorType::row_bytes`] has it.
pub(crate) type Dequantize = fn(&[u8], &mut [f32]);

/// The fastest function for a weight type at a level; `None` when the CPU has no kernels for the type.
///
/// # Panics
/// When this machine cannot run the level.
pub(crate) fn dequantizer(isa: Isa, ty: TensorType) -> Option<Dequantize> {
    assert!(isa.is_available(), "{isa} on a machine without it");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => levels::x86::avx2(ty),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => levels::x86::avx512(ty),
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => levels::neon::neon(ty),
        _ => levels::portable(ty),
    }
}

/// Writes the elements of one row of a weight, bit for bit those of the reference in `minfer-gguf`.
///
/// # Panics
/// When the type has no kernel (see [`dequantizer`]) or `bytes` is not the row of `out.len()`
/// elements.
pub(crate) fn dequantize_row(isa: Isa, ty: TensorType, bytes: &[u8], out: &mut [f32]) {
    assert_eq!(Some(bytes.len()), ty.row_bytes(out.len()), "bytes of a row");
    match dequantizer(isa, ty) {
        Some(dequantize) => dequantize(bytes, out),
        None => panic!("no {ty} kernel on the CPU"),
    }
}
