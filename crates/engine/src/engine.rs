//! A loaded model and what it takes to run it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::{
    Backend, Executor, GraphDump, GraphError, GraphParams, KeyRope, KvFormat, KvLayout, MemoryUse,
    OpProfile, WindowLayout,
};
use minfer_model::Model;
use minfer_text::{ChatTemplate, Tokenizer};

use crate::batch::Batch;
use crate::memory::{KvBudget, kv_bytes};
use crate::sequences::Sequences;
use crate::session_file::EngineOrigin;
use crate::{EngineOptions, Error, Session};

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
    /// Parameters of every graph but for its capacities and its window.
    params: GraphParams,
    /// Whether steps of generated rows alone have plans of their own, which the device computes in fewer passes.
    fuses_decode: bool,
    pub(crate) n_ctx: usize,
    ubatch: usize,
    parallel: usize,
    max_logits: usize,
    threads: usize,
    isa: Isa,
    pub(crate) sequences: Sequences,
    pub(crate) origin: EngineOrigin,
    pub(crate) batch: Batch,
    load_time: Duration,
}

impl Engine {
    /// Loads a model file, or all parts of a split one.
    ///
    /// # Errors
    /// Anything that would keep the model from running: an unusable file, an unknown architecture,
    /// missing or misshapen weights, a type without kernels, an unusable vocabulary or chat template, too
    /// little memory for the context.
    pub fn load(path: impl AsRef<Path>, options: &EngineOptions) -> Result<Self, Error> {
        Self::load_with_progress(path, options, |_| {})
    }

    /// [`Engine::load`], reporting progress.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn load_with_progress(
        path: impl AsRef<Path>,
        options: &EngineOptions,
        progress: impl FnMut(LoadProgress),
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let device = Device::new(options)?;
        let gguf = Gguf::open(path, OpenOptions { mmap: options.mmap })?;
        let mut engine = Self::build(&gguf, options, device, progress)?;
        engine.load_time = start.elapsed();
        Ok(engine)
    }

    /// Loads an open model file. [`EngineOptions::mmap`] must be as it was opened.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn from_gguf(gguf: &Gguf, options: &EngineOptions) -> Result<Self, Error> {
        let start = Instant::now();
        let mut device = Device::new(options)?;
        if !options.mmap {
            // The weights are in memory already and are counted again as they are registered.
            device.available = device.available.map(|bytes| bytes + gguf.file_bytes());
        }
        let mut engine = Self::build(gguf, options, device, |_| {})?;
        engine.load_time = start.elapsed();
        Ok(engine)
    }

    fn build(
        gguf: &Gguf,
        options: &EngineOptions,
        device: Device,
        mut progress: impl FnMut(LoadProgress),
    ) -> Result<Self, Error> {
        let model = Model::load(gguf)?;
        let tokenizer = Tokenizer::from_gguf(gguf)?;
        if tokenizer.n_vocab() != model.n_vocab() {
            return Err(Error::VocabularySize {
                tokenizer: tokenizer.n_vocab(),
                model: model.n_vocab(),
            });
        }
        let template = ChatTemplate::from_gguf(gguf)?;
        let n_ctx = context_length(options, &model);
        let params = GraphParams {
            max_tokens: 1,
            max_outputs: 1,
            window: WindowLayout::Causal,
            kv_format: options.kv_format.unwrap_or(KvFormat::F32),
            generated_only: false,
            fusion: options.fusion,
        };
        let weight_bytes = gguf.tensors().iter().map(|t| t.len as u64).sum();
        let room = device.room_beside(weight_bytes);
        let per_cell = kv_bytes(&model.kv_layout(1, params.kv_format))?;
        let kv_budget = KvBudget::new(n_ctx, options.parallel, per_cell, room)?;
        let kv = model.kv_layout(kv_budget.cells, params.kv_format);
        let (threads, isa) = (device.threads, device.isa);
        let mut executor = device.executor(kv.clone());
        register_weights(&mut executor, gguf, weight_bytes, &mut progress)?;
        executor.set_profiling(options.op_profile);
        let mut engine = Engine {
            key_rope: model.key_rope(),
            sequences: Sequences::new(kv_budget.cells)?,
            origin: EngineOrigin::of_cpu(gguf, isa, options.prefill),
            model,
            tokenizer: Arc::new(tokenizer),
            template,
            executor,
            kv,
            kv_budget,
            params,
            fuses_decode: false,
            n_ctx,
            ubatch: options.ubatch.min(n_ctx),
            parallel: options.parallel,
            max_logits: options.parallel * (1 + options.draft),
            threads,
            isa,
            batch: Batch::default(),
            load_time: Duration::ZERO,
        };
        engine.prepare_all()?;
        Ok(engine)
    }

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
        self.ubatch.max(self.max_logits)
    }

    /// Most rows of logits of a step.
    pub fn max_logits(&self) -> usize {
        self.max_logits
    }

    /// Most drafted tokens of a sequence in one step.
    pub fn max_draft(&self) -> usize {
        self.max_logits / self.parallel - 1
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
        self.params.kv_format
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

    /// Memory in use: weights, which are mapped rather than allocated by default, and buffers.
    pub fn memory(&self) -> MemoryUse {
        self.executor.memory().first().copied().unwrap_or_default()
    }

    /// Time by operation since loading, if [`EngineOptions::op_profile`] is set.
    pub fn profile(&self) -> Option<&OpProfile> {
        self.executor.profile()
    }

    /// The planned graph of steps of `rows` tokens, printable as DOT or JSON.
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
        let params = self.prepare(rows, WindowLayout::Causal, false)?;
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
        let (max_tokens, max_outputs) = match tokens {
            1 => (1, 1),
            _ => (self.max_rows(), self.max_logits),
        };
        let params = GraphParams {
            max_tokens,
            max_outputs,
            window,
            generated_only: generated_only && self.fuses_decode,
            ..self.params
        };
        let (model, kv) = (&self.model, &self.kv);
        self.executor
            .prepare(&params, |params| model.build_graph(*params, kv))?;
        Ok(params)
    }

    /// Makes every plan there is, so that no step waits for one or runs out of memory for its buffers, and
    /// an operation without a kernel is found now.
    fn prepare_all(&mut self) -> Result<(), Error> {
        let layouts = [WindowLayout::Causal, WindowLayout::Span, WindowLayout::Map];
        for window in layouts {
            for generated_only in [false, true] {
                self.prepare(self.max_rows(), window, generated_only)?;
                self.prepare(1, window, generated_only)?;
            }
        }
        Ok(())
    }
}

fn context_length(options: &EngineOptions, model: &Model) -> usize {
    let trained = model.hparams().n_ctx_train;
    let n_ctx = options.resolve_n_ctx(trained);
    if n_ctx > trained {
        tracing::warn!(
            "a context of {n_ctx} tokens exceeds the {trained} the model was trained for"
        );
    }
    n_ctx
}

fn register_weights(
    executor: &mut Executor,
    gguf: &Gguf,
    total: u64,
    progress: &mut impl FnMut(LoadProgress),
) -> Result<(), Error> {
    let mut done = 0;
    for tensor in gguf
        .tensors()
        .iter()
        .filter_map(|info| gguf.tensor(&info.name))
    {
        executor.register_weight(&tensor, None)?;
        done += tensor.bytes.len() as u64;
        progress(LoadProgress { done, total });
    }
    Ok(())
}

/// The backend to run on, and the memory that was available before anything was loaded.
struct Device {
    backend: Box<dyn Backend>,
    threads: usize,
    isa: Isa,
    available: Option<u64>,
}

impl Device {
    fn new(options: &EngineOptions) -> Result<Self, Error> {
        options.validate()?;
        let threads = options.threads.unwrap_or_else(Pool::default_threads);
        let pool = Pool::new(threads).map_err(Error::Threads)?;
        let cpu = CpuOptions {
            isa: options.isa,
            prefill: options.prefill,
            ..CpuOptions::default()
        };
        let backend = CpuBackend::new(Arc::new(pool), cpu)?;
        Ok(Device {
            threads,
            isa: backend.isa(),
            available: backend.available_memory(),
            backend: Box::new(backend),
        })
    }

    /// Bytes left once the weights are in memory.
    fn room_beside(&self, weights: u64) -> Option<u64> {
        self.available
            .map(|available| available.saturating_sub(weights))
    }

    fn executor(self, kv: KvLayout) -> Executor {
        let mut executor = Executor::new(vec![self.backend], kv);
        executor.set_memory_budget(0, self.available);
        executor
    }
}
