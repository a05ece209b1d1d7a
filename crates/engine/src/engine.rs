//! A loaded model and what it takes to run it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::{
    Backend, Executor, GraphDump, GraphError, GraphParams, KvFormat, KvLayout, MemoryUse,
    OpProfile, WindowLayout,
};
use minfer_model::Model;
use minfer_text::{ChatTemplate, Tokenizer};

use crate::batch::{Batch, Row};
use crate::memory::{admit_kv, kv_bytes};
use crate::{EngineOptions, Error, Session};

/// How far loading has come: weight bytes registered, of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Bytes so far.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// A loaded model with its KV cache.
pub struct Engine {
    model: Model,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    executor: Executor,
    kv: KvLayout,
    /// Parameters of every graph but for its capacity.
    params: GraphParams,
    n_ctx: usize,
    ubatch: usize,
    threads: usize,
    isa: Isa,
    batch: Batch,
    logits: Vec<f32>,
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
            fusion: options.fusion,
        };
        let kv = model.kv_layout(n_ctx, params.kv_format);
        let weight_bytes = gguf.tensors().iter().map(|t| t.len as u64).sum();
        admit_kv(n_ctx, kv_bytes(&kv)?, device.room_beside(weight_bytes))?;
        let (threads, isa) = (device.threads, device.isa);
        let mut executor = device.executor(kv.clone());
        register_weights(&mut executor, gguf, weight_bytes, &mut progress)?;
        executor.set_profiling(options.op_profile);
        let mut engine = Engine {
            logits: Vec::with_capacity(model.n_vocab()),
            model,
            tokenizer: Arc::new(tokenizer),
            template,
            executor,
            kv,
            params,
            n_ctx,
            ubatch: options.ubatch.min(n_ctx),
            threads,
            isa,
            batch: Batch::default(),
            load_time: Duration::ZERO,
        };
        // An operation without a kernel, or activations without room, are found here and not mid-way.
        engine.prepare(engine.ubatch)?;
        engine.prepare(1)?;
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

    /// Most tokens a session can hold.
    pub fn n_ctx(&self) -> usize {
        self.n_ctx
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
        let params = self.prepare(capacity(rows, self.ubatch))?;
        let dump = self.executor.dump(&params);
        dump.ok_or_else(|| {
            let params = format!("{params:?}");
            GraphError::NotPrepared { params }.into()
        })
    }

    /// A new, empty sequence.
    pub fn session(&mut self) -> Session<'_> {
        Session::new(self)
    }

    /// Logits of the last step that asked for them.
    pub(crate) fn last_logits(&self) -> &[f32] {
        &self.logits
    }

    /// Computes prompt rows, at most `ubatch` of them.
    pub(crate) fn run_prompt(
        &mut self,
        rows: impl Iterator<Item = Row>,
        want_logits: bool,
    ) -> Result<(), Error> {
        self.batch.set_prompt(rows, want_logits);
        self.step()
    }

    /// Computes a generated row and its logits.
    pub(crate) fn run_generated(&mut self, row: Row) -> Result<(), Error> {
        self.batch.set_generated(row);
        self.step()
    }

    fn step(&mut self) -> Result<(), Error> {
        let tokens = self.batch.rows().tokens.total();
        let params = self.prepare(capacity(tokens, self.ubatch))?;
        let outputs = self.executor.run(&params, &self.batch.inputs())?;
        self.logits.clear();
        self.logits.extend_from_slice(outputs.values(0));
        Ok(())
    }

    /// Plans the graph of this capacity, unless that was done before.
    fn prepare(&mut self, max_tokens: usize) -> Result<GraphParams, Error> {
        let params = GraphParams {
            max_tokens,
            ..self.params
        };
        let (model, kv) = (&self.model, &self.kv);
        self.executor
            .prepare(&params, |params| model.build_graph(*params, kv))?;
        Ok(params)
    }
}

/// Rows that the plan for a step of `tokens` rows holds: one, or a full chunk's. Both plans are made
/// when the model is loaded, so that no step waits for a plan or runs out of memory for its buffers.
fn capacity(tokens: usize, ubatch: usize) -> usize {
    match tokens {
        1 => 1,
        _ => ubatch,
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
