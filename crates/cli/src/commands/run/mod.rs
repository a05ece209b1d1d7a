//! `minfer run`: answer a prompt.

mod prompt;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use minfer_engine::{FinishReason, GenerateOptions};

use crate::answer::{self, Style};
use crate::console::Console;
use crate::environment::Environment;
use crate::interrupt::{self, Interrupt};
use crate::loading;
use crate::model_file::Resolver;
use crate::options::{AnsweringOptions, ColorOption};

/// Answer a prompt with a model, fetching it first if need be
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    prompt: prompt::PromptOptions,

    #[command(flatten)]
    color: ColorOption,

    #[command(flatten)]
    answering: AnsweringOptions,
}

pub fn execute(console: Console, args: RunArgs) -> Result<ExitCode> {
    let sampler = args.answering.sampler()?;
    let options = args.answering.engine_options()?;
    let text = args.prompt.read(console)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    let ids = args.prompt.encode(&text, &engine)?;
    // A chat template may turn an empty prompt into tokens; an empty raw one leaves nothing to continue.
    if ids.is_empty() {
        return prompt::empty();
    }
    let style = Style::new(args.color.on_stdout(), args.prompt.template(&engine));
    let interrupt = Interrupt::watch()?;
    let generate = GenerateOptions {
        cancel: Some(interrupt.answering()),
        ..args.answering.generate_options(sampler, engine.tokenizer())
    };
    let mut session = engine.session();
    let mut generator = session.generate(&ids, generate)?;
    tracing::info!("seed {}", generator.seed());
    let finish = answer::show(&mut generator, style)?;
    console.note(answer::load_summary(session.engine().load_time(), &finish));
    if let Some(profile) = session.engine().profile() {
        console.note(profile);
    }
    Ok(match finish.reason {
        FinishReason::Cancelled => ExitCode::from(interrupt::STATUS),
        _ => ExitCode::SUCCESS,
    })
}
