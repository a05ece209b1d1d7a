//! Sums and maxima over a slice: lanes side by side, then the lanes, then the rest.

use crate::simd::Simd;

/// `sum_i a[i] * b[i]` over the shorter length.
#[inline(always)]
pub(crate) fn dot<S: Simd>(a: &[f32], b: &[f32]) -> f32 {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let whole = n - n % S::LANES;
    // SAFETY: every vector ends at or before `whole`; `S` is what the caller is compiled for.
    let mut total = unsafe {
        let mut lanes = S::splat(0.0);
        for i in (0..whole).step_by(S::LANES) {
            let (a, b) = (S::load(a.as_ptr().add(i)), S::load(b.as_ptr().add(i)));
            lanes = S::mul_add(a, b, lanes);
        }
        S::sum(lanes)
    };
    for (a, b) in a[whole..].iter().zip(&b[whole..]) {
        total = a.mul_add(*b, total);
    }
    total
}

/// `sum_i x[i]`.
#[inline(always)]
pub(crate) fn sum<S: Simd>(x: &[f32]) -> f32 {
    let whole = x.len() - x.len() % S::LANES;
    // SAFETY: as in `dot`.
    let mut total = unsafe {
        let (mut lanes, one) = (S::splat(0.0), S::splat(1.0));
        for i in (0..whole).step_by(S::LANES) {
            lanes = S::mul_add(S::load(x.as_ptr().add(i)), one, lanes);
        }
        S::sum(lanes)
    };
    for x in &x[whole..] {
        total += x;
    }
    total
}

/// Largest element; negative infinity for an empty slice.
#[inline(always)]
pub(crate) fn max<S: Simd>(x: &[f32]) -> f32 {
    let whole = x.len() - x.len() % S::LANES;
    let mut stored = [f32::NEG_INFINITY; 16];
    const { assert!(S::LANES <= 16) };
    // SAFETY: as in `dot`; `stored` holds a vector.
    unsafe {
        let mut lanes = S::splat(f32::NEG_INFINITY);
        for i in (0..whole).step_by(S::LANES) {
            lanes = S::max(lanes, S::load(x.as_ptr().add(i)));
        }
        S::store(stored.as_mut_ptr(), lanes);
    }
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut half = stored.len() / 2;
    while half > 0 {
        for i in 0..half {
            stored[i] = larger(stored[i], stored[i + half]);
        }
        half /= 2;
    }
    x[whole..].iter().fold(stored[0], |a, &b| larger(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::simd::per_isa;

    per_isa! {
        fn reductions(x: &[f32], y: &[f32]) -> [f32; 3] = reductions_body;
    }

    #[inline(always)]
    fn reductions_body<S: Simd>(x: &[f32], y: &[f32]) -> [f32; 3] {
        [sum::<S>(x), dot::<S>(x, y), max::<S>(x)]
    }

    #[test]
    fn every_length_counts_every_element_once() {
        for isa in Isa::available() {
            for n in 0..70 {
                let x: Vec<f32> = (1..=n).map(|i| i as f32).collect();
                let total = (n * (n + 1) / 2) as f32;
                let largest = x.last().copied().unwrap_or(f32::NEG_INFINITY);
                let want = [total, 2.0 * total, largest];
                assert_eq!(reductions(isa, &x, &vec![2.0; n]), want, "{isa} {n}");
            }
        }
    }
}
