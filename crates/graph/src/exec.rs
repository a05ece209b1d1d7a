//! The executor: owns the backends, plans graphs and runs steps.

mod rows;

use minfer_gguf::Tensor;

use crate::assign::Preference;
use crate::backend::Backend;
use crate::dump::GraphDump;
use crate::error::GraphError;
use crate::ir::{Graph, GraphParams};
use crate::kv::{KvLayout, KvRegions};
use crate::memory::{MemoryUse, Pool};
use crate::plan::{Plan, Resources, check_structure};
use crate::profile::OpProfile;
use crate::run::{HostBuffers, Outputs, Runner};
use crate::step::{StepInputs, StepLimits};
use crate::trace::Trace;
use crate::weights::WeightCatalog;

/// Plans kept for reuse; the least recently prepared one goes first.
const MAX_PLANS: usize = 16;

/// Runs graphs on one or more backends.
///
/// Register the weights, then for each step [`Executor::prepare`] the parameters (a look-up when they
/// were seen before) and [`Executor::run`] it.
pub struct Executor {
    backends: Vec<Box<dyn Backend>>,
    memory: Vec<MemoryUse>,
    catalog: WeightCatalog,
    kv: KvRegions,
    pool: Pool,
    prefer: Option<Box<Preference>>,
    /// Most recently prepared first.
    plans: Vec<Plan>,
    plans_built: u64,
    host: HostBuffers,
    trace: Option<Box<dyn Trace>>,
    profile: Option<OpProfile>,
}

impl Executor {
    /// An executor over `backends`, the best first. A backend's budget is the memory it reports now.
    pub fn new(backends: Vec<Box<dyn Backend>>, kv: KvLayout) -> Self {
        let budgets = backends.iter().map(|backend| MemoryUse {
            budget: backend.available_memory(),
            ..MemoryUse::default()
        });
        Executor {
            memory: budgets.collect(),
            backends,
            catalog: WeightCatalog::default(),
            kv: KvRegions::new(kv),
            pool: Pool::default(),
            prefer: None,
            plans: Vec::new(),
            plans_built: 0,
            host: HostBuffers::default(),
            trace: None,
            profile: None,
        }
    }

    /// Registers a weight with one backend, or with all for `None`.
    pub fn register_weight(
        &mut self,
        tensor: &Tensor,
        backend: Option<usize>,
    ) -> Result<(), GraphError> {
        let count = self.backends.len();
        if let Some(index) = backend.filter(|&index| index >= count) {
            return Err(GraphError::NoBackend { index, count });
        }
        for i in backend.map_or(0..count, |index| index..index + 1) {
            let bytes = tensor.bytes.len() as u64;
            self.memory[i].admit(self.backends[i].name(), bytes)?;
            self.backends[i]
                .register_weight(tensor)
                .map_err(GraphError::backend(|| {
                    format!("registering {} ({})", tensor.name, tensor.ty)
                }))?;
            self.memory[i].weights += bytes;
        }
        self.catalog.insert(&tensor.name, tensor.ty, &tensor.shape);
        Ok(())
    }

    /// Lets the backends pay in advance for what would slow down the first step. For when all weights are registered.
    pub fn warm_up(&mut self) -> Result<(), GraphError> {
        for backend in &mut self.backends {
            backend
                .warm_up()
                .map_err(GraphError::backend(|| "warming up"))?;
        }
        Ok(())
    }

    /// Shapes and types of the registered weights.
    pub fn catalog(&self) -> &WeightCatalog {
        &self.catalog
    }

    /// Asks for nodes to run on certain backends, for example a part of the layers
    /// ([`crate::layer_of`]) on a device. A backend that refuses a node is passed over. Prepared plans
    /// are dropped; KV regions stay where they are.
    pub fn set_preference(&mut self, prefer: Option<Box<Preference>>) {
        self.prefer = prefer;
        self.plans.clear();
    }

    /// Limits the memory of a backend, in bytes; `None` for no known limit. Without such a backend there
    /// is nothing to limit.
    pub fn set_memory_budget(&mut self, backend: usize, budget: Option<u64>) {
        if let Some(memory) = self.memory.get_mut(backend) {
            memory.budget = budget;
        }
    }

    /// Memory in use, by backend.
    pub fn memory(&self) -> &[MemoryUse] {
        &self.memory
    }

    /// The backends, in the order given at the start.
    pub fn backends(&self) -> &[Box<dyn Backend>] {
        &self.backends
    }

    /// The backend of this index.
    pub fn backend_mut(&mut self, index: usize) -> Option<&mut (dyn Backend + 'static)> {
        self.backends.get_mut(index).map(Box::as_mut)
    }

    /// The KV regions.
    pub fn kv(&self) -> &KvRegions {
        &self.kv
    }

    /// Frees all KV regions, with what they hold, and uses another layout from now on.
    pub fn set_kv_layout(&mut self, layout: KvLayout) -> Result<(), GraphError> {
        self.plans.clear();
        for layer in 0..self.kv.layout().len() {
            let Some((backend, region)) = self.kv.get(layer) else {
                continue;
            };
            self.backends[backend].free(region.keys);
            self.backends[backend].free(region.values);
            self.memory[backend].pooled -= 2 * self.kv.bytes(layer)? as u64;
        }
        self.kv = KvRegions::new(layout);
        Ok(())
    }

    /// Makes the plan for `params`, or finds it again. `build` is called only for parameters that have
    /// no plan, and in debug builds to check that it builds the same graph each time.
    pub fn prepare<E: From<GraphError>>(
        &mut self,
        params: &GraphParams,
        build: impl FnOnce(&GraphParams) -> Result<Graph, E>,
    ) -> Result<(), E> {
        if let Some(i) = self.plans.iter().position(|plan| plan.params == *params) {
            if let Some(built) = &self.plans[i].built {
                check_stable(params, built, &build(params)?)?;
            }
            self.plans[..=i].rotate_right(1);
            return Ok(());
        }
        let graph = build(params)?;
        Ok(self.plan(graph, params)?)
    }

    fn plan(&mut self, graph: Graph, params: &GraphParams) -> Result<(), GraphError> {
        check_structure(&graph)?;
        let mut resources = Resources {
            backends: &mut self.backends,
            memory: &mut self.memory,
            pool: &mut self.pool,
            kv: &mut self.kv,
        };
        let placement = resources.placement(&self.catalog, self.prefer.as_deref());
        let assigned = placement.assign(&graph)?;
        let limits =
            |graph: &Graph, kv: &KvRegions| StepLimits::new(graph, params, &self.catalog, kv);
        let plan = Plan::new(graph, *params, assigned, &mut resources, limits)?;
        self.host.reserve(&plan);
        tracing::debug!(
            ?params,
            nodes = plan.graph.nodes.len(),
            splits = plan.splits.len(),
            buffers = plan.memory.slots.len(),
            "planned a graph"
        );
        self.plans.truncate(MAX_PLANS - 1);
        self.plans.insert(0, plan);
        self.plans_built += 1;
        Ok(())
    }

    /// How many plans were made so far: it stays the same while plans are reused.
    pub fn plans_built(&self) -> u64 {
        self.plans_built
    }

    /// Runs one step of the prepared plan for `params`.
    pub fn run(
        &mut self,
        params: &GraphParams,
        step: &StepInputs<'_>,
    ) -> Result<Outputs<'_>, GraphError> {
        let Some(plan) = self.plans.iter().find(|plan| plan.params == *params) else {
            return Err(GraphError::NotPrepared {
                params: format!("{params:?}"),
            });
        };
        plan.limits
            .check(&plan.graph, step, &mut self.host.stored)?;
        let mut runner = Runner {
            plan,
            backends: &mut self.backends,
            host: &mut self.host,
            trace: &mut self.trace,
            profile: &mut self.profile,
        };
        runner.run(step)?;
        Ok(self.host.outputs())
    }

    /// The outputs of the last step.
    pub fn outputs(&self) -> Outputs<'_> {
        self.host.outputs()
    }

    /// Sends the value of every node to `trace` from now on, or stops doing so.
    pub fn set_trace(&mut self, trace: Option<Box<dyn Trace>>) {
        self.trace = trace;
    }

    /// Starts a new per-operation timing table, or stops timing. Returns the table so far.
    pub fn set_profiling(&mut self, on: bool) -> Option<OpProfile> {
        std::mem::replace(&mut self.profile, on.then(OpProfile::default))
    }

    /// The timing table, while profiling.
    pub fn profile(&self) -> Option<&OpProfile> {
        self.profile.as_ref()
    }

    /// The prepared plan for `params`, printable as DOT or JSON.
    pub fn dump(&self, params: &GraphParams) -> Option<GraphDump<'_>> {
        let plan = self.plans.iter().find(|plan| plan.params == *params)?;
        let names = self.backends.iter().map(|backend| backend.name()).collect();
        Some(GraphDump::new(plan, names))
    }
}

/// Compares a graph with the one that the same parameters built before.
fn check_stable(params: &GraphParams, before: &Graph, now: &Graph) -> Result<(), GraphError> {
    if before == now {
        return Ok(());
    }
    let pairs = before.nodes.iter().zip(&now.nodes);
    let difference = match pairs.into_iter().find(|(a, b)| a != b) {
        Some((a, b)) => format!("{a:?} became {b:?}"),
        None => format!(
            "{} nodes and outputs {:?} became {} and {:?}",
            before.nodes.len(),
            before.outputs,
            now.nodes.len(),
            now.outputs
        ),
    };
    Err(GraphError::UnstableTopology {
        params: format!("{params:?}"),
        difference,
    })
}
