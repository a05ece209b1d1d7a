//! The tokens that may still be drawn, sorted only as far as someone looks.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

/// Descending logit, ascending id among equals.
fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// Fewest elements a partial sort moves to the front at once.
const MIN_SORTED: usize = 64;

/// Puts the smallest elements of `items` by `order` in front, in order, and returns how many; at least
/// `wanted`, if there are so many. The first `sorted` are in place already.
///
/// The prefix at least doubles at every call, so that walking an ordered list to its n-th element costs
/// `O(len * log(n) + n * log(n))`.
pub(super) fn extend_sorted<T>(
    items: &mut [T],
    sorted: usize,
    wanted: usize,
    order: impl Fn(&T, &T) -> Ordering,
) -> usize {
    if wanted <= sorted || sorted >= items.len() {
        return sorted;
    }
    let target = wanted.max(2 * sorted).max(MIN_SORTED).min(items.len());
    let rest = &mut items[sorted..];
    let count = target - sorted;
    if count < rest.len() {
        rest.select_nth_unstable_by(count - 1, &order);
    }
    rest[..count].sort_unstable_by(&order);
    target
}

/// Softmax of a set of logits: their maximum and the sum of `exp(logit - max)`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    pub max: f32,
    pub sum: f64,
}

impl Softmax {
    /// `exp(logit - max)`: the probability before division by the sum.
    pub fn weight(self, logit: f32) -> f64 {
        f64::from((logit - self.max).exp())
    }

    /// Probability of a token with this logit.
    pub fn probability(self, logit: f32) -> f64 {
        self.weight(logit) / self.sum
    }
}

/// Remaining tokens; never empty once loaded with a finite logit.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    items: Vec<Candidate>,
    /// Leading items that are in rank order and rank above all others.
    sorted: usize,
}

impl Candidates {
    /// Starts over with every token.
    pub fn load_all(&mut self, logits: &[f32]) {
        self.items.clear();
        self.items.extend(numbered(logits));
        self.sorted = 0;
    }

    /// Starts over with the `k` best tokens, in rank order.
    ///
    /// Collects what beats the k-th best so far in a small buffer and thins that when it is full, so
    /// that nearly all of the vocabulary costs one comparison each.
    pub fn load_top_k(&mut self, logits: &[f32], k: usize) {
        let k = k.min(logits.len());
        let capacity = (4 * k).max(256);
        self.items.clear();
        self.items.reserve(capacity);
        let mut floor = f32::NEG_INFINITY;
        for candidate in numbered(logits) {
            // Equal logits rank by id, and ids ascend: an equal one comes too late.
            if candidate.logit > floor || self.items.len() < k {
                if self.items.len() == capacity {
                    floor = self.thin(k);
                    if candidate.logit <= floor {
                        continue;
                    }
                }
                self.items.push(candidate);
            }
        }
        self.sorted = 0;
        self.truncate_to_best(k);
    }

    /// Drops all but the `k` best of more than `k` items; returns the worst remaining logit.
    fn thin(&mut self, k: usize) -> f32 {
        let Some(last) = k.checked_sub(1) else {
            self.items.clear();
            return f32::INFINITY;
        };
        let (_, kth, _) = self.items.select_nth_unstable_by(last, by_rank);
        let floor = kth.logit;
        self.items.truncate(k);
        floor
    }

    /// Keeps the `k` best, in rank order.
    pub fn truncate_to_best(&mut self, k: usize) {
        self.sort_prefix(k);
        self.items.truncate(k);
        self.sorted = self.sorted.min(self.items.len());
    }

    /// Makes sure that the `n` best are in front, in rank order.
    pub fn sort_prefix(&mut self, n: usize) {
        self.sorted = extend_sorted(&mut self.items, self.sorted, n, by_rank);
    }

    /// The tokens; the prefix asked of [`Candidates::sort_prefix`] is in rank order.
    pub fn items(&self) -> &[Candidate] {
        &self.items
    }

    /// Keeps what satisfies `keep`, in the present order.
    pub fn retain(&mut self, mut keep: impl FnMut(&Candidate) -> bool) {
        let mut index = 0;
        let mut kept_sorted = 0;
        let sorted = self.sorted;
        self.items.retain(|candidate| {
            let kept = keep(candidate);
            kept_sorted += usize::from(kept && index < sorted);
            index += 1;
            kept
        });
        self.sorted = kept_sorted;
    }

    /// Drops the `n` best, which must be in front in rank order.
    pub fn drop_best(&mut self, n: usize) {
        self.items.drain(..n);
        self.sorted = self.sorted.saturating_sub(n);
    }

    /// Replaces every logit by an ascending function of it.
    pub fn map_logits(&mut self, f: impl Fn(f32) -> f32) {
        for candidate in &mut self.items {
            candidate.logit = f(candidate.logit);
        }
    }

    /// The best token.
    pub fn best(&self) -> Option<Candidate> {
        if self.sorted > 0 {
            return self.items.first().copied();
        }
        self.items.iter().copied().min_by(by_rank)
    }

    /// Softmax over the remaining tokens.
    pub fn softmax(&self) -> Softmax {
        let max = self.best().map_or(f32::NEG_INFINITY, |c| c.logit);
        let sum = self
            .items
            .iter()
            .map(|c| f64::from((c.logit - max).exp()))
            .sum();
        Softmax { max, sum }
    }
}

fn numbered(logits: &[f32]) -> impl Iterator<Item = Candidate> {
    (0u32..)
        .zip(logits)
        .map(|(id, &logit)| Candidate { id, logit })
}

#[cfg(test)]
impl Candidates {
    /// Tokens `0..` with these probabilities.
    pub fn of_probabilities(probabilities: &[f64]) -> Self {
        let logits: Vec<f32> = probabilities.iter().map(|p| p.ln() as f32).collect();
        Self::of_logits(&logits)
    }

    pub fn of_logits(logits: &[f32]) -> Self {
        let mut candidates = Candidates::default();
        candidates.load_all(logits);
        candidates
    }

    /// Remaining ids, ascending.
    pub fn ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.items.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A permutation of `0..n` scaled to logits: `n` must be prime to 7919.
    fn permuted(n: u32) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919) % n) as f32 * 0.25).collect()
    }

    #[test]
    fn top_k_of_a_permutation_is_its_largest_values_in_order() {
        let logits = permuted(10_000);
        for k in [1, 3, 40, 64, 65, 300, 5000, 10_000, 20_000] {
            let mut candidates = Candidates::default();
            candidates.load_top_k(&logits, k);
            let values: Vec<f32> = candidates.items().iter().map(|c| c.logit).collect();
            let expected: Vec<f32> = (0..k.min(10_000))
                .map(|i| (9_999 - i) as f32 * 0.25)
                .collect();
            assert_eq!(values, expected, "k = {k}");
            for c in candidates.items() {
                assert_eq!(logits[c.id as usize], c.logit);
            }
        }
    }

    #[test]
    fn equal_logits_keep_the_lowest_ids() {
        let mut candidates = Candidates::default();
        let mut logits = vec![1.0; 5000];
        logits[4000] = 2.0;
        candidates.load_top_k(&logits, 3);
        let ids: Vec<u32> = candidates.items().iter().map(|c| c.id).collect();
        assert_eq!(ids, [4000, 0, 1]);
        candidates.load_top_k(&[f32::NEG_INFINITY; 3000], 2);
        assert_eq!(candidates.ids(), [0, 1]);
    }

    #[test]
    fn sorting_further_and_further_never_disturbs_the_prefix() {
        let mut candidates = Candidates::of_logits(&permuted(5000));
        for n in [1, 2, 63, 64, 65, 700, 4999, 5000] {
            candidates.sort_prefix(n);
            for (i, c) in candidates.items()[..n].iter().enumerate() {
                assert_eq!(c.logit, (4999 - i) as f32 * 0.25);
            }
        }
    }

    #[test]
    fn retain_keeps_track_of_the_sorted_prefix() {
        let mut candidates = Candidates::of_logits(&permuted(1000));
        candidates.sort_prefix(100);
        candidates.retain(|c| c.logit != 999.0 * 0.25 && c.logit >= 100.0);
        assert_eq!(candidates.items()[0].logit, 998.0 * 0.25);
        assert_eq!(candidates.best().map(|c| c.logit), Some(998.0 * 0.25));
        candidates.sort_prefix(599);
        assert_eq!(candidates.items()[598].logit, 100.0);
        assert_eq!(candidates.items().len(), 599);
    }

    #[test]
    fn softmax_matches_the_formula() {
        let softmax = Candidates::of_logits(&[1.0, 3.0, 2.0]).softmax();
        let z = 1f64.exp() + 2f64.exp() + 3f64.exp();
        assert!((softmax.probability(3.0) - 3f64.exp() / z).abs() < 1e-6);
        assert!((softmax.probability(1.0) - 1f64.exp() / z).abs() < 1e-6);
    }
}
