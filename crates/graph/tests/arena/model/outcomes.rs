//! What the operations met.

/// How often something was met.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    pub full: usize,
    pub too_many_runs: usize,
    pub gathered: usize,
    pub gathered_too_many: usize,
    pub unsharing_gathers: usize,
    pub refused_gathers: usize,
    pub copies: usize,
    pub overlapping_down: usize,
    pub overlapping_up: usize,
    pub rotations: usize,
    pub shared_shifts: usize,
    pub causal: usize,
    pub span: usize,
    pub map: usize,
}

impl Outcomes {
    fn counts(&mut self) -> [&mut usize; 14] {
        [
            &mut self.full,
            &mut self.too_many_runs,
            &mut self.gathered,
            &mut self.gathered_too_many,
            &mut self.unsharing_gathers,
            &mut self.refused_gathers,
            &mut self.copies,
            &mut self.overlapping_down,
            &mut self.overlapping_up,
            &mut self.rotations,
            &mut self.shared_shifts,
            &mut self.causal,
            &mut self.span,
            &mut self.map,
        ]
    }

    pub fn add(&mut self, other: &Outcomes) {
        let mut other = other.clone();
        for (count, more) in self.counts().into_iter().zip(other.counts()) {
            *count += *more;
        }
    }

    pub fn all_positive(&self) -> bool {
        self.clone().counts().iter().all(|count| **count > 0)
    }
}
