//! Flags of the commands that answer.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use minfer_engine::sampling::SamplerParams;
use minfer_engine::{EngineOptions, GenerateOptions};
use minfer_text::Tokenizer;

use super::{DraftingOptions, LoadingOptions, SamplingOptions};
use crate::arguments;

/// How a model is loaded and how long and by which choices it answers.
#[derive(Debug, Args)]
pub struct AnsweringOptions {
    /// Most tokens to generate [default: until the model ends or the context is full].
    #[arg(short = 'n', long, value_parser = arguments::number, value_name = "TOKENS")]
    n_predict: Option<usize>,

    /// Tokens of context, 0 for what the model was trained for [default: that, but at most 4096].
    #[arg(short = 'c', long, value_parser = arguments::number, value_name = "TOKENS")]
    n_ctx: Option<usize>,

    /// Compute threads [default: physical cores].
    #[arg(short, long, value_parser = arguments::positive, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    /// End the answer before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,

    #[command(flatten)]
    sampling: SamplingOptions,

    #[command(flatten)]
    drafting: DraftingOptions,

    #[command(flatten)]
    loading: LoadingOptions,
}

impl AnsweringOptions {
    /// How to sample.
    ///
    /// # Errors
    /// A value out of its range, as a usage error.
    pub fn sampler(&self) -> Result<SamplerParams> {
        self.sampling
            .params()
            .map_err(|error| arguments::invalid(format_args!("--{error}")))
    }

    /// How to load.
    ///
    /// # Errors
    /// As [`LoadingOptions::engine_options`].
    pub fn engine_options(&self) -> Result<EngineOptions> {
        Ok(EngineOptions {
            draft: self.drafting.rows(),
            ..self.loading.engine_options(self.threads, self.n_ctx)?
        })
    }

    /// How to answer with a model of this vocabulary.
    pub fn generate_options(
        &self,
        mut sampler: SamplerParams,
        tokenizer: &Tokenizer,
    ) -> GenerateOptions {
        self.sampling.add_dry_breakers(&mut sampler, tokenizer);
        GenerateOptions {
            sampler,
            max_tokens: self.n_predict,
            stop: self.stop.clone(),
            cancel: None,
            draft: self.drafting.options(),
            ..GenerateOptions::default()
        }
    }
}
