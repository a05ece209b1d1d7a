//! Cells of a KV region: f32, f16 or GGUF `Q8_0` blocks.

use half::f16;
use minfer_graph::{KvFormat, RopeStyle};

use super::rope;
use crate::simd::{Simd, f16_to_f32, per_isa};

/// Elements of a `Q8_0` block, and its bytes: an f16 scale, then one i8 per element.
const BLOCK: usize = 32;
const BLOCK_BYTES: usize = 34;

/// Keys or values of a region.
#[derive(Clone, Copy)]
pub(crate) struct Cells<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) cell_bytes: usize,
    pub(crate) format: KvFormat,
}

impl<'a> Cells<'a> {
    /// Bytes of cell `index`.
    #[inline(always)]
    pub(crate) fn cell(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.cell_bytes..][..self.cell_bytes]
    }
}

/// Encodes a row into a cell; the padding after it is left alone.
pub(crate) fn store(format: KvFormat, isa: crate::Isa, cell: &mut [u8], row: &[f32]) {
    match format {
        KvFormat::F32 => store_f32(cell, row),
        KvFormat::F16 => store_f16(cell, row),
        KvFormat::Q8_0 => store_q8_0(isa, cell, row),
    }
}

fn store_f32(cell: &mut [u8], row: &[f32]) {
    let (words, _) = cell.as_chunks_mut::<4>();
    for (word, x) in words.iter_mut().zip(row) {
        *word = x.to_le_bytes();
    }
}

fn store_f16(cell: &mut [u8], row: &[f32]) {
    let (words, _) = cell.as_chunks_mut::<2>();
    for (word, x) in words.iter_mut().zip(row) {
        *word = f16::from_f32(*x).to_le_bytes();
    }
}

per_isa! {
    fn store_q8_0(cell: &mut [u8], row: &[f32]) = store_q8_0_body;
}

#[inline(always)]
fn store_q8_0_body<S: Simd>(cell: &mut [u8], row: &[f32]) {
    let (blocks, _) = cell.as_chunks_mut::<BLOCK_BYTES>();
    let (parts, _) = row.as_chunks::<BLOCK>();
    for (block, part) in blocks.iter_mut().zip(parts) {
        // Magnitudes compare like their bits, with NaN above infinity: a NaN is never lost.
        let largest = part.iter().fold(0, |m, x| m.max(x.abs().to_bits()));
        let scale = f32::from_bits(largest) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let (head, levels) = block.split_at_mut(2);
        head.copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        for (level, x) in levels.iter_mut().zip(part) {
            *level = (x * inverse).round() as i8 as u8;
        }
    }
}

per_isa! {
    /// Decodes `to.len()` features of a cell, from feature `first` on.
    pub(crate) fn load(format: KvFormat, cell: &[u8], first: usize, to: &mut [f32]) = load_body;
}

/// [`load`], for kernels that are themselves compiled per instruction set.
#[inline(always)]
pub(crate) fn load_body<S: Simd>(format: KvFormat, cell: &[u8], first: usize, to: &mut [f32]) {
    match format {
        KvFormat::F32 => load_f32(&cell[4 * first..][..4 * to.len()], to),
        KvFormat::F16 => load_f16::<S>(&cell[2 * first..][..2 * to.len()], to),
        KvFormat::Q8_0 => load_q8_0(cell, first, to),
    }
}

#[inline(always)]
fn load_f32(bytes: &[u8], to: &mut [f32]) {
    let (words, _) = bytes.as_chunks::<4>();
    for (to, word) in to.iter_mut().zip(words) {
        *to = f32::from_le_bytes(*word);
    }
}

#[inline(always)]
fn load_f16<S: Simd>(bytes: &[u8], to: &mut [f32]) {
    let whole = to.len() - to.len() % S::LANES;
    let (vectors, tail) = to.split_at_mut(whole);
    for (vector, half) in vectors
        .chunks_exact_mut(S::LANES)
        .zip(bytes.chunks_exact(2 * S::LANES))
    {
        // SAFETY: both chunks hold LANES elements; `S` is what this kernel is compiled for.
        unsafe { S::store(vector.as_mut_ptr(), S::load_f16(half.as_ptr())) };
    }
    let (words, _) = bytes[2 * whole..].as_chunks::<2>();
    for (to, word) in tail.iter_mut().zip(words) {
        *to = f16_to_f32(u16::from_le_bytes(*word));
    }
}

/// `first` need not be the start of a block.
#[inline(always)]
fn load_q8_0(cell: &[u8], first: usize, to: &mut [f32]) {
    let (blocks, _) = cell.as_chunks::<BLOCK_BYTES>();
    let mut index = first / BLOCK;
    let mut skip = first % BLOCK;
    let mut rest = to;
    while !rest.is_empty() {
        let (part, after) = rest.split_at_mut(rest.len().min(BLOCK - skip));
        let (head, levels) = blocks[index].split_at(2);
        let scale = f16_to_f32(u16::from_le_bytes([head[0], head[1]]));
        for (to, level) in part.iter_mut().zip(&levels[skip..]) {
            *to = scale * f32::from(*level as i8);
        }
        rest = after;
        index += 1;
        skip = 0;
    }
}

/// How far keys turn.
#[derive(Clone, Copy)]
pub(crate) struct Turn<'a> {
    pub(crate) style: RopeStyle,
    pub(crate) head_dim: usize,
    /// Cosines and sines of the pairs of a head.
    pub(crate) angles: (&'a [f32], &'a [f32]),
}

/// Turns the heads of a stored key of `width` features. Blocks without a rotated feature keep their bytes.
pub(crate) fn turn(
    format: KvFormat,
    isa: crate::Isa,
    cell: &mut [f32],
    width: usize,
    turn: Turn<'_>,
) {
    let Turn {
        style,
        head_dim,
        angles,
    } = turn;
    if format == KvFormat::F32 {
        return rope::rotate(isa, style, head_dim, &mut cell[..width], angles);
    }
    let (block, block_bytes) = match format {
        KvFormat::F32 => (1, 4),
        KvFormat::F16 => (1, 2),
        KvFormat::Q8_0 => (BLOCK, BLOCK_BYTES),
    };
    let rotated = (2 * angles.0.len()).next_multiple_of(block);
    let bytes_of = |features: usize| features / block * block_bytes;
    let cell: &mut [u8] = bytemuck::cast_slice_mut(cell);
    let mut head = vec![0.0; rotated];
    for first in (0..width).step_by(head_dim) {
        let part = &mut cell[bytes_of(first)..][..bytes_of(rotated)];
        load(isa, format, part, 0, &mut head);
        rope::rotate(isa, style, rotated, &mut head, angles);
        store(format, isa, part, &head);
    }
}

#[cfg(test)]
mod tests {
    use minfer_gguf::{TensorType, quantize};

    use super::*;
    use crate::Isa;

    fn row(width: usize) -> Vec<f32> {
        (0..width)
            .map(|i| ((i * 7919 % 1009) as f32 - 504.0) / 61.0)
            .collect()
    }

    #[test]
    fn q8_0_cells_are_gguf_blocks() {
        let mut row = row(128);
        row[32..64].fill(0.0);
        let want = quantize::quantize(TensorType::Q8_0, &row).expect("Q8_0 can be quantized");
        for isa in Isa::available() {
            let mut cell = vec![0xaa; 136];
            store(KvFormat::Q8_0, isa, &mut cell, &row);
            assert_eq!(cell, want, "{isa}");
        }
    }

    #[test]
    fn a_nan_or_infinity_stored_as_q8_0_is_not_lost() {
        for unusable in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut row = row(64);
            row[40] = unusable;
            for isa in Isa::available() {
                let (mut cell, mut got) = (vec![0; 68], vec![0.0; 64]);
                store(KvFormat::Q8_0, isa, &mut cell, &row);
                load(isa, KvFormat::Q8_0, &cell, 0, &mut got);
                assert!(got[..32].iter().all(|x| x.is_finite()), "{isa} {got:?}");
                assert!(!got[40].is_finite(), "{isa} {unusable} became {}", got[40]);
            }
        }
    }

    #[test]
    fn any_part_of_a_cell_can_be_loaded() {
        let row = row(96);
        for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
            let mut cell = vec![0; format.cell_bytes(96).expect("a whole number of blocks")];
            for isa in Isa::available() {
                store(format, isa, &mut cell, &row);
                for (first, len) in [(0, 96), (40, 40), (7, 3), (95, 1)] {
                    let mut got = vec![0.0; len];
                    load(isa, format, &cell, first, &mut got);
                    for (got, want) in got.iter().zip(&row[first..]) {
                        let limit = match format {
                            KvFormat::F32 => 0.0,
                            KvFormat::F16 => want.abs() / 2048.0,
                            KvFormat::Q8_0 => 8.3 / 127.0 * 0.51,
                        };
                        assert!((got - want).abs() <= limit, "{format:?} {got} {want}");
                    }
                }
            }
        }
    }
}
