//! Operations that the fusion pass makes of several.

use super::{Norm, Rope, WeightId};

/// Query, key and value projection, biases, per-head norms, rotation and KV store in one node.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedQkv {
    /// Norm of `x` before the projections.
    pub input_norm: Option<Norm>,
    /// Projections of q, k, v.
    pub weights: [WeightId; 3],
    /// Biases of q, k, v, all or none.
    pub biases: Option<[WeightId; 3]>,
    /// Per-head norms of q and k (Qwen3), before the rotation.
    pub norms: Option<[Norm; 2]>,
    /// Rotation of q and k.
    pub rope: Rope,
    /// Layer whose KV region is written.
    pub layer: usize,
    /// Features of k and of v.
    pub kv_width: usize,
}

impl FusedQkv {
    /// All weights: projections, biases, gains of the heads, rotation factors, gain of the input.
    pub(super) fn all_weights(&self) -> Vec<WeightId> {
        let biases = self.biases.iter().flatten().copied();
        let gains = self.norms.iter().flatten().map(|norm| norm.gain);
        let weights = self.weights.iter().copied();
        let input = self.input_norm.map(|norm| norm.gain);
        let rotated = gains.chain(self.rope.factors);
        weights.chain(biases).chain(rotated).chain(input).collect()
    }
}

/// A projection with what comes before and after it, in one node:
/// `y[r] = w norm(x[i(r)]) + bias + residual[i(r)]`, where `i(r)` is the row number if it gathers, else `r`.
#[derive(Clone, Debug, PartialEq)]
pub struct FusedMatMul {
    /// `[in, out]`, one output row contiguous.
    pub weight: WeightId,
    /// Norm of `x` before the projection.
    pub input_norm: Option<Norm>,
    /// Added to the product, f32 `[out]`.
    pub bias: Option<WeightId>,
    /// Whether an input is added to the sum of product and bias.
    pub residual: bool,
    /// Whether the rows of `x` and of the residual are picked by number.
    pub gathered: bool,
}

impl FusedMatMul {
    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        1 + usize::from(self.residual) + usize::from(self.gathered)
    }

    pub(super) fn all_weights(&self) -> Vec<WeightId> {
        let gain = self.input_norm.map(|norm| norm.gain);
        let weight = std::iter::once(self.weight);
        weight.chain(self.bias).chain(gain).collect()
    }
}
