//! Values of nodes as they are computed. It costs nothing when off.

use crate::backend::{Backend, BackendError, BufferId, Operand};
use crate::error::GraphError;
use crate::ir::Node;
use crate::run::read_value;

/// Bytes of values that wait on a backend for the end of a split; with more, the split runs in parts.
const MOST_KEPT: usize = 256 << 20;

/// Value of a node right after it ran.
#[derive(Clone, Copy, Debug)]
pub struct TracedValue<'a> {
    /// The node.
    pub node: &'a Node,
    /// Name of the backend that ran it.
    pub backend: &'a str,
    /// `rows` rows of `node.width` features.
    pub values: &'a [f32],
    /// Rows in this step.
    pub rows: usize,
}

/// Receives the values of nodes, in the order that they run. KV regions are no values: of a store, its rows are.
///
/// A backend that enqueues copies them aside ([`Backend::capture`]), so that they arrive at the end of a split.
pub trait Trace: Send {
    /// Whether to read this node's value.
    fn wants(&self, _node: &Node) -> bool {
        true
    }

    /// Takes a value.
    fn record(&mut self, value: TracedValue<'_>);
}

impl<F: FnMut(TracedValue<'_>) + Send> Trace for F {
    fn record(&mut self, value: TracedValue<'_>) {
        self(value);
    }
}

/// A value that its backend copied aside.
struct Kept<'a> {
    node: &'a Node,
    value: Operand,
    /// Index of the backend.
    backend: usize,
}

/// Values of the split at hand that its backend has yet to compute.
pub(crate) struct Captures<'a> {
    kept: Vec<Kept<'a>>,
    bytes: usize,
    /// Bytes that are kept at most.
    limit: usize,
    /// The value at hand.
    values: Vec<f32>,
}

impl Default for Captures<'_> {
    fn default() -> Self {
        Captures {
            kept: Vec::new(),
            bytes: 0,
            limit: MOST_KEPT,
            values: Vec::new(),
        }
    }
}

impl<'a> Captures<'a> {
    /// Traces the value of a node that has just run or been enqueued.
    pub fn take(
        &mut self,
        trace: &mut dyn Trace,
        backends: &mut [Box<dyn Backend>],
        backend: usize,
        node: &'a Node,
        value: Operand,
    ) -> Result<(), GraphError> {
        if !trace.wants(node) {
            return Ok(());
        }
        let device = backends[backend].as_mut();
        let kept = device.capture(value).map_err(failed(node))?;
        let Some(buffer) = kept else {
            self.finish(trace, backends)?;
            return self.record(trace, backends[backend].as_mut(), node, value);
        };
        self.kept.push(Kept {
            node,
            value: packed(value, buffer),
            backend,
        });
        self.bytes += 4 * value.width * value.rows.total();
        match self.bytes > self.limit {
            true => self.finish(trace, backends),
            false => Ok(()),
        }
    }

    /// Traces what is kept. At the end of a split nothing has to be waited for.
    pub fn finish(
        &mut self,
        trace: &mut dyn Trace,
        backends: &mut [Box<dyn Backend>],
    ) -> Result<(), GraphError> {
        let kept = std::mem::take(&mut self.kept);
        let mut result = Ok(());
        for kept in kept {
            let device = backends[kept.backend].as_mut();
            if result.is_ok() {
                result = self.record(trace, device, kept.node, kept.value);
            }
            device.free(kept.value.buffer);
        }
        self.bytes = 0;
        result
    }

    /// Gives the buffers back unread.
    pub fn release(&mut self, backends: &mut [Box<dyn Backend>]) {
        for kept in self.kept.drain(..) {
            backends[kept.backend].free(kept.value.buffer);
        }
    }

    fn record(
        &mut self,
        trace: &mut dyn Trace,
        device: &mut dyn Backend,
        node: &Node,
        value: Operand,
    ) -> Result<(), GraphError> {
        let rows = value.rows.total();
        self.values.resize(value.width * rows, 0.0);
        read_value(device, value, &mut self.values).map_err(failed(node))?;
        trace.record(TracedValue {
            node,
            backend: device.name(),
            values: &self.values,
            rows,
        });
        Ok(())
    }
}

/// A value whose rows lie one after another in a buffer of its own.
fn packed(value: Operand, buffer: BufferId) -> Operand {
    Operand {
        buffer,
        offset: 0,
        stride: value.width,
        ..value
    }
}

fn failed(node: &Node) -> impl FnOnce(BackendError) -> GraphError {
    GraphError::backend(|| format!("tracing {}", node.name))
}

#[cfg(test)]
mod tests;
