//! Temperature, fixed or following the entropy.

use super::candidates::Candidates;

/// Temperature between `temperature - range` and `temperature + range`, by the entropy of the
/// distribution (kalomaze's "dynamic temperature").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DynamicTemperature {
    /// Half the width of the range; 0 for a fixed temperature.
    pub range: f32,
    /// Exponent on the normalized entropy.
    pub exponent: f32,
}

/// Divides the logits; a temperature of 0 or less keeps the likeliest token alone.
pub(super) fn temperature(
    candidates: &mut Candidates,
    temperature: f32,
    dynamic: Option<DynamicTemperature>,
) {
    if temperature <= 0.0 {
        candidates.truncate_to_best(1);
        return;
    }
    let temperature = match dynamic {
        Some(dynamic) => by_entropy(candidates, temperature, dynamic),
        None => temperature,
    };
    let Some(best) = candidates.best() else {
        return;
    };
    // Relative to the best logit, so that no temperature can overflow.
    candidates.map_logits(|logit| (logit - best.logit) / temperature);
}

fn by_entropy(candidates: &Candidates, temperature: f32, dynamic: DynamicTemperature) -> f32 {
    let count = candidates.items().len();
    if count < 2 {
        return temperature;
    }
    let softmax = candidates.softmax();
    let entropy: f64 = candidates
        .items()
        .iter()
        .map(|c| softmax.probability(c.logit))
        .filter(|&p| p > 0.0)
        .map(|p| -p * p.ln())
        .sum();
    let normalized = (entropy / (count as f64).ln()) as f32;
    let low = (temperature - dynamic.range).max(0.0);
    let high = temperature + dynamic.range;
    (low + (high - low) * normalized.powf(dynamic.exponent)).max(f32::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities of tokens 0.. after the temperature.
    fn probabilities(logits: &[f32], t: f32, dynamic: Option<DynamicTemperature>) -> Vec<f64> {
        let mut candidates = Candidates::of_logits(logits);
        temperature(&mut candidates, t, dynamic);
        let softmax = candidates.softmax();
        let mut out = vec![0.0; logits.len()];
        for c in candidates.items() {
            out[c.id as usize] = softmax.probability(c.logit);
        }
        out
    }

    fn assert_close(actual: &[f64], expected: &[f64]) {
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() < 1e-5, "{actual:?} instead of {expected:?}");
        }
    }

    #[test]
    fn divides_the_logits() {
        // exp(2 / 0.5), exp(1 / 0.5), exp(0)
        let z = 4f64.exp() + 2f64.exp() + 1.0;
        let expected = [2f64.exp() / z, 4f64.exp() / z, 1.0 / z];
        assert_close(&probabilities(&[1.0, 2.0, 0.0], 0.5, None), &expected);
    }

    #[test]
    fn zero_and_below_keep_the_best_with_the_lowest_id() {
        for t in [0.0, -1.0] {
            assert_close(&probabilities(&[1.0, 2.0, 2.0], t, None), &[0.0, 1.0, 0.0]);
        }
    }

    #[test]
    fn extreme_temperatures_stay_finite() {
        assert_close(&probabilities(&[10.0, 20.0], 1e-38, None), &[0.0, 1.0]);
        assert_close(&probabilities(&[10.0, 20.0], 1e38, None), &[0.5, 0.5]);
    }

    #[test]
    fn dynamic_temperature_is_high_for_flat_distributions() {
        let dynamic = Some(DynamicTemperature {
            range: 0.5,
            exponent: 1.0,
        });
        // Two tokens 0.75 and 0.25: entropy 0.562335 nats, normalized by ln 2: 0.811278, so the
        // temperature is 0.5 + 1.0 * 0.811278 = 1.311278 and the odds are 3^(1 / 1.311278) = 2.31136.
        let odds = 3f64.powf(1.0 / 1.311278);
        let expected = [odds / (1.0 + odds), 1.0 / (1.0 + odds)];
        let logits = [0.75f32.ln(), 0.25f32.ln()];
        assert_close(&probabilities(&logits, 1.0, dynamic), &expected);
    }
}
