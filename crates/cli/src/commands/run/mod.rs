//! `minfer run`: answer a prompt.

mod prompt;

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Event, Finish, FinishReason, GenerateOptions, Phase};

use crate::arguments;
use crate::console::{self, Console, WithHint};
use crate::environment::Environment;
use crate::interrupt;
use crate::loading;
use crate::model_file::Resolver;
use crate::options::{LoadingOptions, SamplingOptions};

/// Answer a prompt with a model, fetching it first if need be
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    prompt: prompt::PromptOptions,

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
    loading: LoadingOptions,
}

pub fn execute(console: Console, args: RunArgs) -> Result<ExitCode> {
    let mut sampler = args
        .sampling
        .params()
        .map_err(|error| arguments::invalid(format_args!("--{error}")))?;
    let options = args.loading.engine_options(args.threads, args.n_ctx)?;
    let text = args.prompt.read(console)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    let ids = args.prompt.encode(&text, &engine)?;
    // A chat template may turn an empty prompt into tokens; an empty raw one leaves nothing to continue.
    if ids.is_empty() {
        return prompt::empty();
    }
    args.sampling
        .add_dry_breakers(&mut sampler, engine.tokenizer());
    let generate = GenerateOptions {
        sampler,
        max_tokens: args.n_predict,
        stop: args.stop,
        cancel: Some(interrupt::flag()?),
    };
    let mut session = engine.session();
    let mut generator = session.generate(&ids, generate)?;
    tracing::info!("seed {}", generator.seed());
    let mut output = Streamed::new();
    let finish = loop {
        match generator.next_event().or_else(advise)? {
            Event::Text(text) => output.write(text)?,
            Event::Done(finish) => break finish.clone(),
        }
    };
    output.end()?;
    console.note(summary(session.engine().load_time(), &finish));
    if let Some(profile) = session.engine().profile() {
        console.note(profile);
    }
    Ok(match finish.reason {
        FinishReason::Cancelled => ExitCode::from(interrupt::STATUS),
        _ => ExitCode::SUCCESS,
    })
}

/// Adds a hint where a flag would help.
fn advise<T>(error: minfer_engine::Error) -> Result<T> {
    match error {
        minfer_engine::Error::PromptTooLong { .. } => {
            Err(error).hint("shorten the prompt, or allow a longer context with --n-ctx")
        }
        error => Err(error.into()),
    }
}

/// Standard output that shows text as it comes.
struct Streamed {
    output: console::Output,
    at_line_start: bool,
}

impl Streamed {
    fn new() -> Self {
        Self {
            output: console::output(),
            at_line_start: true,
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.at_line_start = text.ends_with('\n');
        self.output.write_all(text.as_bytes())?;
        self.output.flush()
    }

    /// Ends the last line.
    fn end(&mut self) -> io::Result<()> {
        if !self.at_line_start {
            writeln!(self.output)?;
        }
        self.output.flush()
    }
}

fn summary(load: Duration, finish: &Finish) -> String {
    let end = match &finish.reason {
        FinishReason::Eos => "",
        FinishReason::Stop(_) => ", ended by a stop string",
        FinishReason::Length => ", ended by the token limit",
        FinishReason::Cancelled => ", interrupted",
    };
    format!(
        "load {:.2} s | prefill {} | decode {}{end}",
        load.as_secs_f64(),
        phase(finish.prefill),
        phase(finish.decode),
    )
}

fn phase(phase: Phase) -> String {
    match phase.rate() {
        Some(rate) => format!("{} tokens, {rate:.1} t/s", phase.tokens),
        None => format!("{} tokens", phase.tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_load_time_and_both_rates() {
        let finish = Finish {
            reason: FinishReason::Eos,
            generated: 9,
            reused: 0,
            prefill: Phase {
                tokens: 30,
                time: Duration::from_millis(100),
            },
            decode: Phase {
                tokens: 8,
                time: Duration::from_millis(250),
            },
        };
        assert_eq!(
            summary(Duration::from_millis(1234), &finish),
            "load 1.23 s | prefill 30 tokens, 300.0 t/s | decode 8 tokens, 32.0 t/s"
        );
    }
}
