//! DRY ("don't repeat yourself"): a penalty on tokens that would continue a repetition.
//!
//! By p-e-w (text-generation-webui, pull request 5677). If the last `m` tokens also occurred earlier,
//! followed by token `t`, then `t` is penalized by `multiplier * base^(m - allowed_length)`. Matches never
//! reach across a sequence breaker.

use std::collections::HashMap;

/// Settings of the DRY penalty.
#[derive(Clone, Debug, PartialEq)]
pub struct DryParams {
    /// Strength; 0 for none.
    pub multiplier: f32,
    /// Growth per repeated token, at least 1.
    pub base: f32,
    /// Longest repetition that is not penalized, plus one.
    pub allowed_length: usize,
    /// Tokens looked back on; 0 for no penalty, `None` for the whole context.
    pub last_n: Option<usize>,
    /// Token sequences that end a match, for example from [`breaker_tokens`](super::breaker_tokens).
    pub breakers: Vec<Vec<u32>>,
}

impl Default for DryParams {
    fn default() -> Self {
        DryParams {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_n: None,
            breakers: Vec::new(),
        }
    }
}

impl DryParams {
    /// Whether any logit could change.
    pub(super) fn is_active(&self) -> bool {
        self.multiplier > 0.0 && self.last_n != Some(0)
    }

    /// `multiplier * base^excess`, within f32.
    fn penalty(&self, excess: usize) -> f32 {
        let growth = f64::from(self.base).powf(excess as f64);
        (f64::from(self.multiplier) * growth).min(f64::from(f32::MAX)) as f32
    }
}

/// The breakers, prepared, and the working memory of [`Dry::apply`].
#[derive(Debug)]
pub(super) struct Dry {
    /// Breakers by their last token.
    breakers: HashMap<u32, Vec<Vec<u32>>>,
    /// Length of the match between the newest tokens and those that end at index `i`, newest first.
    matches: Vec<usize>,
    /// Tokens that would continue a match, with its length.
    continuations: Vec<(u32, usize)>,
}

impl Dry {
    pub fn new(params: &DryParams) -> Self {
        let mut breakers: HashMap<u32, Vec<Vec<u32>>> = HashMap::new();
        for breaker in &params.breakers {
            if let Some(&last) = breaker.last() {
                breakers.entry(last).or_default().push(breaker.clone());
            }
        }
        Dry {
            breakers,
            matches: Vec::new(),
            continuations: Vec::new(),
        }
    }

    /// Newest tokens that a match may use: those after the last complete breaker.
    fn match_limit(&self, newest_first: &[u32]) -> usize {
        let ends_with_breaker = |history: &[u32]| {
            let candidates = history.first().and_then(|last| self.breakers.get(last));
            candidates.into_iter().flatten().any(|breaker| {
                let tokens = history.get(..breaker.len());
                tokens.is_some_and(|tokens| tokens.iter().eq(breaker.iter().rev()))
            })
        };
        (0..newest_first.len())
            .find(|&newer| ends_with_breaker(&newest_first[newer..]))
            .unwrap_or(newest_first.len())
    }

    /// Lowers the logits of tokens that would continue a repetition. `newest_first` are the tokens of
    /// the window, the last one first.
    pub fn apply(&mut self, params: &DryParams, logits: &mut [f32], newest_first: &[u32]) {
        let limit = self.match_limit(newest_first);
        let shortest = params.allowed_length.max(1);
        if limit < shortest {
            return;
        }
        prefix_matches(newest_first, &mut self.matches);
        self.continuations.clear();
        for (follower, &length) in newest_first.iter().zip(self.matches.iter().skip(1)) {
            let length = length.min(limit);
            if length >= shortest {
                self.continuations.push((*follower, length));
            }
        }
        self.continuations.sort_unstable();
        for run in self.continuations.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(id, longest)) = run.last() else {
                continue;
            };
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit -= params.penalty(longest - params.allowed_length);
            }
        }
    }
}

/// For each `i`, how many items from `i` on equal those from 0 on; the entry of 0 is 0.
///
/// The Z-algorithm (Gusfield 1997, section 1.3), linear in the number of items.
fn prefix_matches(items: &[u32], lengths: &mut Vec<usize>) {
    lengths.clear();
    lengths.resize(items.len(), 0);
    let (mut left, mut right) = (0, 0);
    for i in 1..items.len() {
        let mut length = if i < right {
            lengths[i - left].min(right - i)
        } else {
            0
        };
        while i + length < items.len() && items[length] == items[i + length] {
            length += 1;
        }
        if i + length > right {
            (left, right) = (i, i + length);
        }
        lengths[i] = length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(breakers: &[&[u32]]) -> DryParams {
        DryParams {
            multiplier: 0.5,
            base: 2.0,
            breakers: breakers.iter().map(|b| b.to_vec()).collect(),
            ..DryParams::default()
        }
    }

    /// Penalties on tokens 0..10 after `history` (oldest first).
    fn penalties(params: &DryParams, history: &[u32]) -> Vec<f32> {
        let newest_first: Vec<u32> = history.iter().rev().copied().collect();
        let mut logits = vec![0.0; 10];
        Dry::new(params).apply(params, &mut logits, &newest_first);
        logits.iter().map(|l| 0.0 - l).collect()
    }

    #[test]
    fn longest_match_of_each_continuation_counts() {
        // "1 2 3" was followed by 4, "2 3" alone by 5, "3" alone by 6.
        let history = [1, 2, 3, 4, 2, 3, 5, 3, 6, 1, 2, 3];
        let mut expected = vec![0.0; 10];
        expected[4] = 0.5 * 2.0; // length 3: one more than allowed
        expected[5] = 0.5; // length 2: base^0
        assert_eq!(penalties(&params(&[]), &history), expected);
    }

    #[test]
    fn a_breaker_limits_the_match() {
        let history = [1, 2, 3, 4, 7, 1, 2, 3];
        // After the breaker 1 only "2 3" may match.
        let mut expected = vec![0.0; 10];
        expected[4] = 0.5;
        assert_eq!(penalties(&params(&[&[1]]), &history), expected);
        assert_eq!(penalties(&params(&[&[7, 1]]), &history), expected);
        // A sequence that does not occur changes nothing; one that ends the history forbids any match.
        expected[4] = 1.0;
        assert_eq!(penalties(&params(&[&[2, 7]]), &history), expected);
        assert_eq!(penalties(&params(&[&[2, 3]]), &history), [0.0; 10]);
    }

    #[test]
    fn overlapping_repeats_and_huge_exponents_stay_finite() {
        let history = vec![5; 3000];
        let penalty = penalties(&params(&[]), &history)[5];
        assert_eq!(penalty, f32::MAX);
    }

    #[test]
    fn prefix_matches_equal_the_definition() {
        let items: Vec<u32> = (0u32..400).map(|i| (i * i / 7 + i / 50) % 3).collect();
        let mut lengths = Vec::new();
        prefix_matches(&items, &mut lengths);
        for (i, &length) in lengths.iter().enumerate().skip(1) {
            let expected = items[i..]
                .iter()
                .zip(&items)
                .take_while(|(a, b)| a == b)
                .count();
            assert_eq!(length, expected, "at {i}");
        }
    }
}
