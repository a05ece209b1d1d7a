//! Line editing on a terminal.

use std::fs::DirBuilder;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ColorMode, CompletionType, ConditionalEventHandler, Config, Context, Event, EventContext,
    EventHandler, Helper, KeyCode, KeyEvent, Modifiers, Movement, RepeatCount,
};

use super::command::COMMANDS;
use super::multiline::{self, Lines};
use crate::console::Console;

const PROMPT: &str = "> ";
const BOLD_PROMPT: &str = "\x1b[1m> \x1b[0m";
/// After a line that ends in a backslash.
const CONTINUATION: &str = ". ";
const HISTORY_ENTRIES: usize = 1000;

/// What a person did at the prompt.
pub enum Edited {
    Text(String),
    /// Ctrl-D.
    End,
}

/// The prompt, with the inputs of earlier chats as its history.
pub struct Editor {
    console: Console,
    editor: rustyline::Editor<Completion, FileHistory>,
    history: Option<PathBuf>,
    /// Ctrl-C at an empty prompt, this often in a row.
    interruptions: usize,
}

impl Editor {
    /// With `multiline`, Enter adds a line and Alt-Enter sends; otherwise they are the other way round.
    ///
    /// # Errors
    /// The terminal is unusable.
    pub fn new(console: Console, colors: bool, multiline: bool, history: PathBuf) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_ENTRIES)?
            .completion_type(CompletionType::List)
            .color_mode(match colors {
                true => ColorMode::Enabled,
                false => ColorMode::Disabled,
            })
            .build();
        let mut editor =
            rustyline::Editor::with_config(config).context("cannot use the terminal")?;
        editor.set_helper(Some(Completion));
        let (enter, alt_enter) = (
            Enter {
                adds_line: multiline,
            },
            Enter {
                adds_line: !multiline,
            },
        );
        let keys: [(KeyEvent, Box<dyn ConditionalEventHandler>); 3] = [
            (KeyEvent::ctrl('C'), Box::new(ClearOrInterrupt)),
            (KeyEvent(KeyCode::Enter, Modifiers::NONE), Box::new(enter)),
            (
                KeyEvent(KeyCode::Enter, Modifiers::ALT),
                Box::new(alt_enter),
            ),
        ];
        for (key, handler) in keys {
            editor.bind_sequence(key, EventHandler::Conditional(handler));
        }
        let mut editor = Self {
            console,
            editor,
            history: Some(history),
            interruptions: 0,
        };
        editor.load_history();
        Ok(editor)
    }

    /// Lets the person type an input.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub fn read(&mut self) -> Result<Edited> {
        let mut lines = Lines::default();
        loop {
            let prompt = match lines.is_unfinished() {
                true => (CONTINUATION, CONTINUATION),
                false => (PROMPT, BOLD_PROMPT),
            };
            match self.editor.readline(&prompt) {
                Ok(line) => {
                    self.interruptions = 0;
                    if let Some(text) = lines.push(&line) {
                        self.remember(&text);
                        return Ok(Edited::Text(text));
                    }
                }
                Err(ReadlineError::Eof) => {
                    return Ok(lines.finish().map_or(Edited::End, Edited::Text));
                }
                Err(ReadlineError::Interrupted) if lines.is_unfinished() => {
                    lines = Lines::default();
                }
                Err(ReadlineError::Interrupted) => {
                    self.interruptions += 1;
                    if self.interruptions >= 2 {
                        self.console.note("Ctrl-D or /exit leaves the chat");
                    }
                }
                Err(error) => return Err(error).context("cannot read from the terminal"),
            }
        }
    }

    fn load_history(&mut self) {
        let Some(path) = &self.history else { return };
        let outcome = match path.exists() {
            true => self.editor.load_history(path).map_err(anyhow::Error::from),
            false => path
                .parent()
                .map_or(Ok(()), |dir| Ok(create_private_dir(dir)?)),
        };
        self.without_history_on_error(outcome);
    }

    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let added = self.editor.add_history_entry(text);
        let Some(path) = &self.history else { return };
        let outcome = added.and_then(|_| self.editor.append_history(path));
        self.without_history_on_error(outcome.map_err(anyhow::Error::from));
    }

    /// A history that cannot be kept in a file is no reason not to chat.
    fn without_history_on_error(&mut self, outcome: Result<()>) {
        if let (Err(error), Some(path)) = (outcome, &self.history) {
            self.console
                .note(format_args!("no history: {}: {error}", path.display()));
            self.history = None;
        }
    }
}

/// Creates a folder that only its owner can read, unless it is there.
fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Ctrl-C on a line clears it; what it held comes back with Ctrl-Y.
struct ClearOrInterrupt;

impl ConditionalEventHandler for ClearOrInterrupt {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        Some(match at.line() {
            "" => Cmd::Interrupt,
            _ => Cmd::Kill(Movement::WholeBuffer),
        })
    }
}

/// Enter, alone or with Alt.
struct Enter {
    /// Unless the input is a command.
    adds_line: bool,
}

impl ConditionalEventHandler for Enter {
    fn handle(&self, _: &Event, _: RepeatCount, _: bool, at: &EventContext<'_>) -> Option<Cmd> {
        Some(enter(at.line(), self.adds_line))
    }
}

fn enter(text: &str, adds_line: bool) -> Cmd {
    let is_command = text.starts_with('/') && !text.starts_with("//") && !text.contains('\n');
    let goes_on = adds_line && !is_command && !text.is_empty();
    match goes_on || multiline::is_open_block(text) {
        true => Cmd::Newline,
        false => Cmd::AcceptLine,
    }
}

/// Tab completes commands.
struct Completion;

impl Completer for Completion {
    type Candidate = &'static str;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<&'static str>)> {
        Ok((0, candidates(line.get(..cursor).unwrap_or_default())))
    }
}

fn candidates(typed: &str) -> Vec<&'static str> {
    if typed.is_empty() {
        return Vec::new();
    }
    let names = COMMANDS.iter().map(|usage| usage.name);
    names.filter(|name| name.starts_with(typed)).collect()
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Validator for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_sends_unless_the_text_goes_on() {
        for (text, alone, adding) in [
            ("", Cmd::AcceptLine, Cmd::AcceptLine),
            ("hi", Cmd::AcceptLine, Cmd::Newline),
            ("/exit", Cmd::AcceptLine, Cmd::AcceptLine),
            ("/system a\nb", Cmd::AcceptLine, Cmd::Newline),
            ("//exit", Cmd::AcceptLine, Cmd::Newline),
            ("\"\"\"a", Cmd::Newline, Cmd::Newline),
            ("\"\"\"a\"\"\"", Cmd::AcceptLine, Cmd::Newline),
        ] {
            assert_eq!(enter(text, false), alone, "{text:?}");
            assert_eq!(enter(text, true), adding, "{text:?}");
        }
    }

    #[test]
    fn tab_completes_the_beginnings_of_commands() {
        assert_eq!(candidates("/s"), ["/system", "/save", "/stats"]);
        assert_eq!(candidates("/ex"), ["/exit"]);
        assert_eq!(candidates("/"), COMMANDS.map(|usage| usage.name));
        assert!(candidates("").is_empty() && candidates("ex").is_empty());
        assert!(candidates("/save f").is_empty());
    }
}
