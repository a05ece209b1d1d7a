//! A graph made ready to run: placed, fused, scheduled, with its buffers bound.

use crate::alloc::{self, MemoryPlan};
use crate::assign::{Placement, Preference};
use crate::backend::{Backend, BufferId, KvRegion, Operand, StepRows};
use crate::error::GraphError;
use crate::fuse;
use crate::ir::{Graph, GraphParams, Input, Op, Rows};
use crate::kv::KvRegions;
use crate::memory::{MemoryUse, Pool, allocate};
use crate::schedule::{Resident, Schedule};
use crate::step::StepLimits;
use crate::weights::WeightCatalog;

/// Most inputs of any operation.
pub(crate) const MAX_INPUTS: usize = 4;

/// An [`Operand`] whose number of rows is known at each step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandSpec {
    pub backend: usize,
    buffer: BufferId,
    offset: usize,
    pub width: usize,
    stride: usize,
    rows: Rows,
}

impl OperandSpec {
    pub fn at(&self, rows: StepRows) -> Operand {
        Operand {
            buffer: self.buffer,
            offset: self.offset,
            width: self.width,
            stride: self.stride,
            rows: rows.of(self.rows),
        }
    }
}

/// One node ready to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedNode {
    /// Index in the graph.
    pub node: usize,
    pub output: OperandSpec,
    /// The first `input_count` are the node's inputs; the rest repeat the output.
    pub inputs: [OperandSpec; MAX_INPUTS],
    pub input_count: usize,
    pub kv: Option<KvRegion>,
}

/// A value that crosses from one backend to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    pub from: OperandSpec,
    pub to: OperandSpec,
}

/// A run of nodes on one backend, after its copies.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSplit {
    pub backend: usize,
    pub copies: Vec<Copy>,
    pub nodes: Vec<PlannedNode>,
}

/// Everything a step needs, computed once.
#[derive(Debug)]
pub(crate) struct Plan {
    pub params: GraphParams,
    pub graph: Graph,
    pub assigned: Vec<usize>,
    pub schedule: Schedule,
    pub memory: MemoryPlan,
    pub limits: StepLimits,
    /// Host values to write, once per backend that reads them.
    pub inputs: Vec<(Input, OperandSpec)>,
    pub splits: Vec<PlannedSplit>,
    pub outputs: Vec<OperandSpec>,
    /// The graph as it was built, for the check that equal parameters build it again.
    pub built: Option<Graph>,
}

/// The executor's state that planning reads and extends.
pub(crate) struct Resources<'a> {
    pub backends: &'a mut [Box<dyn Backend>],
    pub memory: &'a mut [MemoryUse],
    pub pool: &'a mut Pool,
    pub kv: &'a mut KvRegions,
}

impl Plan {
    /// Fuses, schedules and allocates a placed graph.
    pub fn new(
        graph: Graph,
        params: GraphParams,
        assigned: Vec<usize>,
        resources: &mut Resources<'_>,
        limits: impl FnOnce(&Graph, &KvRegions) -> StepLimits,
    ) -> Result<Plan, GraphError> {
        let built = cfg!(debug_assertions).then(|| graph.clone());
        let (graph, assigned) = fuse::fuse(graph, assigned, resources.backends, &params);
        let schedule = Schedule::new(&graph, &assigned);
        let memory = alloc::plan(&graph, &assigned, &schedule, &params)?;
        let buffers = resources.acquire(&graph, &assigned, &memory)?;
        let limits = limits(&graph, resources.kv);
        let mut plan = Plan {
            params,
            graph,
            assigned,
            schedule,
            memory,
            limits,
            inputs: Vec::new(),
            splits: Vec::new(),
            outputs: Vec::new(),
            built,
        };
        plan.bind(&buffers, resources.kv);
        Ok(plan)
    }

    /// Resolves every value to its buffer.
    fn bind(&mut self, buffers: &[BufferId], kv: &KvRegions) {
        let inputs = self.schedule.inputs.iter().filter_map(|resident| {
            let Op::Input(input) = self.graph.nodes[resident.node].op else {
                return None;
            };
            Some((
                input,
                self.operand(buffers, resident.node, resident.backend),
            ))
        });
        self.inputs = inputs.collect();
        let outputs = self.graph.outputs.iter().map(|output| {
            let node = output.0 as usize;
            self.operand(buffers, node, self.assigned[node])
        });
        self.outputs = outputs.collect();
        let splits = self.schedule.splits.iter().map(|split| {
            let backend = split.backend;
            let copies = split.copies.iter().map(|&node| Copy {
                from: self.operand(buffers, node, self.assigned[node]),
                to: self.operand(buffers, node, backend),
            });
            let nodes = self.schedule.executed[split.range.clone()].iter();
            PlannedSplit {
                backend,
                copies: copies.collect(),
                nodes: nodes.map(|&i| self.bind_node(buffers, i, kv)).collect(),
            }
        });
        self.splits = splits.collect();
    }

    fn bind_node(&self, buffers: &[BufferId], i: usize, kv: &KvRegions) -> PlannedNode {
        let node = &self.graph.nodes[i];
        let backend = self.assigned[i];
        let output = self.operand(buffers, i, backend);
        let mut inputs = [output; MAX_INPUTS];
        for (slot, input) in inputs.iter_mut().zip(&node.inputs) {
            *slot = self.operand(buffers, input.0 as usize, backend);
        }
        let region = node.op.kv_layer().and_then(|layer| kv.get(layer));
        PlannedNode {
            node: i,
            output,
            inputs,
            input_count: node.inputs.len(),
            kv: region.map(|(_, region)| region),
        }
    }

    /// A node's value as `backend` sees it.
    fn operand(&self, buffers: &[BufferId], i: usize, backend: usize) -> OperandSpec {
        let node = self.schedule.owner[i];
        let slot = self.memory.slot_of[&Resident { node, backend }];
        OperandSpec {
            backend,
            buffer: buffers[slot],
            offset: self.schedule.offset[i],
            width: self.graph.nodes[i].width,
            stride: self.graph.nodes[node].width,
            rows: self.graph.nodes[i].rows,
        }
    }
}

impl Resources<'_> {
    pub fn placement<'a>(
        &'a self,
        catalog: &'a WeightCatalog,
        prefer: Option<&'a Preference>,
    ) -> Placement<'a> {
        Placement {
            backends: self.backends,
            catalog,
            kv: self.kv,
            prefer,
        }
    }

    /// Checks the budgets, then makes the KV regions and buffers that do not exist yet.
    fn acquire(
        &mut self,
        graph: &Graph,
        assigned: &[usize],
        memory: &MemoryPlan,
    ) -> Result<Vec<BufferId>, GraphError> {
        let mut regions: Vec<(usize, usize, usize)> = Vec::new();
        for (node, &backend) in graph.nodes.iter().zip(assigned) {
            let missing = |layer: &usize| {
                self.kv.get(*layer).is_none() && regions.iter().all(|(seen, ..)| seen != layer)
            };
            if let Some(layer) = node.op.kv_layer().filter(missing) {
                regions.push((layer, backend, self.kv.bytes(layer)?));
            }
        }
        for (backend, usage) in self.memory.iter().enumerate() {
            let on_backend = regions.iter().filter(|(_, home, _)| *home == backend);
            let kv: u64 = on_backend.map(|(.., bytes)| 2 * *bytes as u64).sum();
            let activations = self.pool.missing(&memory.slots, backend);
            usage.admit(self.backends[backend].name(), kv + activations)?;
        }
        for (layer, backend, bytes) in regions {
            let device = &mut self.backends[backend];
            let keys = allocate(device, bytes)?;
            let values = match allocate(device, bytes) {
                Ok(values) => values,
                Err(error) => {
                    device.free(keys);
                    return Err(error);
                }
            };
            self.memory[backend].pooled += 2 * bytes as u64;
            self.kv.place(layer, backend, keys, values);
        }
        self.pool.bind(&memory.slots, self.backends, self.memory)
    }
}

/// Checks what the rest of the pipeline relies on, for graphs that did not come from the builder.
pub(crate) fn check_structure(graph: &Graph) -> Result<(), GraphError> {
    for (i, node) in graph.nodes.iter().enumerate() {
        let fail = |reason: String| {
            let node = node.name.clone();
            Err(GraphError::Malformed { node, reason })
        };
        let arity = node.op.arity();
        if !arity.contains(&node.inputs.len()) {
            let op = node.op.name();
            return fail(format!(
                "{op} has {} inputs, not {arity:?}",
                node.inputs.len()
            ));
        }
        if let Some(input) = node.inputs.iter().find(|id| id.0 as usize >= i) {
            return fail(format!("node {i} reads the later node {}", input.0));
        }
        let mut weights = node.op.weights().into_iter();
        if let Some(weight) = weights.find(|id| id.0 as usize >= graph.weights.len()) {
            return fail(format!("weight {} of {}", weight.0, graph.weights.len()));
        }
    }
    match graph
        .outputs
        .iter()
        .find(|id| id.0 as usize >= graph.nodes.len())
    {
        None => Ok(()),
        Some(output) => Err(GraphError::Malformed {
            node: format!("#{}", output.0),
            reason: format!("is an output of a graph of {} nodes", graph.nodes.len()),
        }),
    }
}
