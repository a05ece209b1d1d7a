//! `minfer run`: answer a prompt.

mod prompt;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Engine, Finish, FinishReason, GenerateOptions};

use crate::answer::{self, Style};
use crate::console::Console;
use crate::environment::Environment;
use crate::interrupt::{self, Interrupt};
use crate::loading;
use crate::model_file::Resolver;
use crate::options::{AnsweringOptions, ColorOption, SessionOptions};
use crate::saved;
use prompt::PromptOptions;

/// Answer a prompt with a model, fetching it first if need be
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    #[arg(value_name = "MODEL")]
    model: String,

    #[command(flatten)]
    prompt: PromptOptions,

    #[command(flatten)]
    session: SessionOptions,

    #[command(flatten)]
    color: ColorOption,

    #[command(flatten)]
    answering: AnsweringOptions,
}

/// A prompt and how to answer it.
struct Question {
    text: String,
    options: GenerateOptions,
    style: Style,
}

pub fn execute(console: Console, args: RunArgs) -> Result<ExitCode> {
    let sampler = args.answering.sampler()?;
    let options = args.answering.engine_options()?;
    args.session.check()?;
    let text = args.prompt.read(console)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    tracing::info!("{}", loading::kv_cache(&engine));
    let colors = args.color.on_stdout();
    let interrupt = Interrupt::watch(true, colors)?;
    let question = Question {
        text,
        options: GenerateOptions {
            cancel: Some(interrupt.answering()),
            ..args.answering.generate_options(sampler, engine.tokenizer())
        },
        style: Style::new(colors, args.prompt.template(&engine)),
    };
    let finish = match &args.session.file {
        None => answer_alone(&mut engine, &args.prompt, &question)?,
        Some(file) => answer_in_conversation(console, &mut engine, &args, file, &question)?,
    };
    let (load, options) = (engine.load_time(), &question.options);
    console.note(answer::load_summary(load, &finish, options));
    if let Some(profile) = engine.profile() {
        console.note(profile);
    }
    Ok(match finish.reason {
        FinishReason::Cancelled => ExitCode::from(interrupt::STATUS),
        _ => ExitCode::SUCCESS,
    })
}

fn answer_alone(
    engine: &mut Engine,
    prompt: &PromptOptions,
    question: &Question,
) -> Result<Finish> {
    let ids = prompt.encode(&question.text, engine)?;
    // A chat template may turn an empty prompt into tokens; an empty raw one leaves nothing to continue.
    if ids.is_empty() {
        return prompt::empty();
    }
    let mut session = engine.session();
    let mut generator = session.generate(&ids, question.options.clone())?;
    tracing::info!("seed {}", generator.seed());
    answer::show(&mut generator, question.style)?.map_err(answer::advise)
}

/// The next turn of the conversation in `file`.
fn answer_in_conversation(
    console: Console,
    engine: &mut Engine,
    args: &RunArgs,
    file: &Path,
    question: &Question,
) -> Result<Finish> {
    let mut conversation = engine.conversation(args.session.conversation_options());
    saved::resume_if_exists(console, &mut conversation, file)?;
    if let Some(system) = args.prompt.system() {
        conversation.set_system(Some(system.to_owned()));
    }
    let answer = conversation
        .ask(&question.text, question.options.clone())
        .map_err(answer::advise)?;
    tracing::info!("seed {}", answer.seed());
    let shown = answer::show_turn(answer, question.style);
    // Also when nobody reads on: what was said is kept.
    saved::save(console, &mut conversation, file)?;
    let (finish, turn) = shown?.map_err(answer::advise)?;
    if let Some(note) = saved::dropped(turn.dropped_turns) {
        console.note(note);
    }
    Ok(finish)
}
