//! Memory of the backends: budgets, and pooled buffers that all plans share.

use crate::alloc::Slot;
use crate::backend::{Backend, BufferId};
use crate::error::GraphError;

/// Memory a backend has promised and given, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Registered weights.
    pub weights: u64,
    /// Buffers of plans and KV regions.
    pub pooled: u64,
    /// Most that may be used in all; `None` when unknown.
    pub budget: Option<u64>,
}

impl MemoryUse {
    /// Checks that `request` more bytes fit the budget of the backend called `name`.
    pub(crate) fn admit(&self, name: &str, request: u64) -> Result<(), GraphError> {
        let total = self
            .weights
            .checked_add(self.pooled)
            .and_then(|used| used.checked_add(request));
        match self.budget {
            Some(budget) if total.is_none_or(|total| total > budget) => Err(GraphError::Budget {
                backend: name.to_owned(),
                weights: self.weights,
                pooled: self.pooled,
                request,
                budget,
            }),
            _ => Ok(()),
        }
    }
}

/// Buffers of one size class on one backend, given to each plan in order.
#[derive(Debug)]
struct Class {
    slot: Slot,
    buffers: Vec<BufferId>,
}

/// Activation buffers. Only one plan runs at a time, so plans share them; they are never released.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    classes: Vec<Class>,
}

impl Pool {
    /// Bytes that must be allocated on `backend` before a plan with these slots can be bound.
    pub fn missing(&self, slots: &[Slot], backend: usize) -> u64 {
        let mut kinds: Vec<Slot> = slots.to_vec();
        kinds.retain(|slot| slot.backend == backend);
        kinds.sort_by_key(|slot| slot.bytes);
        kinds
            .chunk_by(|a, b| a == b)
            .map(|same| {
                let missing = same.len().saturating_sub(self.count(same[0]));
                missing as u64 * same[0].bytes as u64
            })
            .sum()
    }

    /// A buffer for each slot, allocating what is missing. `memory` is indexed by backend.
    pub fn bind(
        &mut self,
        slots: &[Slot],
        backends: &mut [Box<dyn Backend>],
        memory: &mut [MemoryUse],
    ) -> Result<Vec<BufferId>, GraphError> {
        let mut given = vec![0usize; self.classes.len()];
        let mut bound = Vec::with_capacity(slots.len());
        for &slot in slots {
            let class = self.class(slot);
            given.resize(self.classes.len(), 0);
            let buffers = &mut self.classes[class].buffers;
            if given[class] == buffers.len() {
                let buffer = allocate(&mut backends[slot.backend], slot.bytes)?;
                buffers.push(buffer);
                memory[slot.backend].pooled += slot.bytes as u64;
            }
            bound.push(buffers[given[class]]);
            given[class] += 1;
        }
        Ok(bound)
    }

    fn count(&self, slot: Slot) -> usize {
        let class = self.classes.iter().find(|class| class.slot == slot);
        class.map_or(0, |class| class.buffers.len())
    }

    fn class(&mut self, slot: Slot) -> usize {
        let known = self.classes.iter().position(|class| class.slot == slot);
        known.unwrap_or_else(|| {
            let buffers = Vec::new();
            self.classes.push(Class { slot, buffers });
            self.classes.len() - 1
        })
    }
}

/// A buffer, with an error that says how much was asked for.
pub(crate) fn allocate(
    backend: &mut Box<dyn Backend>,
    bytes: usize,
) -> Result<BufferId, GraphError> {
    backend
        .alloc(bytes)
        .map_err(GraphError::backend(|| format!("allocating {bytes} bytes")))
}
