//! Bounds the command buffers of a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the command buffers that have not completed.
#[derive(Debug, Default)]
pub(in crate::device) struct Slots(Arc<AtomicUsize>);

impl Slots {
    /// How many are given out.
    pub(in crate::device) const MOST: usize = 32;

    /// A slot, until it is dropped; `None` when all are taken.
    pub(in crate::device) fn take(&self) -> Option<Slot> {
        let another = |taken| (taken < Self::MOST).then_some(taken + 1);
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, another);
        taken.ok().map(|_| Slot(Arc::clone(&self.0)))
    }
}

/// One of the command buffers that count.
#[derive(Debug)]
pub(in crate::device) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_has_room_after_one_has_completed() {
        let slots = Slots::default();
        let mut taken: Vec<Slot> = (0..32).map(|_| slots.take().unwrap()).collect();
        assert!(slots.take().is_none());
        taken.pop();
        taken.push(slots.take().unwrap());
        assert!(slots.take().is_none());
        drop(taken);
        assert_eq!(
            (0..40)
                .map_while(|_| slots.take().map(std::mem::forget))
                .count(),
            32
        );
    }
}
