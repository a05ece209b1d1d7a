//! Search for the scales of K-quant groups: candidates around the scale that spans the values, each
//! refined by weighted least squares. Source: `make_qkx2_quants`, `make_q3_quants` and `make_qx_quants` in
//! ggml-quants.c, whose order of operations decides the last bit.

use super::scale::{SMALLEST_MAGNITUDE, extreme, nearest};

/// A group as `value = scale * quant - min`, quants from 0.
pub(super) struct Affine<const N: usize> {
    pub(super) scale: f32,
    pub(super) min: f32,
    pub(super) quants: [u8; N],
}

/// How a format searches for the scale and the minimum of a group.
pub(super) struct AffineSearch {
    /// The largest quant.
    pub(super) top: u8,
    /// The first candidate spans the values with `top + first` steps.
    pub(super) first: f32,
    /// Number of further candidates, each with 0.1 steps more.
    pub(super) candidates: u8,
    /// Whether errors count by magnitude instead of by square.
    pub(super) absolute_errors: bool,
}

impl AffineSearch {
    pub(super) fn run<const N: usize>(&self, values: &[f32; N], weights: &[f32; N]) -> Affine<N> {
        let low = values.iter().copied().fold(0.0, f32::min);
        let high = values.iter().copied().fold(values[0], f32::max);
        if high == low {
            return Affine {
                scale: 0.0,
                min: -low,
                quants: [0; N],
            };
        }
        let top = f32::from(self.top);
        let inverse = top / (high - low);
        let mut best = Affine {
            scale: 1.0 / inverse,
            min: low,
            quants: self.quants(values, inverse, low),
        };
        let mut least = self.error(values, weights, &best);
        for candidate in 0..=self.candidates {
            let steps = self.first + 0.1 * f32::from(candidate) + top;
            // From the best minimum so far, not from the lowest value: see the source.
            let quants = self.quants(values, steps / (high - best.min), best.min);
            let Some(fitted) = fit(values, weights, quants) else {
                continue;
            };
            let error = self.error(values, weights, &fitted);
            if error < least {
                (best, least) = (fitted, error);
            }
        }
        best.min = -best.min;
        best
    }

    fn quants<const N: usize>(&self, values: &[f32; N], inverse: f32, low: f32) -> [u8; N] {
        values.map(|x| nearest(inverse * (x - low)).clamp(0, self.top.into()) as u8)
    }

    /// The weighted error of a group whose minimum still has its own sign.
    fn error<const N: usize>(
        &self,
        values: &[f32; N],
        weights: &[f32; N],
        group: &Affine<N>,
    ) -> f32 {
        let mut sum = 0.0;
        for i in 0..N {
            let error = group.scale * f32::from(group.quants[i]) + group.min - values[i];
            let error = if self.absolute_errors {
                error.abs()
            } else {
                error * error
            };
            sum += weights[i] * error;
        }
        sum
    }
}

/// The scale and the minimum, at most zero, that fit the quants best; `None` when all quants are equal.
fn fit<const N: usize>(
    values: &[f32; N],
    weights: &[f32; N],
    quants: [u8; N],
) -> Option<Affine<N>> {
    let (mut w, mut wx, mut wq, mut wqq, mut wqx) = (0.0f32, 0.0f32, 0.0f32, 0.0f32, 0.0f32);
    for i in 0..N {
        let (weight, x, q) = (weights[i], values[i], f32::from(quants[i]));
        w += weight;
        wx += weight * x;
        wq += weight * q;
        wqq += weight * q * q;
        wqx += weight * q * x;
    }
    let determinant = w * wqq - wq * wq;
    if determinant <= 0.0 {
        return None;
    }
    let mut scale = (w * wqx - wx * wq) / determinant;
    let mut min = (wqq * wx - wq * wqx) / determinant;
    if min > 0.0 {
        min = 0.0;
        scale = wqx / wqq;
    }
    Some(Affine { scale, min, quants })
}

/// A group as `value = scale * quant`, quants from `-range` to `range - 1`.
pub(super) struct Symmetric<const N: usize> {
    pub(super) scale: f32,
    pub(super) quants: [i8; N],
}

impl<const N: usize> Symmetric<N> {
    /// A group of zeros. The scale makes its quants meaningless; llama.cpp stores the lowest.
    fn zero(range: u8) -> Self {
        Symmetric {
            scale: 0.0,
            quants: [-(range as i8); N],
        }
    }
}

/// The sums `sum(w * x * q)` and `sum(w * q * q)` with weights `w = x * x`.
fn products<const N: usize>(values: &[f32; N], quants: &[i8; N]) -> (f32, f32) {
    let (mut qx, mut qq) = (0.0, 0.0);
    for (&x, &q) in values.iter().zip(quants) {
        let (weight, q) = (x * x, f32::from(q));
        qx += weight * x * q;
        qq += weight * q * q;
    }
    (qx, qq)
}

fn symmetric_quants<const N: usize>(values: &[f32; N], inverse: f32, range: i32) -> [i8; N] {
    values.map(|x| nearest(inverse * x).clamp(-range, range - 1) as i8)
}

/// Tries scales that put the extreme value near `-range`.
pub(super) fn symmetric<const N: usize>(values: &[f32; N], range: u8) -> Symmetric<N> {
    let extreme = extreme(values);
    if extreme.abs() < SMALLEST_MAGNITUDE {
        return Symmetric::zero(range);
    }
    let steps = f32::from(range);
    let quants = symmetric_quants(values, -steps / extreme, range.into());
    let (qx, qq) = products(values, &quants);
    let scale = if qq == 0.0 { 0.0 } else { qx / qq };
    let mut best = Symmetric { scale, quants };
    let mut gain = scale * qx;
    for candidate in (-9..=9i8).filter(|&c| c != 0) {
        let inverse = -(steps + 0.1 * f32::from(candidate)) / extreme;
        let quants = symmetric_quants(values, inverse, range.into());
        let (qx, qq) = products(values, &quants);
        if qq > 0.0 && qx * qx > gain * qq {
            let scale = qx / qq;
            best = Symmetric { scale, quants };
            gain = scale * qx;
        }
    }
    best
}

/// Puts the extreme value at `-range`, then changes single quants as long as that improves the fit, in at
/// most five rounds.
pub(super) fn symmetric_by_exchange<const N: usize>(values: &[f32; N], range: u8) -> Symmetric<N> {
    let extreme = extreme(values);
    if extreme.abs() < SMALLEST_MAGNITUDE {
        return Symmetric::zero(range);
    }
    let limit = i32::from(range);
    let mut quants = symmetric_quants(values, -f32::from(range) / extreme, limit);
    let (mut qx, mut qq) = products(values, &quants);
    for _ in 0..5 {
        let mut changed = false;
        for (&x, quant) in values.iter().zip(&mut quants) {
            let (weight, q) = (x * x, f32::from(*quant));
            let other_qx = qx - weight * x * q;
            if other_qx <= 0.0 {
                continue;
            }
            let other_qq = qq - weight * q * q;
            let better = nearest(x * other_qq / other_qx).clamp(-limit, limit - 1) as i8;
            if better == *quant {
                continue;
            }
            let q = f32::from(better);
            let new_qx = other_qx + weight * x * q;
            let new_qq = other_qq + weight * q * q;
            if new_qq > 0.0 && new_qx * new_qx * qq > qx * qx * new_qq {
                (*quant, qx, qq) = (better, new_qx, new_qq);
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let scale = if qq > 0.0 { qx / qq } else { 0.0 };
    Symmetric { scale, quants }
}
