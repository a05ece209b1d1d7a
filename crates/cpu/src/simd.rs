//! One kernel source compiled for every instruction set.
//!
//! Most kernels are plain loops over fixed-size lane arrays, which the compiler vectorizes for the
//! features of the function they are inlined into. [`Simd`] holds what it cannot find by itself.

/// Vector operations of one instruction set.
///
/// # Safety
/// Every function requires the features of its instruction set, and pointers valid for `LANES`
/// elements; no alignment is needed.
pub(crate) trait Simd {
    /// A vector of `LANES` f32.
    type V: Copy;
    /// Lanes of a vector.
    const LANES: usize;
    /// Vectors side by side in the tile of a matrix product.
    const TILE: usize;
    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self::V;
    /// Reads a vector.
    unsafe fn load(from: *const f32) -> Self::V;
    /// Writes a vector.
    unsafe fn store(to: *mut f32, v: Self::V);
    /// `a * b + c`, rounded once.
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Reads half floats, widened.
    unsafe fn load_f16(from: *const u8) -> Self::V;
    /// The larger of each lane.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Sum of all lanes.
    unsafe fn sum(v: Self::V) -> f32;
}

/// Plain Rust, for [`Isa::Scalar`](crate::Isa::Scalar) and, through the compiler, NEON.
pub(crate) struct Portable;

impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;
    const TILE: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::V {
        // SAFETY: the trait's contract.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn store(to: *mut f32, v: Self::V) {
        // SAFETY: the trait's contract.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(v) }
    }

    #[inline(always)]
    unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u8) -> Self::V {
        // SAFETY: the trait's contract.
        let halves = unsafe { from.cast::<[u16; 4]>().read_unaligned() };
        halves.map(f16_to_f32)
    }

    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn sum(v: Self::V) -> f32 {
        (v[0] + v[2]) + (v[1] + v[3])
    }
}

/// Widens a half float: exact, branch-free, so that loops over it vectorize.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    let magnitude = u32::from(half & 0x7fff) << 13;
    // The exponent bias differs by 112; the product also normalizes subnormal halves.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let special = f32::from_bits(magnitude | 0x7f80_0000);
    let value = if half & 0x7c00 == 0x7c00 {
        special
    } else {
        finite
    };
    f32::from_bits(value.to_bits() | u32::from(half & 0x8000) << 16)
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Simd;

    /// AVX2, FMA and F16C.
    pub(crate) struct Avx2;

    impl Simd for Avx2 {
        type V = __m256;
        const LANES: usize = 8;
        const TILE: usize = 2;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm256_set1_ps(x) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm256_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, v: Self::V) {
            // SAFETY: the trait's contract.
            unsafe { _mm256_storeu_ps(to, v) }
        }

        #[inline(always)]
        unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm256_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const u8) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
        }

        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm256_max_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn sum(v: Self::V) -> f32 {
            // SAFETY: the trait's contract.
            unsafe {
                let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
                let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
            }
        }
    }

    /// AVX-512 F.
    pub(crate) struct Avx512;

    impl Simd for Avx512 {
        type V = __m512;
        const LANES: usize = 16;
        const TILE: usize = 4;

        #[inline(always)]
        unsafe fn splat(x: f32) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm512_set1_ps(x) }
        }

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn store(to: *mut f32, v: Self::V) {
            // SAFETY: the trait's contract.
            unsafe { _mm512_storeu_ps(to, v) }
        }

        #[inline(always)]
        unsafe fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }

        #[inline(always)]
        unsafe fn load_f16(from: *const u8) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
        }

        #[inline(always)]
        unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
            // SAFETY: the trait's contract.
            unsafe { _mm512_max_ps(a, b) }
        }

        #[inline(always)]
        unsafe fn sum(v: Self::V) -> f32 {
            // SAFETY: the trait's contract.
            unsafe { _mm512_reduce_add_ps(v) }
        }
    }
}

/// Defines `name(isa, arguments…)`: the `#[inline(always)]` function `body::<S>` compiled for each
/// instruction set, the right one called. Panics where the machine lacks the instruction set.
macro_rules! per_isa {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?)
        $(-> $ret:ty)? = $body:ident;) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body::<$crate::simd::Avx2>($($arg),*)
                }

                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body::<$crate::simd::Avx512>($($arg),*)
                }

                assert!(isa.is_available(), "{isa} is not available");
                match isa {
                    // SAFETY: asserted to be available, which covers the enabled features.
                    $crate::Isa::Avx512 | $crate::Isa::Amx => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::Isa::Scalar | $crate::Isa::Neon => {}
                }
            }
            let _ = isa;
            $body::<$crate::simd::Portable>($($arg),*)
        }
    };
}
pub(crate) use per_isa;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_widens_exactly() {
        for bits in 0..=u16::MAX {
            let want = half::f16::from_bits(bits).to_f32();
            let got = f16_to_f32(bits);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{bits:#06x}: {got} instead of {want}"
            );
        }
    }
}
