//! Expected values, in f64 and straight from the definitions of `minfer_graph::Op`.

pub mod attention;
mod products;
mod rows;

use minfer_graph::Op;

use crate::case::{Case, Value};

/// A matrix of f64, `width` features per row.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub width: usize,
    pub data: Vec<f64>,
}

impl Matrix {
    pub fn rows(&self) -> usize {
        self.data.len() / self.width
    }

    pub fn row(&self, r: usize) -> &[f64] {
        &self.data[r * self.width..][..self.width]
    }

    /// Each row through `f(row index, row)`.
    fn map_rows(&self, f: impl Fn(usize, &[f64]) -> Vec<f64>) -> Matrix {
        let rows: Vec<Vec<f64>> = (0..self.rows()).map(|r| f(r, self.row(r))).collect();
        Matrix {
            width: rows.first().map_or(0, Vec::len),
            data: rows.concat(),
        }
    }

    /// Corresponding elements of two matrices through `f`.
    fn zip(&self, other: &Matrix, f: impl Fn(f64, f64) -> f64) -> Matrix {
        let pairs = self.data.iter().zip(&other.data);
        Matrix {
            width: self.width,
            data: pairs.map(|(a, b)| f(*a, *b)).collect(),
        }
    }
}

/// Expected elements and their magnitudes, the scale that `Limit` bounds errors by.
#[derive(Clone, Debug)]
pub struct Exact {
    pub value: Matrix,
    pub magnitude: Matrix,
}

impl From<Matrix> for Exact {
    /// The root mean square as the magnitude of every element.
    fn from(value: Matrix) -> Self {
        let squares: f64 = value.data.iter().map(|x| x * x).sum();
        let rms = (squares / value.data.len().max(1) as f64).sqrt();
        let magnitude = Matrix {
            width: value.width,
            data: vec![rms; value.data.len()],
        };
        Exact { value, magnitude }
    }
}

/// What a node should leave behind.
#[derive(Debug)]
pub struct Expected {
    /// The value.
    pub value: Exact,
    /// Keys and values of the rows, for operations that store them.
    pub stored: Option<[Exact; 2]>,
}

impl From<Exact> for Expected {
    fn from(value: Exact) -> Self {
        Expected {
            value,
            stored: None,
        }
    }
}

impl From<Matrix> for Expected {
    fn from(value: Matrix) -> Self {
        Exact::from(value).into()
    }
}

/// An f32 input as f64.
fn activation(case: &Case, i: usize) -> Matrix {
    match &case.inputs[i] {
        Value::F32 { width, data, .. } => Matrix {
            width: *width,
            data: data.iter().map(|&x| f64::from(x)).collect(),
        },
        other => panic!("{} input {i} is {other:?}", case.name()),
    }
}

/// The one value per row of an index or position input.
fn integers(case: &Case, i: usize) -> Vec<i64> {
    let value = &case.inputs[i];
    (0..value.count())
        .map(|r| i64::from(value.i32_row(r)[0]))
        .collect()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The expected value of a case.
pub fn evaluate(case: &Case) -> Expected {
    let x = || activation(case, 0);
    match &case.op {
        Op::Input(_) => unreachable!("inputs are not executed"),
        Op::View { .. } => unreachable!("views are not executed"),
        Op::Embed { weight } => {
            let table = products::decode(&case.weights[weight.0 as usize]);
            rows::pick(&table, &integers(case, 0)).into()
        }
        Op::GetRows => rows::pick(&x(), &integers(case, 1)).into(),
        Op::MatMul { weight } => products::multiply(case, *weight, &x()).into(),
        Op::AddBias { weight } => rows::add_bias(case, *weight, &x()).into(),
        Op::Add => x().zip(&activation(case, 1), |a, b| a + b).into(),
        Op::Mul => x().zip(&activation(case, 1), |a, b| a * b).into(),
        Op::SwiGlu => x().zip(&activation(case, 1), |g, u| silu(g) * u).into(),
        Op::Scale { factor } => x()
            .map_rows(|_, row| row.iter().map(|x| x * f64::from(*factor)).collect())
            .into(),
        Op::Silu => x()
            .map_rows(|_, row| row.iter().map(|&x| silu(x)).collect())
            .into(),
        Op::RmsNorm(norm) => rows::rms_norm(case, norm, &x(), case.width).into(),
        Op::QkNorm { norm, head_dim } => rows::rms_norm(case, norm, &x(), *head_dim).into(),
        Op::Rope(rope) => rows::rotate(case, rope, &x(), &integers(case, 1)).into(),
        Op::Softmax { groups, scale } => {
            let positions = (case.inputs.len() == 2).then(|| integers(case, 1));
            rows::softmax(&x(), *groups, f64::from(*scale), positions).into()
        }
        Op::BatchMatMul {
            heads,
            kv_heads,
            transposed,
        } => products::batch(&x(), &activation(case, 1), [*heads, *kv_heads], *transposed).into(),
        Op::KvStore { .. } => Expected {
            value: x().into(),
            stored: Some([x().into(), activation(case, 1).into()]),
        },
        Op::KvLoad { values, .. } => attention::load(case, *values).into(),
        Op::Attention(attention) => attention::attend(case, attention, &x()).into(),
        Op::FusedQkv(qkv) => products::fused_qkv(case, qkv, &x()),
        Op::FusedFfn {
            gate,
            up,
            input_norm,
        } => products::fused_ffn(case, [*gate, *up], input_norm, &x()).into(),
        Op::FusedMatMul(product) => products::fused_matmul(case, product, &x()).into(),
    }
}
