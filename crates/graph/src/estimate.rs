//! Memory of plans that are not made yet.

use std::collections::BTreeMap;

use crate::alloc;
use crate::assign::inputs_follow_consumers;
use crate::error::GraphError;
use crate::ir::{Graph, GraphParams, Node, Op};
use crate::schedule::Schedule;

/// Bytes of the activation buffers on each of `backends` backends that plans for all of `graphs` share, when `place`
/// says where a node runs. KV regions are not among them. Fusion, which comes after placement, makes plans smaller.
///
/// # Errors
/// A value too large to be addressed.
pub fn buffer_bytes(
    graphs: &[(GraphParams, Graph)],
    backends: usize,
    place: impl Fn(&Node) -> usize,
) -> Result<Vec<u64>, GraphError> {
    // Plans take turns, so of each size the most that one of them needs.
    let mut most: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for (params, graph) in graphs {
        let assigned = assigned(graph, &place);
        let schedule = Schedule::new(graph, &assigned);
        let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for slot in alloc::plan(graph, &assigned, &schedule, params)?.slots {
            *counts.entry((slot.backend, slot.bytes)).or_default() += 1;
        }
        for (size, count) in counts {
            let known = most.entry(size).or_default();
            *known = count.max(*known);
        }
    }
    let mut bytes = vec![0u64; backends];
    for ((backend, size), count) in most {
        if let Some(total) = bytes.get_mut(backend) {
            *total = total.saturating_add(count.saturating_mul(size as u64));
        }
    }
    Ok(bytes)
}

fn assigned(graph: &Graph, place: &impl Fn(&Node) -> usize) -> Vec<usize> {
    let mut assigned = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        assigned.push(match node.op {
            Op::Input(_) => 0,
            Op::View { .. } => assigned[node.inputs[0].0 as usize],
            _ => place(node),
        });
    }
    inputs_follow_consumers(graph, &mut assigned);
    assigned
}
