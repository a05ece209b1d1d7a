//! AVX-512 in f32, and the packing and storing that AMX shares.
//!
//! There is a bf16 dot product too, but it does half the work per cycle: on Sapphire Rapids a 512-bit
//! `vdpbf16ps` (32 products) starts every 2 cycles, a `vfmadd231ps` (16 products) every half cycle.

use std::arch::x86_64::*;

use super::float::{self, Lanes};
use super::kernel::{Group, Kernel, Operands, Target};
use super::tile::{Block, ROWS, STEP, Tile};

impl Lanes for __m512 {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self, b: Self, sum: Self) -> Self {
        // SAFETY: the trait's contract.
        unsafe { _mm512_fmadd_ps(a, b, sum) }
    }
}

/// AVX-512 F.
pub struct Avx512;

impl Kernel for Avx512 {
    type Element = f32;
    type Session = ();
    const DEPTH: usize = 256;

    unsafe fn session() {}

    unsafe fn pack_weights(row: &[f32], panel: &mut [Tile<f32>], r: usize, _: usize) {
        float::pack_weights(row, panel, r);
    }

    unsafe fn pack_group(group: Group<'_>, panel: &mut [Tile<f32>], _: usize) {
        // SAFETY: the features are available by the trait's contract.
        unsafe { pack_group_f32(group, panel) }
    }

    unsafe fn multiply(operands: &Operands<'_, f32>, block: &mut Block, first: bool) {
        for (weights, block) in operands.weights.iter().zip(&mut block.0) {
            // SAFETY: the features are available by the trait's contract.
            unsafe {
                match *operands.groups {
                    [x0, x1] => multiply(weights, [x0, x1], block.each_mut(), first),
                    _ => multiply(weights, [operands.groups[0]], [&mut block[0]], first),
                }
            }
        }
    }

    unsafe fn store(block: &Block, target: Target<'_>) {
        // SAFETY: the features are available and the outputs ours by the trait's contract.
        unsafe { store(block, target) }
    }
}

/// With two groups 16 accumulators take 10 loads for 16 multiplications, below the two loads per
/// cycle that there are.
#[target_feature(enable = "avx512f")]
fn multiply<const GROUPS: usize>(
    weights: &[Tile<f32>],
    groups: [&[Tile<f32>]; GROUPS],
    tiles: [&mut [[f32; ROWS]; ROWS]; GROUPS],
    first: bool,
) {
    // SAFETY: a vector has 16 lanes, and its instructions are enabled.
    unsafe { float::multiply::<__m512, 1, 8, GROUPS>(weights, groups, tiles, first) }
}

/// Packs a group as f32.
#[target_feature(enable = "avx512f")]
fn pack_group_f32(group: Group<'_>, panel: &mut [Tile<f32>]) {
    for (step, tile) in panel.iter_mut().enumerate() {
        let halves = tile.0.as_chunks_mut::<{ STEP / 2 * ROWS }>().0;
        for (half, to) in halves.iter_mut().enumerate() {
            let mut rows = [_mm512_setzero_si512(); ROWS];
            for (r, row) in rows.iter_mut().enumerate().take(group.n) {
                let from = group.row(r).get(step * STEP + half * 16..).unwrap_or(&[]);
                *row = _mm512_castps_si512(load_up_to_16(from));
            }
            for (to, column) in to.as_chunks_mut::<ROWS>().0.iter_mut().zip(transpose(rows)) {
                // SAFETY: the array has 64 bytes.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), column) }
            }
        }
    }
}

/// 32 consecutive numbers, rounded to the nearest bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
fn round(low: __m512, high: __m512) -> __m512i {
    // SAFETY: both types are 64 bytes of any value.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// 16 bf16 numbers, widened.
#[target_feature(enable = "avx512f")]
fn widen(half: __m256i) -> __m512 {
    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)))
}

/// Takes the next term from 32 consecutive numbers, which keep the rest. The difference is exact.
#[target_feature(enable = "avx512f,avx512bf16")]
fn take_term(low: &mut __m512, high: &mut __m512) -> __m512i {
    let term = round(*low, *high);
    *low = _mm512_sub_ps(*low, widen(_mm512_castsi512_si256(term)));
    *high = _mm512_sub_ps(*high, widen(_mm512_extracti64x4_epi64::<1>(term)));
    term
}

/// Writes a row of weights as row `r` of a bf16 panel; see [`Kernel::pack_weights`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn pack_weights_bf16(row: &[f32], panel: &mut [Tile<u16>], r: usize, terms: usize) {
    let steps = row.as_chunks::<STEP>().0.iter();
    for (from, tiles) in steps.zip(panel.chunks_exact_mut(terms)) {
        // SAFETY: 32 numbers are read, from an array of that size.
        let (mut low, mut high) = unsafe {
            let from = from.as_ptr();
            (_mm512_loadu_ps(from), _mm512_loadu_ps(from.add(16)))
        };
        for tile in tiles {
            let to = &mut tile.0[r * STEP..][..STEP];
            // SAFETY: the slice has 64 bytes.
            unsafe {
                _mm512_storeu_si512(to.as_mut_ptr().cast(), take_term(&mut low, &mut high));
            }
        }
    }
}

/// Packs a group as bf16; see [`Kernel::pack_group`].
#[target_feature(enable = "avx512f,avx512bf16")]
pub fn pack_group_bf16(group: Group<'_>, panel: &mut [Tile<u16>], terms: usize) {
    let rows: [&[f32]; ROWS] = std::array::from_fn(|r| group.row(r));
    for (step, tiles) in panel.chunks_exact_mut(terms).enumerate() {
        let mut low = [_mm512_setzero_ps(); ROWS];
        let mut high = [_mm512_setzero_ps(); ROWS];
        for (r, row) in rows.iter().enumerate().take(group.n) {
            let from = row.get(step * STEP..).unwrap_or(&[]);
            low[r] = load_up_to_16(from);
            high[r] = load_up_to_16(from.get(16..).unwrap_or(&[]));
        }
        for tile in tiles {
            let mut pairs = [_mm512_setzero_si512(); ROWS];
            for r in 0..ROWS {
                pairs[r] = take_term(&mut low[r], &mut high[r]);
            }
            let to = tile.0.as_chunks_mut::<STEP>().0;
            for (to, pairs) in to.iter_mut().zip(transpose(pairs)) {
                // SAFETY: the array has 64 bytes.
                unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), pairs) }
            }
        }
    }
}

/// The first 16 numbers; zeros past the end of the slice.
#[target_feature(enable = "avx512f")]
fn load_up_to_16(from: &[f32]) -> __m512 {
    if from.is_empty() {
        // Masking all lanes off would do, but takes hundreds of cycles at an unmapped address.
        return _mm512_setzero_ps();
    }
    let mask = ((1_u32 << from.len().min(16)) - 1) as __mmask16;
    // SAFETY: lanes past the slice are masked off and not accessed.
    unsafe { _mm512_maskz_loadu_ps(mask, from.as_ptr()) }
}

/// Transposes a 16 × 16 matrix of 4-byte elements.
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    let zero = _mm512_setzero_si512();
    // After two rounds, lane `l` of `quads[4 * q + c]` is column `4 * l + c` of rows `4 * q ..`.
    let mut quads = [zero; 16];
    for q in 0..4 {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| rows[4 * q + i]);
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        quads[4 * q] = _mm512_unpacklo_epi64(ab_low, cd_low);
        quads[4 * q + 1] = _mm512_unpackhi_epi64(ab_low, cd_low);
        quads[4 * q + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
        quads[4 * q + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
    }
    let mut columns = [zero; 16];
    for c in 0..4 {
        let [p, q, r, s] = [0, 1, 2, 3].map(|i| quads[4 * i + c]);
        let even_pq = _mm512_shuffle_i32x4::<0x88>(p, q);
        let even_rs = _mm512_shuffle_i32x4::<0x88>(r, s);
        let odd_pq = _mm512_shuffle_i32x4::<0xdd>(p, q);
        let odd_rs = _mm512_shuffle_i32x4::<0xdd>(r, s);
        columns[c] = _mm512_shuffle_i32x4::<0x88>(even_pq, even_rs);
        columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(odd_pq, odd_rs);
        columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(even_pq, even_rs);
        columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(odd_pq, odd_rs);
    }
    columns
}

/// Writes a finished block; see [`Kernel::store`].
///
/// # Safety
/// No other thread accesses the target's outputs.
#[target_feature(enable = "avx512f")]
pub unsafe fn store(block: &Block, target: Target<'_>) {
    let (first_output, n_outputs) = target.outputs;
    let (first_row, n_rows) = target.rows;
    for (panel, groups) in block.0.iter().enumerate() {
        let n = n_outputs.saturating_sub(panel * ROWS).min(ROWS);
        if n == 0 {
            break;
        }
        for (group, tile) in groups.iter().enumerate() {
            let mut outputs = [_mm512_setzero_si512(); ROWS];
            for (to, from) in outputs.iter_mut().zip(tile) {
                // SAFETY: the array has 16 numbers.
                *to = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
            }
            let rows = (group * ROWS..n_rows).take(ROWS);
            for (row, values) in rows.zip(transpose(outputs)) {
                // SAFETY: the outputs are ours by contract; the mask keeps to the slice.
                unsafe {
                    let out = target
                        .out
                        .slice_mut(first_row + row, first_output + panel * ROWS, n);
                    let mask = ((1_u32 << n) - 1) as __mmask16;
                    _mm512_mask_storeu_epi32(out.as_mut_ptr().cast(), mask, values);
                }
            }
        }
    }
}
