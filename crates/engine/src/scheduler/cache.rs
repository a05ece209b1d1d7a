//! Sequences of ended requests.

use minfer_graph::SequenceId;

use super::{Scheduler, release};

impl Scheduler {
    /// Keeps the sequence of a request that ended, without its reserve, in place of those that it continues.
    pub(super) fn keep(&mut self, sequence: SequenceId) {
        let len = self.engine.tokens(sequence).len();
        if len == 0 || self.engine.truncate_sequence(sequence, len).is_err() {
            release(&mut self.engine, sequence);
            return;
        }
        let cached = std::mem::take(&mut self.cached).into_iter();
        let (shorter, mut cached): (Vec<_>, Vec<_>) =
            cached.partition(|&other| self.continues(sequence, other));
        for sequence in shorter {
            release(&mut self.engine, sequence);
        }
        cached.push(sequence);
        self.cached = cached;
    }

    /// Whether `sequence` starts with all rows of `other`.
    fn continues(&self, sequence: SequenceId, other: SequenceId) -> bool {
        let common = self.computed(sequence).common(self.computed(other), false);
        common == self.engine.tokens(other).len()
    }

    /// Notes that a sequence was of use.
    pub(super) fn touch(&mut self, sequence: SequenceId) {
        if let Some(index) = self.cached.iter().position(|&cached| cached == sequence) {
            self.cached[index..].rotate_left(1);
        }
    }

    /// Keeps only the first `keep` tokens of a cached sequence.
    pub(super) fn evict(&mut self, index: usize, keep: usize) {
        let sequence = self.cached[index];
        if keep == 0 || self.engine.truncate_sequence(sequence, keep).is_err() {
            self.cached.remove(index);
            release(&mut self.engine, sequence);
        }
        self.statistics.evictions += 1;
    }
}
