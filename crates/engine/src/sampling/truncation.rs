//! Truncation by rank and by probability: top-k, top-p and min-p.

use super::candidates::Candidates;

/// Keeps the shortest run of likeliest tokens whose probability reaches `p` (Holtzman et al. 2020).
pub(super) fn top_p(candidates: &mut Candidates, p: f32) {
    if p >= 1.0 {
        return;
    }
    let softmax = candidates.softmax();
    let mut cumulative = 0.0;
    let mut kept = 0;
    while kept < candidates.items().len() {
        candidates.sort_prefix(kept + 1);
        cumulative += softmax.probability(candidates.items()[kept].logit);
        kept += 1;
        if cumulative >= f64::from(p) {
            break;
        }
    }
    candidates.truncate_to_best(kept);
}

/// Keeps tokens at least `p` times as likely as the likeliest (Nguyen et al. 2024).
pub(super) fn min_p(candidates: &mut Candidates, p: f32) {
    if p <= 0.0 {
        return;
    }
    let Some(best) = candidates.best() else {
        return;
    };
    let floor = best.logit + p.ln();
    candidates.retain(|c| c.logit >= floor);
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: [f64; 5] = [0.05, 0.4, 0.1, 0.25, 0.2];

    #[test]
    fn top_k_keeps_the_k_likeliest() {
        let mut candidates = Candidates::of_probabilities(&P);
        candidates.truncate_to_best(2);
        assert_eq!(candidates.ids(), [1, 3]);
    }

    #[test]
    fn top_p_stops_at_the_token_that_reaches_p() {
        // Cumulative: 1: 0.4, 3: 0.65, 4: 0.85, 2: 0.95, 0: 1.
        for (p, ids) in [
            (0.0, &[1][..]),
            (0.39, &[1]),
            (0.41, &[1, 3]),
            (0.66, &[1, 3, 4]),
            (0.9, &[1, 2, 3, 4]),
            (0.96, &[0, 1, 2, 3, 4]),
            (1.0, &[0, 1, 2, 3, 4]),
        ] {
            let mut candidates = Candidates::of_probabilities(&P);
            top_p(&mut candidates, p);
            assert_eq!(candidates.ids(), ids, "p = {p}");
        }
    }

    #[test]
    fn top_p_over_a_flat_vocabulary_keeps_the_fraction() {
        let mut candidates = Candidates::of_logits(&[0.0; 4000]);
        top_p(&mut candidates, 0.50001);
        assert_eq!(candidates.ids(), (0..2001).collect::<Vec<u32>>());
    }

    #[test]
    fn min_p_is_relative_to_the_likeliest() {
        // Thresholds 0.4 * p.
        for (p, ids) in [
            (0.0, &[0, 1, 2, 3, 4][..]),
            (0.2, &[1, 2, 3, 4]),
            (0.3, &[1, 3, 4]),
            (0.6, &[1, 3]),
            (1.0, &[1]),
        ] {
            let mut candidates = Candidates::of_probabilities(&P);
            min_p(&mut candidates, p);
            assert_eq!(candidates.ids(), ids, "p = {p}");
        }
    }
}
