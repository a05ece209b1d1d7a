//! Rotary position embedding.

use minfer_graph::RopeStyle;

use crate::Pool;
use crate::simd::{Simd, per_isa};
use crate::view::{MatMut, MatRef};

/// What the angles depend on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frequencies {
    pub(crate) n_rot: usize,
    pub(crate) base: f32,
    pub(crate) scale: f32,
    /// Divisors of the frequencies, `n_rot / 2` or none.
    pub(crate) factors: Vec<f32>,
}

/// Cosines and sines of a step's positions. All layers rotate by the same angles, so they are computed
/// once and found again.
#[derive(Default)]
pub(crate) struct AngleTable {
    frequencies: Option<Frequencies>,
    /// Radians per position, per pair.
    rates: Vec<f64>,
    positions: Vec<i32>,
    /// Per position `n_rot / 2` cosines, then as many sines.
    values: Vec<f32>,
}

impl AngleTable {
    /// Makes the table hold the angles of `positions`, row by row.
    ///
    /// Angles are computed in f64: at position 1e6 an f32 angle would be off by 0.03 radians.
    pub(crate) fn prepare(
        &mut self,
        pool: &Pool,
        frequencies: FrequenciesRef<'_>,
        positions: MatRef<'_, i32>,
    ) {
        let same_rates = self
            .frequencies
            .as_ref()
            .is_some_and(|held| frequencies.equals(held));
        let rows = positions.rows();
        let same_positions = self.positions.len() == rows
            && (0..rows).all(|r| self.positions[r] == positions.row(r)[0]);
        if same_rates && same_positions {
            return;
        }
        if !same_rates {
            self.rates.clear();
            self.rates.extend(frequencies.rates());
            self.frequencies = Some(frequencies.to_owned());
        }
        self.positions.clear();
        self.positions
            .extend((0..rows).map(|r| positions.row(r)[0]));
        self.values.clear();
        self.values.resize(rows * frequencies.n_rot, 0.0);
        let rates = &self.rates;
        let values = MatMut::new(&mut self.values, frequencies.n_rot, rows);
        values.for_each_row(pool, |r, row| {
            let position = f64::from(positions.row(r)[0]);
            let (cos, sin) = row.split_at_mut(rates.len());
            for (i, rate) in rates.iter().enumerate() {
                let (s, c) = (position * rate).sin_cos();
                cos[i] = c as f32;
                sin[i] = s as f32;
            }
        });
    }

    /// Cosines and sines of row `r`.
    pub(crate) fn row(&self, r: usize) -> (&[f32], &[f32]) {
        let half = self.rates.len();
        self.values[2 * half * r..][..2 * half].split_at(half)
    }
}

/// [`Frequencies`] that borrow their factors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrequenciesRef<'a> {
    pub(crate) n_rot: usize,
    pub(crate) base: f32,
    pub(crate) scale: f32,
    pub(crate) factors: &'a [f32],
}

impl FrequenciesRef<'_> {
    fn equals(&self, held: &Frequencies) -> bool {
        self.n_rot == held.n_rot
            && self.base == held.base
            && self.scale == held.scale
            && self.factors == held.factors
    }

    fn to_owned(self) -> Frequencies {
        Frequencies {
            n_rot: self.n_rot,
            base: self.base,
            scale: self.scale,
            factors: self.factors.to_vec(),
        }
    }

    fn rates(self) -> impl Iterator<Item = f64> {
        (0..self.n_rot / 2).map(move |i| {
            let exponent = -2.0 * i as f64 / self.n_rot as f64;
            let factor = self.factors.get(i).map_or(1.0, |&f| f64::from(f));
            f64::from(self.scale) * f64::from(self.base).powf(exponent) / factor
        })
    }
}

/// Turns the leading `2 * cos.len()` features of every head of a row.
pub(crate) fn rotate(
    isa: crate::Isa,
    style: RopeStyle,
    head_dim: usize,
    y: &mut [f32],
    (cos, sin): (&[f32], &[f32]),
) {
    match style {
        RopeStyle::Interleaved => rotate_interleaved(isa, head_dim, y, cos, sin),
        RopeStyle::Split => rotate_split(isa, head_dim, y, cos, sin),
    }
}

per_isa! {
    fn rotate_interleaved(head_dim: usize, y: &mut [f32], cos: &[f32], sin: &[f32]) = interleaved_body;
}
per_isa! {
    fn rotate_split(head_dim: usize, y: &mut [f32], cos: &[f32], sin: &[f32]) = split_body;
}

#[inline(always)]
fn interleaved_body<S: Simd>(head_dim: usize, y: &mut [f32], cos: &[f32], sin: &[f32]) {
    for head in y.chunks_exact_mut(head_dim) {
        let (pairs, _) = head.as_chunks_mut::<2>();
        for ((pair, c), s) in pairs.iter_mut().zip(cos).zip(sin) {
            let [a, b] = *pair;
            *pair = [a * c - b * s, a * s + b * c];
        }
    }
}

#[inline(always)]
fn split_body<S: Simd>(head_dim: usize, y: &mut [f32], cos: &[f32], sin: &[f32]) {
    for head in y.chunks_exact_mut(head_dim) {
        let (first, second) = head[..2 * cos.len()].split_at_mut(cos.len());
        let pairs = first.iter_mut().zip(second);
        for (((a, b), c), s) in pairs.zip(cos).zip(sin) {
            (*a, *b) = (*a * c - *b * s, *a * s + *b * c);
        }
    }
}
