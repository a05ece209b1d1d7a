//! f32 operands: AVX2 with fused multiply-add, NEON, and plain Rust.

use super::kernel::{Group, Kernel, Operands};
use super::tile::{Block, ROWS, STEP, Tile};

/// A register of f32 lanes.
///
/// # Safety
/// The functions require the instruction set of the type, and pointers to as many elements.
pub trait Lanes: Copy {
    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// Reads a register.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes a register.
    unsafe fn store(self, to: *mut f32);
    /// `a * b + sum`.
    unsafe fn mul_add(a: Self, b: Self, sum: Self) -> Self;
}

/// `tiles[g][o][r] += weights[o] · groups[g][r]`, for `OUTPUTS` outputs at a time with `N` registers
/// per group.
///
/// # Safety
/// `N` registers are 16 lanes, and their instructions are available.
#[inline(always)]
pub unsafe fn multiply<V: Lanes, const N: usize, const OUTPUTS: usize, const GROUPS: usize>(
    weights: &[Tile<f32>],
    groups: [&[Tile<f32>]; GROUPS],
    mut tiles: [&mut [[f32; ROWS]; ROWS]; GROUPS],
    first: bool,
) {
    const { assert!(N * size_of::<V>() == ROWS * size_of::<f32>() && ROWS.is_multiple_of(OUTPUTS)) }
    assert!(groups.iter().all(|group| group.len() == weights.len()));
    let lanes = ROWS / N;
    // SAFETY: `N` registers cover 16 floats; a weight tile has 16 rows of 32, an activation tile 32
    // columns of 16, and every group as many tiles as the weights.
    unsafe {
        for output in (0..ROWS).step_by(OUTPUTS) {
            let mut sums = [[[V::splat(0.0); N]; GROUPS]; OUTPUTS];
            if !first {
                each_sum(&mut sums, |o, g, v, sum| {
                    *sum = V::load(tiles[g][output + o].as_ptr().add(v * lanes));
                });
            }
            for (step, w) in weights.iter().enumerate() {
                let w = w.0.as_ptr().add(output * STEP);
                for column in 0..STEP {
                    let x = groups.map(|group| {
                        let x = group.get_unchecked(step).0.as_ptr().add(column * ROWS);
                        std::array::from_fn::<V, N, _>(|v| V::load(x.add(v * lanes)))
                    });
                    for (o, sums) in sums.iter_mut().enumerate() {
                        let w = V::splat(*w.add(o * STEP + column));
                        for (sums, x) in sums.iter_mut().zip(&x) {
                            for (sum, &x) in sums.iter_mut().zip(x) {
                                *sum = V::mul_add(w, x, *sum);
                            }
                        }
                    }
                }
            }
            each_sum(&mut sums, |o, g, v, sum| {
                sum.store(tiles[g][output + o].as_mut_ptr().add(v * lanes));
            });
        }
    }
}

#[inline(always)]
fn each_sum<V, const N: usize, const GROUPS: usize, const OUTPUTS: usize>(
    sums: &mut [[[V; N]; GROUPS]; OUTPUTS],
    mut f: impl FnMut(usize, usize, usize, &mut V),
) {
    for (o, sums) in sums.iter_mut().enumerate() {
        for (g, sums) in sums.iter_mut().enumerate() {
            for (v, sum) in sums.iter_mut().enumerate() {
                f(o, g, v, sum);
            }
        }
    }
}

/// Writes a row of weights as row `r` of a panel.
pub fn pack_weights(row: &[f32], panel: &mut [Tile<f32>], r: usize) {
    for (from, tile) in row.as_chunks::<STEP>().0.iter().zip(panel) {
        tile.0[r * STEP..][..STEP].copy_from_slice(from);
    }
}

fn pack_group(group: Group<'_>, panel: &mut [Tile<f32>]) {
    for (step, tile) in panel.iter_mut().enumerate() {
        let columns = tile.0.as_chunks_mut::<ROWS>().0;
        for r in 0..ROWS {
            let row = group.row(r).get(step * STEP..).unwrap_or(&[]);
            let padded = row.iter().copied().chain(std::iter::repeat(0.0));
            for (column, x) in columns.iter_mut().zip(padded) {
                column[r] = x;
            }
        }
    }
}

/// A kernel of f32 operands.
macro_rules! f32_kernel {
    ($(#[$doc:meta])* $name:ident, $multiply:path) => {
        $(#[$doc])*
        pub struct $name;

        impl Kernel for $name {
            type Element = f32;
            type Session = ();
            const DEPTH: usize = 256;

            unsafe fn session() {}

            unsafe fn pack_weights(row: &[f32], panel: &mut [Tile<f32>], r: usize, _: usize) {
                pack_weights(row, panel, r);
            }

            unsafe fn pack_group(group: Group<'_>, panel: &mut [Tile<f32>], _: usize) {
                pack_group(group, panel);
            }

            unsafe fn multiply(operands: &Operands<'_, f32>, block: &mut Block, first: bool) {
                for (weights, block) in operands.weights.iter().zip(&mut block.0) {
                    for (group, tile) in operands.groups.iter().zip(block) {
                        // SAFETY: the level is available by the trait's contract.
                        unsafe { $multiply(weights, [group], [tile], first) }
                    }
                }
            }
        }
    };
}

f32_kernel!(
    /// Plain Rust, the reference.
    Scalar,
    multiply::<Unfused, 4, 2, 1>
);

/// Four numbers, multiplied and added with two roundings: without the instruction a fused operation
/// is a function call.
#[derive(Clone, Copy)]
struct Unfused([f32; 4]);

impl Lanes for Unfused {
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Unfused([x; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract.
        Unfused(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self, b: Self, sum: Self) -> Self {
        Unfused(std::array::from_fn(|i| a.0[i] * b.0[i] + sum.0[i]))
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::Avx2;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::*;

    impl Lanes for __m256 {
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { _mm256_set1_ps(x) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { _mm256_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the trait's contract.
            unsafe { _mm256_storeu_ps(to, self) }
        }

        #[inline(always)]
        unsafe fn mul_add(a: Self, b: Self, sum: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { _mm256_fmadd_ps(a, b, sum) }
        }
    }

    /// Eight accumulators cover the latency of a multiply-add, 4 cycles at two per cycle.
    #[target_feature(enable = "avx2,fma")]
    fn multiply_avx2(
        weights: &[Tile<f32>],
        group: [&[Tile<f32>]; 1],
        tile: [&mut [[f32; ROWS]; ROWS]; 1],
        first: bool,
    ) {
        // SAFETY: two registers of 8 lanes, whose instructions are enabled.
        unsafe { multiply::<__m256, 2, 4, 1>(weights, group, tile, first) }
    }

    f32_kernel!(
        /// AVX2 and FMA.
        Avx2,
        multiply_avx2
    );
}

#[cfg(target_arch = "aarch64")]
pub use aarch64::Neon;

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    use super::*;

    impl Lanes for float32x4_t {
        #[inline(always)]
        unsafe fn splat(x: f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vdupq_n_f32(x) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vld1q_f32(from) }
        }

        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            // SAFETY: the trait's contract.
            unsafe { vst1q_f32(to, self) }
        }

        #[inline(always)]
        unsafe fn mul_add(a: Self, b: Self, sum: Self) -> Self {
            // SAFETY: the trait's contract.
            unsafe { vfmaq_f32(sum, a, b) }
        }
    }

    f32_kernel!(
        /// NEON.
        Neon,
        multiply::<float32x4_t, 4, 4, 1>
    );
}
