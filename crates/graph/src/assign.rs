//! Placement: which backend runs each node.

use std::collections::BTreeMap;

use crate::backend::Backend;
use crate::error::GraphError;
use crate::ir::{Graph, Node, Op};
use crate::kv::KvRegions;
use crate::weights::WeightCatalog;

/// Where the caller would like a node to run: an index into the executor's backends, or no wish.
pub type Preference = dyn Fn(&Graph, &Node) -> Option<usize> + Send;

/// Layer of a node or weight by its name, `blk.<layer>.…`; `None` outside the layers.
pub fn layer_of(name: &str) -> Option<usize> {
    let (layer, _) = name.strip_prefix("blk.")?.split_once('.')?;
    layer.parse().ok()
}

/// What placement depends on besides the graph.
pub(crate) struct Placement<'a> {
    pub backends: &'a [Box<dyn Backend>],
    pub catalog: &'a WeightCatalog,
    pub kv: &'a KvRegions,
    pub prefer: Option<&'a Preference>,
}

impl Placement<'_> {
    /// The backend of every node.
    ///
    /// A node goes to the preferred backend if that one accepts it, else to the first that does. All
    /// users of a layer's KV region go together. Views follow their source, inputs their first consumer.
    pub fn assign(&self, graph: &Graph) -> Result<Vec<usize>, GraphError> {
        let regions = self.assign_regions(graph)?;
        let mut assigned = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let backend = match (&node.op, node.op.kv_layer()) {
                (Op::Input(_), _) => 0,
                (Op::View { .. }, _) => assigned[node.inputs[0].0 as usize],
                (_, Some(layer)) => regions[&layer],
                _ => self.choose(graph, &[node])?,
            };
            assigned.push(backend);
        }
        inputs_follow_consumers(graph, &mut assigned);
        Ok(assigned)
    }

    /// Backend of each layer that has KV nodes.
    fn assign_regions(&self, graph: &Graph) -> Result<BTreeMap<usize, usize>, GraphError> {
        let mut users: BTreeMap<usize, Vec<&Node>> = BTreeMap::new();
        for node in &graph.nodes {
            if let Some(layer) = node.op.kv_layer() {
                users.entry(layer).or_default().push(node);
            }
        }
        let chosen = |(layer, nodes): (usize, Vec<&Node>)| {
            self.kv.bytes(layer)?;
            Ok((layer, self.choose(graph, &nodes)?))
        };
        users.into_iter().map(chosen).collect()
    }

    /// The first backend, the preferred one ahead, that accepts all of `nodes`.
    fn choose(&self, graph: &Graph, nodes: &[&Node]) -> Result<usize, GraphError> {
        let preferred = self.prefer.and_then(|prefer| prefer(graph, nodes[0]));
        let order = preferred.into_iter().chain(0..self.backends.len());
        let mut refusals: Vec<(usize, &Node, String)> = Vec::new();
        for backend in order {
            let refused = nodes.iter().find_map(|node| {
                let reason = self.refusal(backend, graph, node)?;
                Some((backend, *node, reason))
            });
            let Some(refused) = refused else {
                if let Some((_, node, reason)) = refusals.first() {
                    let to = self.backends[backend].name();
                    tracing::debug!(node = node.name, to, reason, "placed on a later choice");
                }
                return Ok(backend);
            };
            if !refusals.iter().any(|(seen, ..)| *seen == backend) {
                refusals.push(refused);
            }
        }
        Err(self.unplaced(graph, nodes[0], &refusals))
    }

    /// Why a backend cannot run a node; `None` if it can.
    fn refusal(&self, backend: usize, graph: &Graph, node: &Node) -> Option<String> {
        let Some(device) = self.backends.get(backend) else {
            let count = self.backends.len();
            return Some(format!("is preferred, but there are only {count} backends"));
        };
        if !device.supports(graph, node) {
            return Some(device.refusal(graph, node));
        }
        if let Op::Attention(attention) = &node.op
            && !device.reads_window(attention.window)
        {
            return Some(format!("cannot read {:?} windows", attention.window));
        }
        let layer = node.op.kv_layer()?;
        self.kv.refusal(layer, backend, device.as_ref())
    }

    fn unplaced(
        &self,
        graph: &Graph,
        node: &Node,
        refusals: &[(usize, &Node, String)],
    ) -> GraphError {
        let describe = |(backend, at, reason): &(usize, &Node, String)| {
            let name = self.backends.get(*backend).map_or("?", |b| b.name());
            match at.name == node.name {
                true => format!("{name}[{backend}]: {reason}"),
                false => format!("{name}[{backend}]: {reason} (node {})", at.name),
            }
        };
        let weights = node.op.weights().into_iter().map(|id| {
            let name = graph.weight_name(id);
            let ty = self.catalog.get(name).map(|info| info.ty.name());
            format!(", {name} {}", ty.unwrap_or("not registered"))
        });
        GraphError::Unplaced {
            node: node.name.clone(),
            op: node.op.name(),
            weights: weights.collect(),
            refusals: match refusals {
                [] => "there is no backend".into(),
                refusals => refusals.iter().map(describe).collect::<Vec<_>>().join("; "),
            },
        }
    }
}

pub(crate) fn inputs_follow_consumers(graph: &Graph, assigned: &mut [usize]) {
    // Backwards, so that the first consumer decides and a view of an input is settled before it.
    for (i, node) in graph.nodes.iter().enumerate().rev() {
        for input in &node.inputs {
            let input = input.0 as usize;
            let movable = matches!(graph.nodes[input].op, Op::Input(_) | Op::View { .. });
            if movable && source(graph, input).is_some() {
                assigned[input] = assigned[i];
            }
        }
    }
}

/// The input node that `node` is or views.
fn source(graph: &Graph, mut node: usize) -> Option<usize> {
    loop {
        match graph.nodes[node].op {
            Op::Input(_) => return Some(node),
            Op::View { .. } => node = graph.nodes[node].inputs[0].0 as usize,
            _ => return None,
        }
    }
}
