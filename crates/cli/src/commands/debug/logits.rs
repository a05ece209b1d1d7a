//! `minfer debug logits`: what a model predicts after given tokens.

use std::num::NonZeroUsize;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};

use super::answer_lines;
use crate::arguments;
use crate::console::Console;
use crate::environment::Environment;
use crate::loading;
use crate::model_file::Resolver;
use crate::options::LoadingOptions;

/// Predict after tokens: {"ids": […], "greedy": N} gives {"top_ids": […], "top_logits": […], …}
///
/// The answer also has "logsumexp" over all logits and "greedy", N tokens of greedy continuation. The
/// logits are those after the last id.
#[derive(Debug, Args)]
pub struct LogitsArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    model: String,

    /// How many of the greatest logits to give.
    #[arg(long, value_parser = arguments::number, value_name = "COUNT", default_value_t = 10)]
    top: usize,

    /// Tokens of context, 0 for what the model was trained for [default: that, but at most 4096].
    #[arg(short = 'c', long, value_parser = arguments::number, value_name = "TOKENS")]
    n_ctx: Option<usize>,

    /// Compute threads [default: physical cores].
    #[arg(short, long, value_parser = arguments::positive, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    loading: LoadingOptions,
}

#[derive(Deserialize)]
struct Question {
    ids: Vec<u32>,
    #[serde(default)]
    greedy: usize,
}

#[derive(Serialize)]
struct Answer {
    top_ids: Vec<u32>,
    top_logits: Vec<f32>,
    logsumexp: f64,
    greedy: Vec<u32>,
}

pub fn execute(console: Console, args: LogitsArgs) -> Result<()> {
    let options = args.loading.engine_options(args.threads, args.n_ctx)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    answer_lines(|question: Question| -> Result<Answer> {
        let logits = engine.debug_logits(&question.ids, question.greedy, args.top)?;
        Ok(Answer {
            top_ids: logits.top_ids,
            top_logits: logits.top_logits,
            logsumexp: logits.logsumexp,
            greedy: logits.greedy,
        })
    })
}
