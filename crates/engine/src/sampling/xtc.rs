//! XTC, "exclude top choices" (p-e-w, text-generation-webui, pull request 6335).

use super::candidates::Candidates;
use super::draw::Random;

/// Settings of XTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XtcParams {
    /// How often the top choices are excluded; 0 for never.
    pub probability: f32,
    /// Probability from which a token counts as a top choice; above 0.5 there can be only one, and
    /// nothing is excluded.
    pub threshold: f32,
}

impl Default for XtcParams {
    fn default() -> Self {
        XtcParams {
            probability: 0.0,
            threshold: 0.1,
        }
    }
}

impl XtcParams {
    pub(super) fn is_active(&self) -> bool {
        self.probability > 0.0 && self.threshold <= 0.5
    }
}

/// Drops all top choices but the least likely one.
pub(super) fn xtc(candidates: &mut Candidates, params: XtcParams, random: &mut Random) {
    if !params.is_active() || candidates.items().len() < 2 {
        return;
    }
    if random.uniform() >= f64::from(params.probability) {
        return;
    }
    let softmax = candidates.softmax();
    let mut choices = 0;
    while choices < candidates.items().len() {
        candidates.sort_prefix(choices + 1);
        if softmax.probability(candidates.items()[choices].logit) < f64::from(params.threshold) {
            break;
        }
        choices += 1;
    }
    candidates.drop_best(choices.saturating_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 4] = [0.15, 0.4, 0.05, 0.4];

    fn run(probability: f32, threshold: f32) -> Vec<u32> {
        let mut candidates = Candidates::of_probabilities(&P);
        let params = XtcParams {
            probability,
            threshold,
        };
        xtc(&mut candidates, params, &mut Random::new(1));
        candidates.ids()
    }

    #[test]
    fn only_the_least_likely_top_choice_stays() {
        assert_eq!(run(1.0, 0.1), [0, 2]);
        assert_eq!(run(1.0, 0.3), [0, 2, 3]);
        assert_eq!(run(1.0, 0.45), [0, 1, 2, 3]);
        assert_eq!(run(1.0, 0.6), [0, 1, 2, 3]);
        assert_eq!(run(1.0, 0.01), [2]);
        assert_eq!(run(0.0, 0.1), [0, 1, 2, 3]);
    }

    #[test]
    fn excludes_as_often_as_asked() {
        let mut random = Random::new(7);
        let params = XtcParams {
            probability: 0.3,
            threshold: 0.1,
        };
        let excluded = (0..10_000)
            .filter(|_| {
                let mut candidates = Candidates::of_probabilities(&P);
                xtc(&mut candidates, params, &mut random);
                candidates.ids().len() < 4
            })
            .count();
        // Standard deviation sqrt(10000 * 0.3 * 0.7) = 46; six of them.
        assert!((2725..=3275).contains(&excluded), "{excluded}");
    }
}
