//! Mirostat 2: truncation that steers the surprise of the drawn tokens (Basu et al. 2021).

use super::candidates::{Candidate, Candidates};
use super::draw::{Random, draw};

/// Settings of Mirostat 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MirostatParams {
    /// Target surprise in bits.
    pub tau: f32,
    /// Learning rate.
    pub eta: f32,
}

impl Default for MirostatParams {
    fn default() -> Self {
        MirostatParams { tau: 5.0, eta: 0.1 }
    }
}

/// The controller's state.
#[derive(Debug)]
pub(super) struct Mirostat {
    params: MirostatParams,
    /// Greatest surprise that a candidate may have, in bits.
    mu: f64,
}

impl Mirostat {
    pub fn new(params: MirostatParams) -> Self {
        Mirostat {
            params,
            mu: 2.0 * f64::from(params.tau),
        }
    }

    /// Draws a token and adjusts the truncation by its surprise.
    pub fn draw(&mut self, candidates: &mut Candidates, random: &mut Random) -> Option<Candidate> {
        let all = candidates.softmax();
        let best = candidates.best()?;
        let bits =
            |logit: f32| (all.sum.ln() - f64::from(logit - all.max)) / std::f64::consts::LN_2;
        let mu = self.mu;
        candidates.retain(|c| c.id == best.id || bits(c.logit) <= mu);
        let kept = candidates.softmax();
        let drawn = draw(candidates, random)?;
        let surprise = -kept.probability(drawn.logit).log2();
        self.mu -= f64::from(self.params.eta) * (surprise - f64::from(self.params.tau));
        Some(drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_at_mu_and_learns_from_the_surprise() {
        // Surprises in bits: 1, 2, 3, 3.
        let p = [0.5, 0.25, 0.125, 0.125];
        let mut mirostat = Mirostat::new(MirostatParams {
            tau: 1.25,
            eta: 0.5,
        });
        assert_eq!(mirostat.mu, 2.5);
        let mut candidates = Candidates::of_probabilities(&p);
        let drawn = mirostat.draw(&mut candidates, &mut Random::new(3));
        assert_eq!(candidates.ids(), [0, 1]);
        // Renormalized to 2/3 and 1/3.
        let surprise = match drawn.map(|c| c.id) {
            Some(0) => 1.5f64.log2(),
            Some(1) => 3f64.log2(),
            other => panic!("drew {other:?}"),
        };
        let mu = 2.5 - 0.5 * (surprise - 1.25);
        assert!((mirostat.mu - mu).abs() < 1e-6, "{} != {mu}", mirostat.mu);
    }

    #[test]
    fn the_likeliest_token_always_remains() {
        let mut mirostat = Mirostat::new(MirostatParams {
            tau: 0.01,
            eta: 0.0,
        });
        let mut candidates = Candidates::of_probabilities(&[0.3, 0.4, 0.3]);
        let drawn = mirostat.draw(&mut candidates, &mut Random::new(3));
        assert_eq!(drawn.map(|c| c.id), Some(1));
        assert_eq!(candidates.ids(), [1]);
    }
}
