//! `minfer chat`: a conversation.

mod command;
mod editor;
mod input;
mod multiline;
mod report;
mod talk;

use std::io::{self, BufReader};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::answer::Style;
use crate::console::Console;
use crate::environment::Environment;
use crate::interrupt::{self, Interrupt};
use crate::loading;
use crate::model_file::Resolver;
use crate::options::{AnsweringOptions, ColorOption, SessionOptions};
use command::{Command, Entry};
use editor::Editor;
use input::{Input, Pipe};
use talk::{Outcome, Talk};

const KEYS: &str = "\
At the prompt: \\ at the end of a line or Alt-Enter continues the message on the next line; \"\"\" encloses several \
lines. /help lists the commands. Ctrl-C stops an answer; Ctrl-D leaves. Where standard input or output is no \
terminal, each line of the input is a message or command, answers go to standard output and all else to standard \
error.

`minfer run MODEL --cnv` is the same command; -st stands for --single-turn, -mli for --multiline-input.";

/// Talk with a model, fetching it first if need be
#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub struct ChatArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    #[arg(value_name = "MODEL")]
    model: String,

    /// The first message.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    /// Instructions that come before the conversation.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Answer one message and exit.
    #[arg(long)]
    single_turn: bool,

    /// Enter adds a line and Alt-Enter sends; without a terminal the whole input is one message.
    #[arg(long)]
    multiline_input: bool,

    #[command(flatten)]
    session: SessionOptions,

    #[command(flatten)]
    color: ColorOption,

    #[command(flatten)]
    answering: AnsweringOptions,
}

pub fn execute(console: Console, args: ChatArgs) -> Result<ExitCode> {
    let sampler = args.answering.sampler()?;
    let options = args.answering.engine_options()?;
    args.session.check()?;
    let environment = Environment::read()?;
    let path = Resolver::new(console, &environment)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    console.note(report::model(&path, &engine));
    let colors = args.color.on_stdout();
    let style = Style::new(colors, Some(engine.template()));
    let generate = args.answering.generate_options(sampler, engine.tokenizer());
    let conversation = engine.conversation(args.session.conversation_options());
    let is_interactive = input::is_interactive();
    let interrupt = Interrupt::watch(!is_interactive, colors)?;
    let mut talk = Talk::new(console, conversation, generate, style, interrupt);
    if let Some(file) = args.session.file {
        talk.keep_in(file)?;
    }
    if args.system.is_some() {
        talk.set_system(args.system);
    }
    let input = if is_interactive {
        if !args.single_turn {
            console.note("/help lists the commands, Ctrl-D leaves");
        }
        let history = environment.state.join("chat_history");
        let editor = Editor::new(console, colors, args.multiline_input, history)?;
        Input::Terminal(Box::new(editor))
    } else {
        let stdin = Box::new(BufReader::new(io::stdin()));
        Input::Pipe(Pipe::new(stdin, args.multiline_input))
    };
    let entries = Entries {
        first: args.prompt.map(Entry::Message),
        input,
    };
    converse(talk, entries, args.single_turn, is_interactive)
}

/// Goes through the entries; the exit status. A person sees what fails, but whoever pipes entries in may look at the
/// status alone.
fn converse(
    mut talk: Talk<'_>,
    mut entries: Entries,
    single_turn: bool,
    is_interactive: bool,
) -> Result<ExitCode> {
    let mut failed = false;
    let mut interrupted = false;
    let unreadable = loop {
        let entry = match entries.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let is_last = single_turn && matches!(entry, Entry::Message(_));
        let outcome = match entry {
            Entry::Message(text) => talk.ask(&text)?,
            Entry::Command(Command::Exit) => break None,
            Entry::Command(command) => talk.obey(command)?,
            Entry::Mistake(mistake) => talk::fail(&mistake.into()),
        };
        failed |= outcome == Outcome::Failed;
        if is_last || (outcome == Outcome::Interrupted && !is_interactive) {
            interrupted = outcome == Outcome::Interrupted;
            break None;
        }
    };
    failed |= talk.close() == Outcome::Failed;
    if let Some(error) = unreadable {
        return Err(error);
    }
    Ok(
        match (interrupted, failed && (single_turn || !is_interactive)) {
            (true, _) => ExitCode::from(interrupt::STATUS),
            (false, true) => ExitCode::FAILURE,
            (false, false) => ExitCode::SUCCESS,
        },
    )
}

/// The message on the command line and what is entered after it.
struct Entries {
    first: Option<Entry>,
    input: Input,
}

impl Entries {
    fn next(&mut self) -> Result<Option<Entry>> {
        match self.first.take() {
            Some(entry) => Ok(Some(entry)),
            None => self.input.next(),
        }
    }
}
