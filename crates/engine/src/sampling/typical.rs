//! Locally typical sampling (Meister et al. 2022).

use super::candidates::{Candidates, extend_sorted};

/// Working memory of [`Typical::apply`], kept between steps.
#[derive(Debug, Default)]
pub(super) struct Typical {
    tokens: Vec<Typicality>,
    kept: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Typicality {
    id: u32,
    probability: f64,
    /// Distance of the token's surprise from the expected surprise, in nats.
    deviation: f64,
}

impl Typical {
    /// Keeps the fewest tokens, those of least deviation first, whose probability exceeds `p`.
    pub fn apply(&mut self, candidates: &mut Candidates, p: f32) {
        if p >= 1.0 {
            return;
        }
        let softmax = candidates.softmax();
        let surprise = |logit: f32| softmax.sum.ln() - f64::from(logit - softmax.max);
        let entropy: f64 = candidates
            .items()
            .iter()
            .map(|c| (softmax.probability(c.logit), c.logit))
            .filter(|&(probability, _)| probability > 0.0)
            .map(|(probability, logit)| probability * surprise(logit))
            .sum();
        self.tokens.clear();
        self.tokens
            .extend(candidates.items().iter().map(|c| Typicality {
                id: c.id,
                probability: softmax.probability(c.logit),
                deviation: (surprise(c.logit) - entropy).abs(),
            }));
        self.select(p);
        let kept = &self.kept;
        candidates.retain(|c| kept.binary_search(&c.id).is_ok());
    }

    fn select(&mut self, p: f32) {
        self.kept.clear();
        let mut sorted = 0;
        let mut cumulative = 0.0;
        for i in 0..self.tokens.len() {
            sorted = extend_sorted(&mut self.tokens, sorted, i + 1, |a, b| {
                a.deviation.total_cmp(&b.deviation).then(a.id.cmp(&b.id))
            });
            cumulative += self.tokens[i].probability;
            self.kept.push(self.tokens[i].id);
            if cumulative > f64::from(p) {
                break;
            }
        }
        self.kept.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typical(probabilities: &[f64], p: f32) -> Vec<u32> {
        let mut candidates = Candidates::of_probabilities(probabilities);
        Typical::default().apply(&mut candidates, p);
        candidates.ids()
    }

    #[test]
    fn tokens_of_typical_surprise_come_first() {
        // Entropy of (0.5, 0.2, 0.2, 0.1) is 1.2206 nats; deviations: 0: 0.527, 1 and 2: 0.389,
        // 3: 1.082. The likeliest token comes third.
        let distribution = [0.5, 0.2, 0.2, 0.1];
        assert_eq!(typical(&distribution, 0.1), [1]);
        assert_eq!(typical(&distribution, 0.3), [1, 2]);
        assert_eq!(typical(&distribution, 0.5), [0, 1, 2]);
        assert_eq!(typical(&distribution, 0.95), [0, 1, 2, 3]);
        assert_eq!(typical(&distribution, 1.0), [0, 1, 2, 3]);
    }

    #[test]
    fn masked_tokens_do_not_spoil_the_entropy() {
        assert_eq!(typical(&[0.5, 0.0, 0.25, 0.25], 0.4), [2, 3]);
    }
}
