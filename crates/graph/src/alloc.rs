//! Memory planning: which buffer holds each value, and how long.
//!
//! Values live from the node that writes them to the last node that reads them, in execution order.
//! Buffers come in size classes; a value's buffer goes back to its class's free list after its last
//! reader. Never recycled within a step: inputs, outputs and copies of another backend's values.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::error::GraphError;
use crate::ir::{Graph, GraphParams, Node, NodeId, Op, Rows};
use crate::schedule::{Resident, Schedule};

/// A buffer a plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Backend it lives on.
    pub backend: usize,
    /// Its size, a size class.
    pub bytes: usize,
}

/// Buffers of a plan and the values in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryPlan {
    /// All buffers; at any moment a buffer holds one value.
    pub slots: Vec<Slot>,
    /// Index into `slots` for each value and each of its copies.
    pub slot_of: HashMap<Resident, usize>,
    /// For each node, the earlier node whose buffer it overwrites, if it runs in place.
    pub in_place: Vec<Option<usize>>,
}

/// Rounds up to one of four classes per power of two, at least 256 bytes: at most a quarter is lost.
pub(crate) fn size_class(bytes: usize) -> Option<usize> {
    let bytes = bytes.max(256);
    let step = bytes.checked_next_power_of_two()? / 8;
    bytes.checked_next_multiple_of(step)
}

/// Bytes of a node's value at the capacity of the plan; `None` when they overflow.
pub(crate) fn capacity_bytes(graph: &Graph, node: usize, params: &GraphParams) -> Option<usize> {
    let node = &graph.nodes[node];
    let rows = match node.rows {
        Rows::Tokens => params.max_tokens,
        Rows::Outputs => params.max_outputs,
        Rows::Fixed(n) => n,
    };
    node.width
        .checked_mul(rows)?
        .checked_mul(node.dtype.bytes())
}

/// Plans the buffers of a graph.
pub(crate) fn plan(
    graph: &Graph,
    assigned: &[usize],
    schedule: &Schedule,
    params: &GraphParams,
) -> Result<MemoryPlan, GraphError> {
    let in_place = in_place(graph, assigned);
    let mut allocator = Allocator {
        graph,
        params,
        memory: MemoryPlan::default(),
        free: HashMap::new(),
    };
    for &input in &schedule.inputs {
        allocator.assign_new(input)?;
    }
    for split in &schedule.splits {
        for &node in &split.copies {
            let backend = split.backend;
            allocator.assign_new(Resident { node, backend })?;
        }
    }
    let releases = releases(graph, schedule, &in_place);
    for &node in &schedule.executed {
        if schedule.owner[node] == node {
            let backend = assigned[node];
            allocator.assign(Resident { node, backend }, in_place[node])?;
        }
        for &node in &releases[node] {
            let backend = assigned[node];
            allocator.release(Resident { node, backend });
        }
    }
    allocator.memory.in_place = in_place;
    Ok(allocator.memory)
}

/// For each node, the input whose buffer it may overwrite: its first, if nothing else reads that value
/// and the shapes and backends agree.
fn in_place(graph: &Graph, assigned: &[usize]) -> Vec<Option<usize>> {
    let mut readers = vec![0usize; graph.nodes.len()];
    let reads = graph.nodes.iter().flat_map(|node| &node.inputs);
    for id in reads.chain(&graph.outputs) {
        readers[id.0 as usize] += 1;
    }
    let target = |(i, node): (usize, &Node)| {
        let source = node.inputs.first()?.0 as usize;
        let value = &graph.nodes[source];
        let shape_fits =
            (value.width, value.rows, value.dtype) == (node.width, node.rows, node.dtype);
        let owns_memory = !value.op.shares_input() && !matches!(value.op, Op::Input(_));
        let fits = node.op.runs_in_place()
            && shape_fits
            && owns_memory
            && readers[source] == 1
            && assigned[source] == assigned[i];
        fits.then_some(source)
    };
    graph.nodes.iter().enumerate().map(target).collect()
}

/// For each node, the nodes whose buffers nothing reads or writes after it.
fn releases(graph: &Graph, schedule: &Schedule, in_place: &[Option<usize>]) -> Vec<Vec<usize>> {
    // The node that got the buffer which a node's value ends up in.
    let mut root: Vec<usize> = Vec::with_capacity(graph.nodes.len());
    for i in 0..graph.nodes.len() {
        let owner = schedule.owner[i];
        root.push(match in_place[owner] {
            Some(source) => root[source],
            None if owner == i => i,
            None => root[owner],
        });
    }
    let mut last: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for &i in &schedule.executed {
        last[root[i]] = Some(i);
        for input in &graph.nodes[i].inputs {
            last[root[input.0 as usize]] = Some(i);
        }
    }
    for NodeId(output) in &graph.outputs {
        last[root[*output as usize]] = None;
    }
    let mut releases = vec![Vec::new(); graph.nodes.len()];
    for (node, last) in last.into_iter().enumerate() {
        let is_input = matches!(graph.nodes[node].op, Op::Input(_));
        if let Some(last) = last.filter(|_| root[node] == node && !is_input) {
            releases[last].push(node);
        }
    }
    releases
}

struct Allocator<'a> {
    graph: &'a Graph,
    params: &'a GraphParams,
    memory: MemoryPlan,
    /// Slots free for reuse, by backend and size class.
    free: HashMap<(usize, usize), Vec<usize>>,
}

impl Allocator<'_> {
    fn class(&self, node: usize) -> Result<usize, GraphError> {
        let bytes = capacity_bytes(self.graph, node, self.params);
        bytes.and_then(size_class).ok_or_else(|| {
            let node = &self.graph.nodes[node];
            GraphError::Parameter {
                node: node.name.clone(),
                op: node.op.name(),
                reason: format!(
                    "the size of [{}, {:?}] at {:?} overflows",
                    node.width, node.rows, self.params
                ),
            }
        })
    }

    /// A buffer used for nothing else in the step.
    fn assign_new(&mut self, value: Resident) -> Result<(), GraphError> {
        let bytes = self.class(value.node)?;
        let backend = value.backend;
        self.memory.slot_of.insert(value, self.memory.slots.len());
        self.memory.slots.push(Slot { backend, bytes });
        Ok(())
    }

    fn assign(&mut self, value: Resident, in_place: Option<usize>) -> Result<(), GraphError> {
        let bytes = self.class(value.node)?;
        let overwritten = in_place.and_then(|node| {
            let source = Resident { node, ..value };
            self.memory.slot_of.get(&source).copied()
        });
        let recycled = || self.free.get_mut(&(value.backend, bytes))?.pop();
        match overwritten.or_else(recycled) {
            Some(slot) => {
                self.memory.slot_of.insert(value, slot);
                Ok(())
            }
            None => self.assign_new(value),
        }
    }

    fn release(&mut self, value: Resident) {
        if let Some(&slot) = self.memory.slot_of.get(&value) {
            let Slot { backend, bytes } = self.memory.slots[slot];
            self.free.entry((backend, bytes)).or_default().push(slot);
        }
    }
}
