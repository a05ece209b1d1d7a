//! Rewrites groups of nodes into fused ones where the node's backend gains from it.
//!
//! Each rewrite is a match (`swiglu`, `ffn`, `qkv`, `residual`, `norm`) that proposes a [`Rewrite`]; the conditions that
//! make any rewrite safe are checked in one place, [`Pass::allows`].

mod norm;
mod qkv;
mod residual;

use crate::backend::Backend;
use crate::ir::{Graph, GraphParams, Node, NodeId, Op};

/// Applies the enabled rewrites; returns the new graph and its assignment.
pub(crate) fn fuse(
    graph: Graph,
    assigned: Vec<usize>,
    backends: &[Box<dyn Backend>],
    params: &GraphParams,
) -> (Graph, Vec<usize>) {
    let fusion = params.fusion;
    // A norm has one reader only once the projections that share it are one node.
    let matchers: [(bool, Matcher); 5] = [
        (fusion.swiglu, swiglu),
        (fusion.ffn, ffn),
        (fusion.qkv, qkv::qkv),
        (fusion.residual, residual::residual),
        (fusion.norm, norm::norm),
    ];
    let enabled = matchers.iter().filter(|(on, _)| *on);
    enabled.fold((graph, assigned), |(graph, assigned), (_, matcher)| {
        Pass::new(graph, assigned, backends, params).run(*matcher)
    })
}

type Matcher = fn(&Pass<'_>, NodeId) -> Option<Rewrite>;

/// Several nodes to be replaced by one.
struct Rewrite {
    /// The new node. It takes the place of the node the matcher was asked about.
    node: Node,
    /// Other nodes it computes and whose values disappear.
    absorbed: Vec<NodeId>,
    /// An absorbed node whose value is the new node's: its consumers read the new node.
    value: Option<NodeId>,
}

struct Pass<'a> {
    graph: Graph,
    assigned: Vec<usize>,
    backends: &'a [Box<dyn Backend>],
    params: &'a GraphParams,
    /// Consumers of each node, in order.
    consumers: Vec<Vec<NodeId>>,
}

impl<'a> Pass<'a> {
    fn new(
        graph: Graph,
        assigned: Vec<usize>,
        backends: &'a [Box<dyn Backend>],
        params: &'a GraphParams,
    ) -> Self {
        let mut consumers = vec![Vec::new(); graph.nodes.len()];
        for (i, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                consumers[input.0 as usize].push(NodeId(i as u32));
            }
        }
        Pass {
            graph,
            assigned,
            backends,
            params,
            consumers,
        }
    }

    fn run(mut self, matcher: Matcher) -> (Graph, Vec<usize>) {
        let mut removed = vec![false; self.graph.nodes.len()];
        // Where the consumers of a node find its value.
        let mut target: Vec<NodeId> = (0..removed.len() as u32).map(NodeId).collect();
        for at in target.clone() {
            let Some(rewrite) = matcher(&self, at) else {
                continue;
            };
            if !self.allows(at, &rewrite) {
                continue;
            }
            for id in rewrite.absorbed {
                removed[id.0 as usize] = true;
            }
            if let Some(value) = rewrite.value {
                target[value.0 as usize] = at;
            }
            self.graph.nodes[at.0 as usize] = rewrite.node;
        }
        self.compact(&removed, &target)
    }

    fn node(&self, id: NodeId) -> &Node {
        self.graph.node(id)
    }

    fn is_output(&self, id: NodeId) -> bool {
        self.graph.outputs.contains(&id)
    }

    fn consumers(&self, id: NodeId) -> &[NodeId] {
        &self.consumers[id.0 as usize]
    }

    fn backend(&self, id: NodeId) -> usize {
        self.assigned[id.0 as usize]
    }

    /// Whether `id` is read once in the whole graph, and is no output.
    fn is_read_once(&self, id: NodeId) -> bool {
        self.consumers(id).len() == 1 && !self.is_output(id)
    }

    /// Whether all parts are on one backend that gains, and no value that disappears is read elsewhere.
    fn allows(&self, at: NodeId, rewrite: &Rewrite) -> bool {
        let backend = self.backend(at);
        let disappears = |id: NodeId| {
            let inside = |c: &NodeId| *c == at || rewrite.absorbed.contains(c);
            !self.is_output(id) && self.consumers(id).iter().all(inside)
        };
        let replaced = |id: NodeId| self.consumers(id).iter().all(|consumer| *consumer > at);
        let parts_fit = rewrite.absorbed.iter().all(|&id| {
            let same_backend = self.backend(id) == backend;
            let free = match rewrite.value == Some(id) {
                true => replaced(id),
                false => disappears(id),
            };
            same_backend && free
        });
        let device = &self.backends[backend];
        parts_fit
            && device.supports_fused(&self.graph, &rewrite.node, self.params)
            && device.supports(&self.graph, &rewrite.node)
    }

    /// Drops removed nodes and renumbers the rest.
    fn compact(self, removed: &[bool], target: &[NodeId]) -> (Graph, Vec<usize>) {
        let mut next = 0;
        let numbers: Vec<NodeId> = removed
            .iter()
            .map(|&gone| {
                let number = NodeId(next);
                next += u32::from(!gone);
                number
            })
            .collect();
        let renumber = |id: NodeId| numbers[target[id.0 as usize].0 as usize];
        let (mut nodes, mut assigned) = (Vec::new(), Vec::new());
        let kept = removed.iter().map(|gone| !gone);
        for ((mut node, backend), keep) in self.graph.nodes.into_iter().zip(self.assigned).zip(kept)
        {
            if keep {
                node.inputs.iter_mut().for_each(|id| *id = renumber(*id));
                nodes.push(node);
                assigned.push(backend);
            }
        }
        let outputs = self.graph.outputs.into_iter().map(renumber).collect();
        let weights = self.graph.weights;
        let graph = Graph {
            nodes,
            weights,
            outputs,
        };
        (graph, assigned)
    }
}

/// `Mul(Silu(x), y)` or `Mul(y, Silu(x))`.
fn swiglu(pass: &Pass<'_>, at: NodeId) -> Option<Rewrite> {
    let mul = pass.node(at);
    let (Op::Mul, [a, b]) = (&mul.op, mul.inputs.as_slice()) else {
        return None;
    };
    let is_silu = |id: NodeId| pass.node(id).op == Op::Silu && pass.consumers(id).len() == 1;
    let (silu, up) = match (is_silu(*a), is_silu(*b)) {
        (true, _) => (*a, *b),
        (false, true) => (*b, *a),
        _ => return None,
    };
    Some(Rewrite {
        node: Node {
            op: Op::SwiGlu,
            inputs: vec![pass.node(silu).inputs[0], up],
            ..mul.clone()
        },
        absorbed: vec![silu],
        value: None,
    })
}

/// `SwiGlu(MatMul(x), MatMul(x))`.
fn ffn(pass: &Pass<'_>, at: NodeId) -> Option<Rewrite> {
    let swiglu = pass.node(at);
    let (Op::SwiGlu, [a, b]) = (&swiglu.op, swiglu.inputs.as_slice()) else {
        return None;
    };
    let (gate, up) = (pass.node(*a), pass.node(*b));
    match (&gate.op, &up.op) {
        (Op::MatMul { weight: w_gate }, Op::MatMul { weight: w_up })
            if a != b && gate.inputs == up.inputs =>
        {
            Some(Rewrite {
                node: Node {
                    op: Op::FusedFfn {
                        gate: *w_gate,
                        up: *w_up,
                        input_norm: None,
                    },
                    inputs: gate.inputs.clone(),
                    ..swiglu.clone()
                },
                absorbed: vec![*a, *b],
                value: None,
            })
        }
        _ => None,
    }
}
