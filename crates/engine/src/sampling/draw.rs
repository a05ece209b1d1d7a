//! The random draw from what remains.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::candidates::{Candidate, Candidates};

/// The generator behind every random decision of a sampler: PCG XSL-RR 128/64 (O'Neill 2014).
#[derive(Debug)]
pub(super) struct Random(Pcg64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Pcg64::seed_from_u64(seed))
    }

    /// Uniform in `[0, 1)`, with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws a token by its softmax probability; `None` when there are none.
pub(super) fn draw(candidates: &Candidates, random: &mut Random) -> Option<Candidate> {
    let softmax = candidates.softmax();
    let target = random.uniform() * softmax.sum;
    let mut cumulative = 0.0;
    let mut last = None;
    for candidate in candidates.items() {
        let weight = softmax.weight(candidate.logit);
        if weight > 0.0 {
            cumulative += weight;
            last = Some(*candidate);
            if cumulative > target {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_probabilities() {
        let p = [0.1, 0.0, 0.6, 0.25, 0.05];
        let candidates = Candidates::of_probabilities(&p);
        let mut random = Random::new(42);
        let n = 100_000;
        let mut counts = [0u32; 5];
        for _ in 0..n {
            let drawn = draw(&candidates, &mut random).expect("a token");
            counts[drawn.id as usize] += 1;
        }
        assert_eq!(counts[1], 0);
        for (count, p) in counts.iter().zip(p) {
            let deviation = (f64::from(*count) - f64::from(n) * p).abs();
            let bound = 6.0 * (f64::from(n) * p * (1.0 - p)).sqrt();
            assert!(deviation <= bound, "{count} of {n} for {p}");
        }
    }

    #[test]
    fn uniform_fills_the_unit_interval() {
        let mut random = Random::new(0);
        let mut tenths = [0u32; 10];
        for _ in 0..100_000 {
            let u = random.uniform();
            assert!((0.0..1.0).contains(&u));
            tenths[(u * 10.0) as usize] += 1;
        }
        assert!(tenths.iter().all(|&n| (9_400..=10_600).contains(&n)));
    }
}
