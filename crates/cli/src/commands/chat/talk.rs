//! The conversation between the user's entries and the engine.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use minfer_engine::{Conversation, Error, Finish, FinishReason, GenerateOptions, TurnReport};

use super::command::Command;
use super::report;
use crate::answer::{self, Style};
use crate::console::{self, Console};
use crate::interrupt::Interrupt;
use crate::saved;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Ctrl-C ended the answer.
    Interrupted,
    /// An error was reported.
    Failed,
}

/// A conversation with what it takes to answer in it.
pub struct Talk<'e> {
    console: Console,
    conversation: Conversation<'e>,
    options: GenerateOptions,
    style: Style,
    interrupt: Interrupt,
    /// Where the conversation is kept.
    file: Option<PathBuf>,
    /// Whether it changed since it was saved there.
    unsaved: bool,
    /// Answers to the last message that were not wanted.
    rejected: u64,
    last: Option<Finish>,
}

impl<'e> Talk<'e> {
    pub fn new(
        console: Console,
        conversation: Conversation<'e>,
        options: GenerateOptions,
        style: Style,
        interrupt: Interrupt,
    ) -> Self {
        Self {
            console,
            conversation,
            options,
            style,
            interrupt,
            file: None,
            unsaved: false,
            rejected: 0,
            last: None,
        }
    }

    /// Keeps the conversation in a file, and goes on with the one that is there.
    ///
    /// # Errors
    /// The file holds something else.
    pub fn keep_in(&mut self, path: PathBuf) -> Result<()> {
        saved::resume_if_exists(self.console, &mut self.conversation, &path)?;
        self.file = Some(path);
        Ok(())
    }

    /// Sets the instructions, from the next turn on.
    pub fn set_system(&mut self, text: Option<String>) {
        self.conversation.set_system(text);
        self.unsaved = true;
    }

    /// Answers a message.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn ask(&mut self, text: &str) -> Result<Outcome> {
        self.rejected = 0;
        self.turn(Some(text))
    }

    /// Does what a command says; leaving is up to the caller.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn obey(&mut self, command: Command) -> Result<Outcome> {
        match command {
            Command::Regenerate => {
                self.rejected += 1;
                return self.turn(None);
            }
            Command::Clear => {
                self.conversation.clear();
                self.unsaved = true;
                self.console.note("forgot all turns");
            }
            Command::Undo => match self.conversation.undo() {
                Some(text) => {
                    self.unsaved = true;
                    let text = report::excerpt(&text);
                    self.console.note(format_args!("forgot the turn {text:?}"));
                }
                None => return Ok(fail(&anyhow!("there is no turn to forget"))),
            },
            Command::System(text) => {
                let what = if text.is_some() { "new" } else { "no" };
                self.console
                    .note(format_args!("{what} instructions from the next turn on"));
                self.set_system(text);
            }
            Command::Save(path) => return Ok(self.save_to(path)),
            Command::Load(path) => return Ok(self.load(&path)),
            Command::Stats => {
                let stats = self.conversation.stats();
                let last = self.last.as_ref();
                let last = last.map(|finish| answer::summary(finish, &self.options));
                console::tell(report::stats(&stats, last.as_deref()));
            }
            Command::Help => console::tell(report::help()),
            Command::Exit => {}
        }
        Ok(Outcome::Done)
    }

    /// Saves what changed since the last answer.
    pub fn close(mut self) -> Outcome {
        match self.unsaved {
            true => self.save(),
            false => Outcome::Done,
        }
    }

    /// Answers a new message, or the last one anew.
    fn turn(&mut self, text: Option<&str>) -> Result<Outcome> {
        let shown = self.answer(text);
        self.interrupt.idle();
        let answered = match shown {
            // Nobody reads on, but what was said is kept.
            Err(closed) => {
                self.save();
                return Err(closed.into());
            }
            Ok(Err(error)) => return Ok(fail(&answer::advise(error))),
            Ok(Ok(None)) => return Ok(fail(&anyhow!("there is no answer to give anew"))),
            Ok(Ok(Some(answered))) => answered,
        };
        let (finish, turn) = answered;
        let stats = self.conversation.stats();
        if let Some(note) = saved::dropped(turn.dropped_turns) {
            self.console.note(note);
        }
        if answer::filled_context(&finish, &self.options) {
            let n_ctx = stats.n_ctx;
            self.console.note(format_args!(
                "the answer ended because the context of {n_ctx} tokens is full"
            ));
        }
        self.console
            .detail(report::turn(&finish, &self.options, &stats));
        let interrupted = finish.reason == FinishReason::Cancelled;
        self.last = Some(finish);
        Ok(match self.save() {
            Outcome::Done if interrupted => Outcome::Interrupted,
            outcome => outcome,
        })
    }

    /// Shows an answer; none if there is no turn to answer anew.
    fn answer(
        &mut self,
        text: Option<&str>,
    ) -> io::Result<Result<Option<(Finish, TurnReport)>, Error>> {
        let mut options = GenerateOptions {
            cancel: Some(self.interrupt.answering()),
            ..self.options.clone()
        };
        // Another answer to the same message needs other choices.
        let seed = &mut options.sampler.seed;
        *seed = seed.map(|seed| seed.wrapping_add(self.rejected));
        let begun = match text {
            Some(text) => self.conversation.ask(text, options).map(Some),
            None => self.conversation.regenerate(options),
        };
        let answer = match begun {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        };
        self.unsaved = true;
        Ok(answer::show_turn(answer, self.style)?.map(Some))
    }

    /// Saves the conversation where it is kept, if it is.
    fn save(&mut self) -> Outcome {
        let Some(path) = &self.file else {
            return Outcome::Done;
        };
        match saved::save(self.console, &mut self.conversation, path) {
            Ok(()) => {
                self.unsaved = false;
                Outcome::Done
            }
            Err(error) => fail(&error),
        }
    }

    fn save_to(&mut self, path: Option<PathBuf>) -> Outcome {
        let Some(path) = path.or_else(|| self.file.clone()) else {
            return fail(&anyhow!("name a file: /save FILE"));
        };
        let saved = match self.file.as_deref() == Some(&path) {
            true => Ok(()),
            false => saved::check_replaceable(&path),
        };
        let saved = saved.and_then(|()| saved::save(self.console, &mut self.conversation, &path));
        match saved {
            Ok(()) => {
                self.console
                    .note(format_args!("saved to {}", path.display()));
                Outcome::Done
            }
            Err(error) => fail(&error),
        }
    }

    fn load(&mut self, path: &Path) -> Outcome {
        match saved::load(self.console, &mut self.conversation, path) {
            Ok(()) => {
                // Should it have been loaded by mistake, what is kept is still there.
                self.unsaved = false;
                if let Some(kept) = self.file.as_deref().filter(|kept| *kept != path) {
                    let kept = kept.display();
                    self.console.note(format_args!(
                        "the next answer replaces the conversation in {kept}"
                    ));
                }
                Outcome::Done
            }
            Err(error) => fail(&error),
        }
    }
}

/// Reports an error after which the chat goes on.
pub fn fail(error: &anyhow::Error) -> Outcome {
    console::report(error);
    Outcome::Failed
}
