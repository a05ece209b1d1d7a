//! Operations on single rows.

use minfer_graph::{Norm, Rope, RopeStyle, WeightId};

use super::Matrix;
use super::products::decode;
use crate::case::Case;

/// Rows of `table` by index.
pub fn pick(table: &Matrix, indices: &[i64]) -> Matrix {
    let picked = indices.iter().flat_map(|&i| table.row(i as usize).to_vec());
    Matrix {
        width: table.width,
        data: picked.collect(),
    }
}

/// `y = x + b`.
pub fn add_bias(case: &Case, weight: WeightId, x: &Matrix) -> Matrix {
    let bias = decode(&case.weights[weight.0 as usize]);
    x.map_rows(|_, row| row.iter().zip(bias.row(0)).map(|(x, b)| x + b).collect())
}

/// `y = x / sqrt(mean(x^2) + eps) * gain` over each `part` features.
pub fn rms_norm(case: &Case, norm: &Norm, x: &Matrix, part: usize) -> Matrix {
    let gain = decode(&case.weights[norm.gain.0 as usize]);
    let normalize = |x: &[f64]| -> Vec<f64> {
        let mean = x.iter().map(|x| x * x).sum::<f64>() / part as f64;
        let root = (mean + f64::from(norm.eps)).sqrt();
        x.iter()
            .zip(gain.row(0))
            .map(|(x, g)| x / root * g)
            .collect()
    };
    x.map_rows(|_, row| row.chunks(part).flat_map(normalize).collect())
}

/// Pair `i` turns by `position * freq_scale * freq_base^(-2i / n_rot) / factor_i`.
pub fn rotate(case: &Case, rope: &Rope, x: &Matrix, positions: &[i64]) -> Matrix {
    let factors = rope.factors.map(|id| decode(&case.weights[id.0 as usize]));
    let half = rope.n_rot / 2;
    let angle = |position: i64, i: usize| {
        let power = -2.0 * i as f64 / rope.n_rot as f64;
        let factor = factors.as_ref().map_or(1.0, |f| f.row(0)[i]);
        position as f64 * f64::from(rope.freq_scale) * f64::from(rope.freq_base).powf(power)
            / factor
    };
    x.map_rows(|r, row| {
        let mut y = row.to_vec();
        for head in (0..row.len()).step_by(rope.head_dim) {
            for i in 0..half {
                let (a, b) = match rope.style {
                    RopeStyle::Interleaved => (head + 2 * i, head + 2 * i + 1),
                    RopeStyle::Split => (head + i, head + i + half),
                };
                let (sin, cos) = angle(positions[r], i).sin_cos();
                y[a] = row[a] * cos - row[b] * sin;
                y[b] = row[a] * sin + row[b] * cos;
            }
        }
        y
    })
}

/// Softmax of `scale * x` over each of `groups` parts, of which those after the position get 0.
pub fn softmax(x: &Matrix, groups: usize, scale: f64, positions: Option<Vec<i64>>) -> Matrix {
    x.map_rows(|r, row| {
        let part = row.len() / groups;
        let visible = |j: usize| {
            let last = positions.as_ref().map(|p| p[r]);
            last.is_none_or(|last| j as i64 <= last)
        };
        let softmax_part = |scores: &[f64]| -> Vec<f64> {
            let scores = scores.iter().map(|s| s * scale).collect::<Vec<_>>();
            let seen = (0..part).filter(|&j| visible(j));
            let largest = seen
                .clone()
                .map(|j| scores[j])
                .fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = seen.map(|j| (scores[j] - largest).exp()).sum();
            let weight = |j: usize| match visible(j) {
                true => (scores[j] - largest).exp() / total,
                false => 0.0,
            };
            (0..part).map(weight).collect()
        };
        row.chunks(part).flat_map(softmax_part).collect()
    })
}
