//! Products, and the node that begins with three of them.

use minfer_gguf::Tensor;
use minfer_gguf::quantize::dequantize;
use minfer_graph::{FusedMatMul, FusedQkv, Norm, Rope, RopeStyle, WeightId};

use super::rows::{add_bias, pick, rms_norm, rotate};
use super::{Exact, Expected, Matrix, activation, integers, silu};
use crate::case::Case;

/// A weight, one output row per row.
pub fn decode(weight: &Tensor) -> Matrix {
    let mut values = vec![0.0; weight.shape.iter().product()];
    dequantize(weight.ty, &weight.bytes, &mut values)
        .unwrap_or_else(|error| panic!("weight {}: {error}", weight.name));
    Matrix {
        width: weight.shape[0],
        data: values.into_iter().map(f64::from).collect(),
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `y[o, r] = sum_i w[i, o] * x[i, r]`.
pub fn multiply(case: &Case, weight: WeightId, x: &Matrix) -> Exact {
    let w = decode(&case.weights[weight.0 as usize]);
    let squares = |a: &[f64]| -> Vec<f64> { a.iter().map(|x| x * x).collect() };
    let magnitude = |x: &[f64], o: usize| dot(&squares(w.row(o)), &squares(x)).sqrt();
    Exact {
        value: x.map_rows(|_, x| (0..w.rows()).map(|o| dot(w.row(o), x)).collect()),
        magnitude: x.map_rows(|_, x| (0..w.rows()).map(|o| magnitude(x, o)).collect()),
    }
}

/// `norm(x)`, or `x` without a norm.
fn normed(case: &Case, norm: &Option<Norm>, x: &Matrix) -> Matrix {
    match norm {
        Some(norm) => rms_norm(case, norm, x, x.width),
        None => x.clone(),
    }
}

/// `w norm(x[i(r)]) + bias + residual[i(r)]`.
pub fn fused_matmul(case: &Case, node: &FusedMatMul, x: &Matrix) -> Exact {
    let numbers = (node.gathered).then(|| integers(case, case.inputs.len() - 1));
    let picked = |x: &Matrix| match &numbers {
        Some(numbers) => pick(x, numbers),
        None => x.clone(),
    };
    let x = normed(case, &node.input_norm, &picked(x));
    let Exact {
        mut value,
        magnitude,
    } = multiply(case, node.weight, &x);
    if let Some(bias) = node.bias {
        value = add_bias(case, bias, &value);
    }
    if node.residual {
        value = value.zip(&picked(&activation(case, 1)), |y, r| y + r);
    }
    Exact { value, magnitude }
}

/// `silu(gate(norm(x))) * up(norm(x))`.
pub fn fused_ffn(case: &Case, [gate, up]: [WeightId; 2], norm: &Option<Norm>, x: &Matrix) -> Exact {
    let x = normed(case, norm, x);
    let (gate, up) = (multiply(case, gate, &x), multiply(case, up, &x));
    let value = gate.value.zip(&up.value, |g, u| silu(g) * u);
    // By the product rule, with 1.1 the steepest slope of silu, and a share of the second order.
    let through_gate = gate.magnitude.zip(&up.value, |m, u| 1.1 * m * u.abs());
    let through_up = gate.value.zip(&up.magnitude, |g, m| silu(g).abs() * m);
    let both = gate.magnitude.zip(&up.magnitude, |g, u| 0.1 * g * u);
    let magnitude = through_gate
        .zip(&through_up, |a, b| a + b)
        .zip(&both, |a, b| a + b);
    Exact { value, magnitude }
}

/// The two products of `Op::BatchMatMul`.
pub fn batch(a: &Matrix, b: &Matrix, [heads, kv_heads]: [usize; 2], transposed: bool) -> Matrix {
    let (k, n) = (b.width / kv_heads, b.rows());
    let group = |h: usize| h / (heads / kv_heads);
    let entry = |h: usize, i: usize, j: usize| b.row(j)[group(h) * k + i];
    a.map_rows(|_, a| {
        let mut y = Vec::new();
        for h in 0..heads {
            if transposed {
                let value = |i| (0..n).map(|j| a[h * n + j] * entry(h, i, j)).sum();
                y.extend((0..k).map(value).collect::<Vec<f64>>());
            } else {
                let score = |j| (0..k).map(|i| a[h * k + i] * entry(h, i, j)).sum();
                y.extend((0..n).map(score).collect::<Vec<f64>>());
            }
        }
        y
    })
}

/// Norm, projections, biases, norms of the heads, rotation.
pub fn fused_qkv(case: &Case, node: &FusedQkv, x: &Matrix) -> Expected {
    let x = normed(case, &node.input_norm, x);
    let positions = integers(case, 1);
    let [q, k, v] = [0, 1, 2].map(|i| {
        let Exact {
            mut value,
            mut magnitude,
        } = multiply(case, node.weights[i], &x);
        if let Some(biases) = node.biases {
            value = add_bias(case, biases[i], &value);
        }
        if let Some(norm) = node.norms.as_ref().and_then(|norms| norms.get(i)) {
            let normed = rms_norm(case, norm, &value, node.rope.head_dim);
            let factors = normed.zip(&value, |y, x| (y / x).abs());
            // The norm scales an error like its element, and turns a head's errors into a relative
            // one of all its elements, at most the root of their mean square.
            let scaled = magnitude.zip(&factors, |m, f| m * f);
            magnitude = scaled.zip(&normed, |m, y| m + y.abs());
            value = normed;
        }
        if i < 2 {
            value = rotate(case, &node.rope, &value, &positions);
            magnitude = magnitude.map_rows(|_, m| pair_sums(m, &node.rope));
        }
        Exact { value, magnitude }
    });
    Expected {
        value: q,
        stored: Some([k, v]),
    }
}

/// Bounds a rotation of each pair, in any mixture, by the pair's sum.
fn pair_sums(magnitudes: &[f64], rope: &Rope) -> Vec<f64> {
    let half = rope.n_rot / 2;
    let sums = |head: &[f64]| -> Vec<f64> {
        let sum = |i: usize| match rope.style {
            _ if i >= rope.n_rot => head[i],
            RopeStyle::Interleaved => head[i] + head[i ^ 1],
            RopeStyle::Split => head[i] + head[(i + half) % rope.n_rot],
        };
        (0..head.len()).map(sum).collect()
    };
    magnitudes.chunks(rope.head_dim).flat_map(sums).collect()
}
