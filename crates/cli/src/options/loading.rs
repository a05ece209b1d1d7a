//! Flags that say how a model is loaded.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use minfer_engine::{
    Config, DeviceChoice, EngineOptions, MetalSettings, parse_gpu_layers, parse_kv_format,
};
use minfer_graph::KvFormat;

use crate::arguments;
use crate::environment::Environment;

/// More compute threads than any machine has use for. A process that runs out of memory for stacks
/// while its threads start is aborted, with no error to catch.
const MOST_THREADS: usize = 1024;

/// How a model is loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loading")]
pub struct LoadingOptions {
    /// Prompt tokens computed at once.
    #[arg(long, value_parser = arguments::positive, value_name = "TOKENS", default_value_t = default_ubatch())]
    ubatch: NonZeroUsize,

    /// Read the model file into memory instead of mapping it.
    #[arg(long)]
    no_mmap: bool,

    /// Element format of the KV cache: f32, f16 or q8_0 [default: f16 on a device for models that gain from it, else f32].
    #[arg(long, value_name = "FORMAT", value_parser = parse_kv_format)]
    cache_type: Option<KvFormat>,

    #[command(flatten)]
    offload: OffloadOptions,
}

/// What a model runs on.
#[derive(Debug, Args)]
pub struct OffloadOptions {
    /// What to run on: auto, cpu, metal or soft-metal [default: auto: Metal on Apple's systems, else the CPU].
    #[arg(long, value_name = "DEVICE", value_parser = DeviceChoice::parse)]
    device: Option<DeviceChoice>,

    /// Layers to run on the device, the first ones of the model: a number, or auto for as many as fit [default: auto].
    #[arg(long, value_name = "COUNT", value_parser = layers)]
    gpu_layers: Option<Layers>,
}

/// Layers on a device; `None` for as many as fit.
#[derive(Clone, Copy, Debug)]
struct Layers(Option<usize>);

fn layers(text: &str) -> Result<Layers, String> {
    parse_gpu_layers(text).map(Layers)
}

impl OffloadOptions {
    /// `options`, overruled by the flags.
    ///
    /// # Errors
    /// No variable says where a cache folder could be.
    pub fn apply(&self, options: EngineOptions) -> Result<EngineOptions> {
        Ok(EngineOptions {
            device: self.device.unwrap_or(options.device),
            gpu_layers: match self.gpu_layers {
                Some(Layers(layers)) => layers,
                None => options.gpu_layers,
            },
            metal: MetalSettings {
                kernel_cache: Some(Environment::read()?.kernel_cache()),
                ..options.metal
            },
            ..options
        })
    }
}

fn default_ubatch() -> NonZeroUsize {
    NonZeroUsize::new(EngineOptions::default().ubatch).unwrap_or(NonZeroUsize::MIN)
}

impl LoadingOptions {
    /// The engine's options: the environment's, overruled by the flags.
    ///
    /// # Errors
    /// An environment variable with a value that is not accepted, more than [`MOST_THREADS`], or no cache folder.
    pub fn engine_options(
        &self,
        threads: Option<NonZeroUsize>,
        n_ctx: Option<usize>,
    ) -> Result<EngineOptions> {
        let environment = EngineOptions::from(&Config::from_env()?);
        let threads = threads.map(NonZeroUsize::get).or(environment.threads);
        if let Some(count) = threads.filter(|&count| count > MOST_THREADS) {
            return Err(arguments::invalid(format_args!(
                "{count} compute threads are asked for, but {MOST_THREADS} are the most"
            )));
        }
        self.offload.apply(EngineOptions {
            threads,
            n_ctx,
            ubatch: self.ubatch.get(),
            kv_format: self.cache_type.or(environment.kv_format),
            mmap: environment.mmap && !self.no_mmap,
            ..environment
        })
    }
}
