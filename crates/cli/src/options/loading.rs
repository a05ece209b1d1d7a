//! Flags that say how a model is loaded.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Config, EngineOptions, parse_kv_format};
use minfer_graph::KvFormat;

/// How a model is loaded.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loading")]
pub struct LoadingOptions {
    /// Prompt tokens computed at once.
    #[arg(long, value_name = "TOKENS", default_value_t = default_ubatch())]
    ubatch: NonZeroUsize,

    /// Read the model file into memory instead of mapping it.
    #[arg(long)]
    no_mmap: bool,

    /// Element format of the KV cache: f32, f16 or q8_0 [default: f32 on the CPU].
    #[arg(long, value_name = "FORMAT", value_parser = parse_kv_format)]
    cache_type: Option<KvFormat>,
}

fn default_ubatch() -> NonZeroUsize {
    NonZeroUsize::new(EngineOptions::default().ubatch).unwrap_or(NonZeroUsize::MIN)
}

impl LoadingOptions {
    /// The engine's options: the environment's, overruled by the flags.
    ///
    /// # Errors
    /// An environment variable with a value that is not accepted.
    pub fn engine_options(
        &self,
        threads: Option<NonZeroUsize>,
        n_ctx: Option<usize>,
    ) -> Result<EngineOptions> {
        let environment = EngineOptions::from(&Config::from_env()?);
        Ok(EngineOptions {
            threads: threads.map(NonZeroUsize::get).or(environment.threads),
            n_ctx,
            ubatch: self.ubatch.get(),
            kv_format: self.cache_type.or(environment.kv_format),
            mmap: environment.mmap && !self.no_mmap,
            ..environment
        })
    }
}
