//! A plan as text: DOT for a picture, JSON for tools.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::ir::{Node, Op, Rows};
use crate::plan::Plan;
use crate::schedule::Resident;

/// A planned graph with its splits and buffers.
pub struct GraphDump<'a> {
    plan: &'a Plan,
    backends: Vec<&'a str>,
}

impl<'a> GraphDump<'a> {
    pub(crate) fn new(plan: &'a Plan, backends: Vec<&'a str>) -> Self {
        GraphDump { plan, backends }
    }

    /// The planned graph, after fusion.
    pub fn graph(&self) -> &'a crate::ir::Graph {
        &self.plan.graph
    }

    /// Backend index of each node.
    pub fn assigned(&self) -> &'a [usize] {
        &self.plan.assigned
    }

    /// Graphviz source: a box per split, an edge per input.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph plan {\n  node [shape=box, fontsize=10];\n");
        for (i, node) in self.nodes() {
            let label = format!("{}\\n{} {}", node.name, node.op.name(), shape(node));
            let _ = writeln!(dot, "  n{i} [label=\"{label}\"];");
        }
        for (s, split) in self.plan.schedule.splits.iter().enumerate() {
            let backend = self.backend(split.backend);
            let _ = writeln!(dot, "  subgraph cluster_{s} {{ label=\"{s}: {backend}\";");
            for i in &self.plan.schedule.executed[split.range.clone()] {
                let _ = write!(dot, " n{i};");
            }
            dot.push_str(" }\n");
        }
        for (i, node) in self.nodes() {
            for input in &node.inputs {
                let _ = writeln!(dot, "  n{} -> n{i};", input.0);
            }
        }
        dot.push_str("}\n");
        dot
    }

    /// `{"params", "nodes", "splits", "buffers", "outputs"}`; nodes and buffers refer to each other by
    /// index.
    pub fn to_json(&self) -> Value {
        let plan = self.plan;
        let splits = plan.schedule.splits.iter().map(|split| {
            json!({
                "backend": self.backend(split.backend),
                "copies": split.copies,
                "nodes": plan.schedule.executed[split.range.clone()],
            })
        });
        let buffers = plan
            .memory
            .slots
            .iter()
            .map(|slot| json!({ "backend": self.backend(slot.backend), "bytes": slot.bytes }));
        json!({
            "params": format!("{:?}", plan.params),
            "nodes": self.nodes().map(|(i, node)| self.node_json(i, node)).collect::<Vec<_>>(),
            "splits": splits.collect::<Vec<_>>(),
            "buffers": buffers.collect::<Vec<_>>(),
            "outputs": plan.graph.outputs.iter().map(|id| id.0).collect::<Vec<_>>(),
        })
    }

    fn node_json(&self, i: usize, node: &Node) -> Value {
        let plan = self.plan;
        let resident = Resident {
            node: plan.schedule.owner[i],
            backend: plan.assigned[i],
        };
        let weights = node.op.weights();
        let weights = weights.iter().map(|id| plan.graph.weight_name(*id));
        json!({
            "name": node.name,
            "op": node.op.name(),
            "inputs": node.inputs.iter().map(|id| id.0).collect::<Vec<_>>(),
            "shape": shape(node),
            "dtype": format!("{:?}", node.dtype),
            "weights": weights.collect::<Vec<_>>(),
            "backend": self.backend(plan.assigned[i]),
            "buffer": plan.memory.slot_of.get(&resident),
            "in_place": plan.memory.in_place[i].is_some() || matches!(node.op, Op::KvStore { .. }),
        })
    }

    fn nodes(&self) -> impl Iterator<Item = (usize, &'a Node)> {
        self.plan.graph.nodes.iter().enumerate()
    }

    fn backend(&self, index: usize) -> &'a str {
        self.backends.get(index).copied().unwrap_or("?")
    }
}

fn shape(node: &Node) -> String {
    let rows = match node.rows {
        Rows::Tokens => "tokens".to_owned(),
        Rows::Outputs => "outputs".to_owned(),
        Rows::Fixed(n) => n.to_string(),
    };
    format!("[{}, {rows}]", node.width)
}
