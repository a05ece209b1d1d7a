//! How many drafted tokens are worth verifying.

/// What one more row of a verification costs, in steps of one row. Measured on the CPU by the example
/// `verification_cost`: see docs/drafting.md.
const ROW_COST: f32 = 0.2;

/// Share of an estimate that one observation makes up.
const WEIGHT: f32 = 1.0 / 8.0;

/// An estimate of how often a drafted token is accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Acceptance(f32);

impl Acceptance {
    /// Nothing is known: as likely as not.
    pub const UNKNOWN: Acceptance = Acceptance(0.5);

    /// Takes into account that a token was accepted or not.
    pub fn observe(&mut self, accepted: bool) {
        let outcome = if accepted { 1.0 } else { 0.0 };
        self.0 += WEIGHT * (outcome - self.0);
    }

    /// The length of draft, at most `most`, that yields the most tokens in a given time.
    ///
    /// With acceptance `p`, a draft of `n` tokens yields `1 + p + ... + p^n` tokens in the time of
    /// `1 + n * ROW_COST` steps. The quotient rises with `n` up to its maximum and falls from there.
    pub fn best_length(self, most: usize) -> usize {
        let (mut length, mut tokens, mut cost) = (0, 1.0, 1.0);
        let mut chance = self.0;
        while length < most && chance * cost > ROW_COST * tokens {
            length += 1;
            tokens += chance;
            cost += ROW_COST;
            chance *= self.0;
        }
        length
    }
}
