//! Sums and maxima over a slice, in a fixed lane order.

/// Lanes of every reduction, whatever the instruction set, so that its result does not depend on it.
pub(crate) const LANES: usize = 16;

/// Sum of the lanes, by halves.
#[inline(always)]
pub(crate) fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] += lanes[i + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// `sum_i a[i] * b[i]` over the shorter length.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let n = a.len().min(b.len());
    let (a, a_tail) = a[..n].as_chunks::<LANES>();
    let (b, b_tail) = b[..n].as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for i in 0..LANES {
            lanes[i] = a[i].mul_add(b[i], lanes[i]);
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_tail.iter().zip(b_tail)) {
        *lane = a.mul_add(*b, *lane);
    }
    sum_lanes(lanes)
}

/// `sum_i x[i]`.
#[inline(always)]
pub(crate) fn sum(x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += chunk[i];
        }
    }
    for (lane, x) in lanes.iter_mut().zip(tail) {
        *lane += x;
    }
    sum_lanes(lanes)
}

/// Largest element; negative infinity for an empty slice. NaN elements are passed over.
#[inline(always)]
pub(crate) fn max(x: &[f32]) -> f32 {
    let (chunks, tail) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] {
                chunk[i]
            } else {
                lanes[i]
            };
        }
    }
    lanes
        .iter()
        .chain(tail)
        .fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_counts_every_element_once() {
        for n in 0..70 {
            let x: Vec<f32> = (1..=n).map(|i| i as f32).collect();
            let want = (n * (n + 1) / 2) as f32;
            assert_eq!(sum(&x), want);
            assert_eq!(dot(&x, &vec![2.0; n]), 2.0 * want);
            let largest = x.last().copied().unwrap_or(f32::NEG_INFINITY);
            assert_eq!(max(&x), largest);
        }
    }
}
