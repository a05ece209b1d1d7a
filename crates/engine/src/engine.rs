//! A loaded model and what it takes to run it.

mod load;

use std::sync::Arc;
use std::time::Duration;

use minfer_cpu::Isa;
use minfer_graph::{
    Executor, GraphDump, GraphError, GraphParams, KeyRope, KvFormat, KvLayout, MemoryUse,
    OpProfile, WindowLayout,
};
use minfer_model::Model;
use minfer_text::{ChatTemplate, Tokenizer};

use crate::batch::Batch;
use crate::device::Placement;
use crate::memory::KvBudget;
use crate::plans::Plans;
use crate::sequences::Sequences;
use crate::session_file::EngineOrigin;
use crate::{Error, Session};

/// How far loading has come: weight bytes registered, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A loaded model with its KV cache, which holds the rows of any number of sequences.
pub struct Engine {
    pub(crate) model: Model,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    pub(crate) executor: Executor,
    kv: KvLayout,
    pub(crate) key_rope: KeyRope,
    kv_budget: KvBudget,
    plans: Plans,
    placement: Placement,
    pub(crate) n_ctx: usize,
    ubatch: usize,
    parallel: usize,
    threads: usize,
    isa: Isa,
    pub(crate) sequences: Sequences,
    pub(crate) origin: EngineOrigin,
    pub(crate) batch: Batch,
    load_time: Duration,
}

impl Engine {
    /// The model's shape and weights.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The model's vocabulary.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// The model's layout of conversations; ChatML where the file has none.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// Most tokens a sequence can hold.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
    }

    /// Sequences that the KV cache was made for.
    pub fn parallel(&self) -> usize {
        self.parallel
    }

    /// Most tokens of a step.
    pub fn max_rows(&self) -> usize {
        self.plans.max_rows
    }

    /// Most rows of logits of a step.
    pub fn max_logits(&self) -> usize {
        self.plans.max_logits
    }

    /// Most drafted tokens of a sequence in one step.
    pub fn max_draft(&self) -> usize {
        self.plans.max_logits / self.parallel - 1
    }

    /// Tokens that all sequences together can hold, and the memory for them.
    pub fn kv_budget(&self) -> KvBudget {
        self.kv_budget
    }

    /// Tokens that all sequences together can hold; shared ones count once.
    pub fn cells(&self) -> usize {
        self.sequences.arena().cells()
    }

    /// Tokens that can still be added to the sequences there are.
    pub fn free_cells(&self) -> usize {
        self.sequences.arena().free()
    }

    /// Most prompt tokens computed at once.
    pub fn ubatch(&self) -> usize {
        self.ubatch
    }

    /// Format of the KV cache.
    pub fn kv_format(&self) -> KvFormat {
        self.plans.base.kv_format
    }

    /// Compute threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Instruction set of the CPU kernels.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Time it took to load.
    pub fn load_time(&self) -> Duration {
        self.load_time
    }

    /// Which layers run where.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Memory in use: weights, which are mapped rather than allocated by default, and buffers. The CPU's comes last,
    /// a device's before it.
    pub fn memory(&self) -> &[MemoryUse] {
        self.executor.memory()
    }

    /// Time by operation since loading, if [`crate::EngineOptions::op_profile`] is set.
    pub fn profile(&self) -> Option<&OpProfile> {
        self.executor.profile()
    }

    /// The planned graph of steps of `rows` tokens, printable as DOT or JSON: one is a generated token, more belong to
    /// a prompt.
    ///
    /// # Errors
    /// No rows, or more than [`Engine::ubatch`].
    pub fn graph(&mut self, rows: usize) -> Result<GraphDump<'_>, Error> {
        if !(1..=self.ubatch).contains(&rows) {
            return Err(Error::Option {
                name: "rows",
                value: rows,
                expected: "between 1 and ubatch",
            });
        }
        let params = self.prepare(rows, WindowLayout::Causal, rows == 1)?;
        let dump = self.executor.dump(&params);
        dump.ok_or_else(|| {
            let params = format!("{params:?}");
            GraphError::NotPrepared { params }.into()
        })
    }

    /// A new, empty sequence that has the engine to itself for as long as it lives.
    pub fn session(&mut self) -> Session<'_> {
        Session::new(self)
    }

    /// Plans the graph for a step of `tokens` rows, unless that was done before. `generated_only` says that
    /// none of them belongs to a prompt.
    pub(crate) fn prepare(
        &mut self,
        tokens: usize,
        window: WindowLayout,
        generated_only: bool,
    ) -> Result<GraphParams, Error> {
        let params = self.plans.params(tokens, window, generated_only);
        self.plan(&params)?;
        Ok(params)
    }

    fn plan(&mut self, params: &GraphParams) -> Result<(), Error> {
        let (model, kv) = (&self.model, &self.kv);
        let build = |params: &GraphParams| model.build_graph(*params, kv);
        Ok(self.executor.prepare(params, build)?)
    }

    /// Makes every plan there is, so that no step waits for one or runs out of memory for its buffers, and
    /// an operation without a kernel is found now.
    pub(crate) fn prepare_all(&mut self) -> Result<(), Error> {
        let plans = self.plans.all();
        plans.iter().try_for_each(|params| self.plan(params))
    }
}
