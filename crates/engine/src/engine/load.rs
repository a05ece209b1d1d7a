//! Making an engine of a model file.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minfer_cpu::{CpuBackend, CpuOptions, Isa, Pool};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_graph::{Backend, Executor, Graph, GraphParams, KvLayout, Node};
use minfer_model::Model;
use minfer_text::{ChatTemplate, Tokenizer};

use crate::batch::Batch;
use crate::device::{
    Accelerator, DeviceChoice, OffloadError, Placement, Situation, Spread, Wish, refused_node,
    select, weights_of,
};
use crate::sequences::Sequences;
use crate::session_file::EngineOrigin;
use crate::{Engine, EngineOptions, Error, LoadProgress};

/// A device's place among an executor's backends; the CPU comes after it.
const DEVICE: usize = 0;

/// Loading.
impl Engine {
    /// Loads a model file, or all parts of a split one.
    ///
    /// # Errors
    /// Anything that would keep the model from running: an unusable file, an unknown architecture,
    /// missing or misshapen weights, a type without kernels, an unusable vocabulary or chat template, a device
    /// that is not there, too little memory for the context or for the layers that a device is to run.
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
        let hardware = Hardware::new(options)?;
        let gguf = Gguf::open(path, OpenOptions { mmap: options.mmap })?;
        let mut engine = Self::build(&gguf, options, hardware, progress)?;
        engine.load_time = start.elapsed();
        Ok(engine)
    }

    /// Loads an open model file. [`EngineOptions::mmap`] must be as it was opened.
    ///
    /// # Errors
    /// As [`Engine::load`].
    pub fn from_gguf(gguf: &Gguf, options: &EngineOptions) -> Result<Self, Error> {
        let start = Instant::now();
        let mut hardware = Hardware::new(options)?;
        if !options.mmap {
            // The weights are in memory already and are counted again as they are registered.
            let available = &mut hardware.cpu.available;
            *available = available.map(|bytes| bytes + gguf.file_bytes());
        }
        let mut engine = Self::build(gguf, options, hardware, |_| {})?;
        engine.load_time = start.elapsed();
        Ok(engine)
    }

    fn build(
        gguf: &Gguf,
        options: &EngineOptions,
        hardware: Hardware,
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
        let wish = Wish::new(gguf, &model, options);
        warn_of_context(options, &model);
        let loader = Loader {
            gguf,
            model: &model,
            options,
            wish: &wish,
            cpu: &hardware.cpu,
        };
        let (spread, mut executor) =
            loader.executor(hardware.accelerator, hardware.absence, &mut progress)?;
        executor.set_profiling(options.op_profile);
        let isa = hardware.cpu.isa;
        let plans = wish.plans(spread.kv_format, spread.placement.is_on_device());
        let mut engine = Engine {
            key_rope: model.key_rope(),
            sequences: Sequences::new(spread.kv.cells)?,
            origin: EngineOrigin::new(gguf, &spread.placement, isa, options),
            kv: model.kv_layout(spread.kv.cells, spread.kv_format),
            model,
            tokenizer: Arc::new(tokenizer),
            template,
            executor,
            kv_budget: spread.kv,
            plans,
            placement: spread.placement,
            n_ctx: spread.n_ctx,
            ubatch: options.ubatch.min(spread.n_ctx),
            parallel: options.parallel,
            threads: hardware.cpu.threads,
            isa,
            batch: Batch::default(),
            load_time: Duration::ZERO,
        };
        engine.prepare_all()?;
        engine.executor.warm_up()?;
        Ok(engine)
    }
}

fn warn_of_context(options: &EngineOptions, model: &Model) {
    let trained = model.hparams().n_ctx_train;
    let n_ctx = options.resolve_n_ctx(trained);
    if n_ctx > trained {
        tracing::warn!(
            "a context of {n_ctx} tokens exceeds the {trained} the model was trained for"
        );
    }
}

/// Decides where a model runs, and registers its weights there.
struct Loader<'a> {
    gguf: &'a Gguf,
    model: &'a Model,
    options: &'a EngineOptions,
    wish: &'a Wish<'a>,
    cpu: &'a Cpu,
}

impl Loader<'_> {
    /// An executor with all weights, and how they are spread. A device that was not asked for by name and refuses a
    /// part of the model gets none of it.
    fn executor(
        &self,
        accelerator: Option<Accelerator>,
        absence: Option<String>,
        progress: &mut impl FnMut(LoadProgress),
    ) -> Result<(Spread, Executor), Error> {
        let tensors = self.gguf.tensors().iter();
        let weight_bytes = tensors.map(|tensor| tensor.len as u64).sum();
        let room = self.cpu.room_beside(weight_bytes);
        let situation = Situation {
            accelerator: accelerator.as_ref(),
            absence,
            room,
        };
        let spread = self.wish.choose(&situation)?;
        let refused = match accelerator.filter(|_| spread.placement.is_on_device()) {
            None => return Ok((spread.clone(), self.on_cpu(&spread, progress)?)),
            Some(accelerator) => match self.on_device(accelerator, &spread, progress)? {
                Ok(executor) => return Ok((spread, executor)),
                Err(refused) => refused,
            },
        };
        match self.options.device {
            DeviceChoice::Auto => {
                let situation = Situation {
                    accelerator: None,
                    absence: Some(refused.to_string()),
                    room,
                };
                let spread = self.wish.choose(&situation)?;
                let executor = self.on_cpu(&spread, progress)?;
                Ok((spread, executor))
            }
            _ => Err(refused.into()),
        }
    }

    fn on_cpu(
        &self,
        spread: &Spread,
        progress: &mut impl FnMut(LoadProgress),
    ) -> Result<Executor, Error> {
        let backends: Vec<Box<dyn Backend>> = vec![Box::new(self.cpu.backend(self.options)?)];
        let mut executor = Executor::new(backends, self.kv_layout(spread));
        executor.set_memory_budget(0, self.cpu.available);
        self.register(&mut executor, |_| vec![0], progress)?;
        Ok(executor)
    }

    /// The inner error says what the device has no kernel for.
    fn on_device(
        &self,
        accelerator: Accelerator,
        spread: &Spread,
        progress: &mut impl FnMut(LoadProgress),
    ) -> Result<Result<Executor, OffloadError>, Error> {
        let placement = &spread.placement;
        let settings = &self.options.metal;
        let available = accelerator.available(settings);
        let backends: Vec<Box<dyn Backend>> = vec![
            accelerator.backend(placement, settings),
            Box::new(self.cpu.backend(self.options)?),
        ];
        let mut executor = Executor::new(backends, self.kv_layout(spread));
        executor.set_memory_budget(DEVICE, available);
        executor.set_memory_budget(DEVICE + 1, self.cpu.available);
        let graphs = self.wish.graphs(spread.kv_format)?;
        let users = Users::new(&graphs, placement);
        self.register(&mut executor, |name| users.of(name), progress)?;
        let backend = executor.backends()[DEVICE].as_ref();
        let mut refusals = graphs
            .iter()
            .filter_map(|(params, graph)| refused_node(placement, backend, params, graph));
        if let Some(refused) = refusals.next() {
            return Ok(Err(refused));
        }
        let placement = placement.clone();
        executor.set_preference(Some(Box::new(move |_: &Graph, node: &Node| {
            Some(home(&placement, node))
        })));
        Ok(Ok(executor))
    }

    fn kv_layout(&self, spread: &Spread) -> KvLayout {
        self.model.kv_layout(spread.kv.cells, spread.kv_format)
    }

    /// Registers every weight with the backends that `users` gives for its name.
    fn register(
        &self,
        executor: &mut Executor,
        users: impl Fn(&str) -> Vec<usize>,
        progress: &mut impl FnMut(LoadProgress),
    ) -> Result<(), Error> {
        let tensors = self.gguf.tensors();
        let total = tensors.iter().map(|tensor| tensor.len as u64).sum();
        let mut done = 0;
        let tensors = tensors
            .iter()
            .filter_map(|info| self.gguf.tensor(&info.name));
        for tensor in tensors {
            for backend in users(&tensor.name) {
                executor.register_weight(&tensor, Some(backend))?;
            }
            done += tensor.bytes.len() as u64;
            progress(LoadProgress { done, total });
        }
        Ok(())
    }
}

/// The backend that runs a node.
fn home(placement: &Placement, node: &Node) -> usize {
    match placement.takes(&node.name) {
        true => DEVICE,
        false => DEVICE + 1,
    }
}

/// Which backends read which weights: one that no layer owns may have readers on both.
struct Users<'a>([BTreeSet<&'a str>; 2]);

impl<'a> Users<'a> {
    fn new(graphs: &'a [(GraphParams, Graph)], placement: &Placement) -> Self {
        let on = |backend| match graphs.first() {
            Some((_, graph)) => weights_of(graph, |node| home(placement, node) == backend),
            None => Default::default(),
        };
        Users([on(DEVICE), on(DEVICE + 1)])
    }

    fn of(&self, name: &str) -> Vec<usize> {
        let backends = [DEVICE, DEVICE + 1].into_iter();
        backends.filter(|&i| self.0[i].contains(name)).collect()
    }
}

/// What there is to run on.
struct Hardware {
    cpu: Cpu,
    accelerator: Option<Accelerator>,
    /// Why there is no accelerator, if that may surprise.
    absence: Option<String>,
}

impl Hardware {
    fn new(options: &EngineOptions) -> Result<Self, Error> {
        options.validate()?;
        let (accelerator, absence) = select(options)?;
        Ok(Hardware {
            cpu: Cpu::new(options)?,
            accelerator,
            absence,
        })
    }
}

/// The CPU, and the memory that was available before anything was loaded.
struct Cpu {
    pool: Arc<Pool>,
    threads: usize,
    isa: Isa,
    available: Option<u64>,
}

impl Cpu {
    fn new(options: &EngineOptions) -> Result<Self, Error> {
        let threads = options.threads.unwrap_or_else(Pool::default_threads);
        let pool = Arc::new(Pool::new(threads).map_err(Error::Threads)?);
        let backend = backend(&pool, options)?;
        Ok(Cpu {
            pool,
            threads,
            isa: backend.isa(),
            available: backend.available_memory(),
        })
    }

    fn backend(&self, options: &EngineOptions) -> Result<CpuBackend, Error> {
        backend(&self.pool, options)
    }

    /// Bytes left once the weights are in memory.
    fn room_beside(&self, weights: u64) -> Option<u64> {
        let available = self.available?;
        Some(available.saturating_sub(weights))
    }
}

fn backend(pool: &Arc<Pool>, options: &EngineOptions) -> Result<CpuBackend, Error> {
    let options = CpuOptions {
        isa: options.isa,
        prefill: options.prefill,
        ..CpuOptions::default()
    };
    Ok(CpuBackend::new(Arc::clone(pool), options)?)
}
