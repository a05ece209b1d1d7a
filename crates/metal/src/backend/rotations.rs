//! Tables of rotations: each is made once, for all layers.

use minfer_graph::Rope;

use super::error::NodeError;
use super::weights::Weights;
use crate::device::Buffer;
use crate::ops::rope::Turns;

/// A rotation, with its factors by name. Pairing and head size do not matter to the table.
struct Known {
    n_rot: usize,
    freq_base: f32,
    freq_scale: f32,
    factors: Option<String>,
    turns: Turns,
}

/// Tables made so far, a handful.
#[derive(Default)]
pub(super) struct Rotations {
    known: Vec<Known>,
}

impl Rotations {
    /// The table of a rotation whose factors are the weight `factors`.
    pub(super) fn turns<B: Buffer>(
        &mut self,
        rope: &Rope,
        factors: Option<&str>,
        weights: &Weights<B>,
    ) -> Result<&Turns, NodeError> {
        let same = |known: &Known| {
            (
                known.n_rot,
                known.freq_base,
                known.freq_scale,
                known.factors.as_deref(),
            ) == (rope.n_rot, rope.freq_base, rope.freq_scale, factors)
        };
        let at = match self.known.iter().position(same) {
            Some(at) => at,
            None => {
                let values = match factors {
                    Some(name) => Some(weights.host_vector(name, rope.n_rot / 2)?),
                    None => None,
                };
                self.known.push(Known {
                    n_rot: rope.n_rot,
                    freq_base: rope.freq_base,
                    freq_scale: rope.freq_scale,
                    factors: factors.map(str::to_owned),
                    turns: Turns::new(rope, values.as_deref())?,
                });
                self.known.len() - 1
            }
        };
        Ok(&self.known[at].turns)
    }

    /// Forgets everything: a weight has changed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }
}
