//! Products for generated rows: each weight is read once for up to [`MAX_ROWS`] rows.
//!
//! Quantized weights meet activations quantized to int8 ([`QuantizedRows`]) in exact integer dot
//! products; float weights meet the f32 activations themselves. A row's result depends on its own
//! activations alone: every kernel keeps one set of accumulators per row and feeds them in the same
//! order whatever the other rows are and however the output rows are split over threads.
//!
//! Weights are processed in chunks of [`CHUNK`] elements, each brought to the same form by its type:
//! integer quants, and per [`GROUP`] elements a scale and a minimum, so that
//! `weight = scale * quant + min`. With `x = x_scale * x_quant` a group contributes
//! `scale * x_scale * dot(quant, x_quant) + min * x_scale * sum(x_quant)`. A new type needs only the
//! code that unpacks a chunk.

mod activations;
mod block_scales;
mod output;
mod scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(any(target_arch = "aarch64", test))]
mod neon;

#[cfg(test)]
mod tests;

use minfer_gguf::TensorType;

use crate::Isa;
use crate::view::MatRef;

pub(crate) use activations::QuantizedRows;
pub(crate) use output::OutPart;

/// Most rows of one call.
pub(crate) const MAX_ROWS: usize = 16;

/// Elements unpacked at a time.
const CHUNK: usize = 256;

/// Elements that share a scale and a minimum.
const GROUP: usize = 16;

/// Groups of a chunk.
const GROUPS: usize = CHUNK / GROUP;

/// Why a product cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MatvecError {
    /// No kernel reads this type.
    #[error("no decode kernel for weights of type {0}")]
    Type(TensorType),
    /// The bytes are not a whole number of rows.
    #[error("{bytes} bytes are not whole rows of {in_dim} {ty} elements")]
    Weights {
        /// Type of the weights.
        ty: TensorType,
        /// Elements per row.
        in_dim: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// Activations, weights and output disagree.
    #[error(
        "weights [{in_dim}, {out_dim}] do not fit activations [{width}, {rows}] and outputs \
         {first}..{end} of {out_rows} rows"
    )]
    Shape {
        /// Elements per weight row.
        in_dim: usize,
        /// Weight rows.
        out_dim: usize,
        /// Elements per activation row.
        width: usize,
        /// Activation rows.
        rows: usize,
        /// First output wanted.
        first: usize,
        /// One past the last output wanted.
        end: usize,
        /// Rows of the output.
        out_rows: usize,
    },
    /// More than [`MAX_ROWS`] rows.
    #[error("{0} rows in one call, at most {MAX_ROWS} are possible")]
    Rows(usize),
}

/// What the kernels of a weight type multiply with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivationKind {
    /// [`QuantizedRows`].
    Int8,
    /// f32 rows.
    F32,
}

impl ActivationKind {
    /// The kind for weights of this type; `None` when no kernel reads the type.
    pub(crate) fn of(ty: TensorType) -> Option<Self> {
        use TensorType::*;
        match ty {
            Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 | Q2_K | Q3_K | Q4_K | Q5_K | Q6_K | IQ4_NL
            | IQ4_XS => Some(ActivationKind::Int8),
            F32 | F16 | BF16 => Some(ActivationKind::F32),
            _ => None,
        }
    }
}

/// The rows that a product multiplies the weights with.
#[derive(Clone, Copy)]
pub(crate) enum Activations<'a> {
    /// For quantized weights.
    Int8(&'a QuantizedRows),
    /// For float weights.
    F32(MatRef<'a>),
}

/// A weight matrix `[in_dim, out_dim]` in the blocks of its file, output rows contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights<'a> {
    ty: TensorType,
    bytes: &'a [u8],
    in_dim: usize,
    row_bytes: usize,
}

impl<'a> Weights<'a> {
    /// Rows of `in_dim` elements of type `ty`.
    pub(crate) fn new(ty: TensorType, bytes: &'a [u8], in_dim: usize) -> Result<Self, MatvecError> {
        if ActivationKind::of(ty).is_none() {
            return Err(MatvecError::Type(ty));
        }
        let len = bytes.len();
        match ty.row_bytes(in_dim) {
            Some(row_bytes) if row_bytes > 0 && len.is_multiple_of(row_bytes) => Ok(Weights {
                ty,
                bytes,
                in_dim,
                row_bytes,
            }),
            _ => Err(MatvecError::Weights {
                ty,
                in_dim,
                bytes: len,
            }),
        }
    }

    /// Output rows.
    pub(crate) fn out_dim(&self) -> usize {
        self.bytes.len() / self.row_bytes
    }
}

/// The checked arguments of a quantized kernel.
struct QuantizedJob<'a, 'o> {
    /// Rows of the outputs of `out`, whole.
    weights: &'a [u8],
    row_bytes: usize,
    x: &'a QuantizedRows,
    out: &'a mut OutPart<'o>,
}

/// The checked arguments of a float kernel.
struct FloatJob<'a, 'o> {
    weights: &'a [u8],
    row_bytes: usize,
    x: MatRef<'a>,
    out: &'a mut OutPart<'o>,
}

/// `out[o, r] = sum_i weights[i, o] * x[i, r]` for the outputs `o` of the part, on this thread.
///
/// # Panics
/// If this machine lacks `isa`.
pub(crate) fn matvec(
    isa: Isa,
    weights: Weights<'_>,
    x: Activations<'_>,
    out: &mut OutPart<'_>,
) -> Result<(), MatvecError> {
    assert!(isa.is_available(), "{isa} kernels cannot run here");
    // SAFETY: just checked.
    unsafe { product(isa, weights, x, out) }
}

/// [`matvec`] for a level that is known to be available.
///
/// # Safety
/// This machine has `isa`.
unsafe fn product(
    isa: Isa,
    weights: Weights<'_>,
    x: Activations<'_>,
    out: &mut OutPart<'_>,
) -> Result<(), MatvecError> {
    let (width, rows) = match x {
        Activations::Int8(x) => (x.width(), x.rows()),
        Activations::F32(x) => (x.width(), x.rows()),
    };
    let range = out.range();
    if width != weights.in_dim || rows != out.rows() || range.end > weights.out_dim() {
        return Err(MatvecError::Shape {
            in_dim: weights.in_dim,
            out_dim: weights.out_dim(),
            width,
            rows,
            first: range.start,
            end: range.end,
            out_rows: out.rows(),
        });
    }
    if rows > MAX_ROWS {
        return Err(MatvecError::Rows(rows));
    }
    if rows == 0 {
        return Ok(());
    }
    let row_bytes = weights.row_bytes;
    let bytes = &weights.bytes[range.start * row_bytes..range.end * row_bytes];
    match (x, ActivationKind::of(weights.ty)) {
        (Activations::Int8(x), Some(ActivationKind::Int8)) => {
            let job = QuantizedJob {
                weights: bytes,
                row_bytes,
                x,
                out,
            };
            // SAFETY: the caller's.
            unsafe { quantized(isa, weights.ty, job) }
        }
        (Activations::F32(x), Some(ActivationKind::F32)) => {
            let job = FloatJob {
                weights: bytes,
                row_bytes,
                x,
                out,
            };
            // SAFETY: the caller's.
            unsafe { float(isa, weights.ty, job) }
        }
        _ => return Err(MatvecError::Type(weights.ty)),
    }
    Ok(())
}

/// # Safety
/// This machine has `isa`.
unsafe fn quantized(isa: Isa, ty: TensorType, job: QuantizedJob<'_, '_>) {
    match isa {
        // SAFETY: the caller's.
        #[cfg(target_arch = "x86_64")]
        Isa::Amx | Isa::Avx512 => unsafe { avx512::quantized(ty, job) },
        // SAFETY: the caller's.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::quantized(ty, job) },
        // SAFETY: the caller's.
        #[cfg(any(target_arch = "aarch64", test))]
        Isa::Neon => unsafe { neon::quantized(ty, job) },
        _ => scalar::quantized(ty, job),
    }
}

/// # Safety
/// This machine has `isa`.
unsafe fn float(isa: Isa, ty: TensorType, job: FloatJob<'_, '_>) {
    match isa {
        // SAFETY: the caller's.
        #[cfg(target_arch = "x86_64")]
        Isa::Amx | Isa::Avx512 => unsafe { avx512::float(ty, job) },
        // SAFETY: the caller's.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2::float(ty, job) },
        // The compiler vectorizes the portable loops with NEON, which all of AArch64 has.
        _ => scalar::float(ty, job),
    }
}

/// The value at `at` in the bytes of a chunk, as the machine stores it.
///
/// # Safety
/// It lies within `chunk`, and every bit pattern is a valid `T`.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
unsafe fn load<T: Copy>(chunk: &[u8], at: usize) -> T {
    debug_assert!(at + size_of::<T>() <= chunk.len());
    // SAFETY: the caller's.
    unsafe { chunk.as_ptr().add(at).cast::<T>().read_unaligned() }
}

/// Longest chunk of blocks of 32: eight of Q8_0.
const MAX_PADDED: usize = 8 * 34;

/// Calls `f` with the index and the bytes of each chunk of a weight row. Blocks at the end of a row
/// that do not fill a chunk are padded with zeros, which have zero scales and minima.
#[inline(always)]
fn for_each_chunk(row: &[u8], chunk_bytes: usize, mut f: impl FnMut(usize, &[u8])) {
    let whole = row.len() / chunk_bytes;
    let mut padded = [0; MAX_PADDED];
    let (chunks, tail) = row.split_at(whole * chunk_bytes);
    padded[..tail.len()].copy_from_slice(tail);
    for c in 0..row.len().div_ceil(chunk_bytes) {
        // One call, so that it is inlined.
        let chunk = match chunks.get(c * chunk_bytes..(c + 1) * chunk_bytes) {
            Some(chunk) => chunk,
            None => &padded[..chunk_bytes],
        };
        f(c, chunk);
    }
}
