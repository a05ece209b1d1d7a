//! Splits an assigned graph into runs of nodes on one backend and finds the copies between them.

use std::ops::Range;

use crate::ir::{Graph, Node, Op};

/// A value as one backend sees it: its own, or a copy of another backend's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Resident {
    /// Node whose buffer holds the value: never one that shares its input's.
    pub node: usize,
    /// Backend of the buffer.
    pub backend: usize,
}

/// A run of nodes on one backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// The backend.
    pub backend: usize,
    /// Indices into [`Schedule::executed`].
    pub range: Range<usize>,
    /// Nodes whose values are copied here before the split runs, each from its own backend.
    pub copies: Vec<usize>,
}

/// What runs where, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Nodes that a backend executes: all but inputs and views.
    pub executed: Vec<usize>,
    /// Consecutive runs of `executed`.
    pub splits: Vec<Split>,
    /// For each node, the node that owns the memory of its value.
    pub owner: Vec<usize>,
    /// For each node, the first feature of its value within the owner's rows.
    pub offset: Vec<usize>,
    /// Host inputs, once for each backend that reads them.
    pub inputs: Vec<Resident>,
}

impl Schedule {
    /// Plans the graph's nodes in build order.
    pub fn new(graph: &Graph, assigned: &[usize]) -> Self {
        let mut schedule = Schedule::default();
        schedule.find_owners(graph);
        let mut copied: Vec<Resident> = Vec::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            if !is_executed(node) {
                continue;
            }
            let backend = assigned[i];
            schedule.extend_splits(i, backend);
            for input in &node.inputs {
                let owner = schedule.owner[input.0 as usize];
                let resident = Resident {
                    node: owner,
                    backend,
                };
                if matches!(graph.nodes[owner].op, Op::Input(_)) {
                    if !schedule.inputs.contains(&resident) {
                        schedule.inputs.push(resident);
                    }
                } else if assigned[owner] != backend && !copied.contains(&resident) {
                    copied.push(resident);
                    if let Some(split) = schedule.splits.last_mut() {
                        split.copies.push(owner);
                    }
                }
            }
        }
        schedule.add_output_inputs(graph, assigned);
        schedule
    }

    fn find_owners(&mut self, graph: &Graph) {
        for (i, node) in graph.nodes.iter().enumerate() {
            let (owner, offset) = match node.op.shares_input() {
                true => {
                    let source = node.inputs[0].0 as usize;
                    (self.owner[source], self.offset[source])
                }
                false => (i, 0),
            };
            let within = match node.op {
                Op::View { offset } => offset,
                _ => 0,
            };
            self.owner.push(owner);
            self.offset.push(offset + within);
        }
    }

    fn extend_splits(&mut self, node: usize, backend: usize) {
        let at = self.executed.len();
        self.executed.push(node);
        match self.splits.last_mut() {
            Some(split) if split.backend == backend => split.range.end = at + 1,
            _ => self.splits.push(Split {
                backend,
                range: at..at + 1,
                copies: Vec::new(),
            }),
        }
    }

    /// An input that is itself an output needs a buffer to be read from.
    fn add_output_inputs(&mut self, graph: &Graph, assigned: &[usize]) {
        for output in &graph.outputs {
            // A view of an input may be on another backend than the input's first consumer.
            let node = self.owner[output.0 as usize];
            let resident = Resident {
                node,
                backend: assigned[output.0 as usize],
            };
            let is_input = matches!(graph.nodes[node].op, Op::Input(_));
            if is_input && !self.inputs.contains(&resident) {
                self.inputs.push(resident);
            }
        }
    }
}

fn is_executed(node: &Node) -> bool {
    !matches!(node.op, Op::Input(_) | Op::View { .. })
}
