//! An answer on its way to the user.

mod summary;
mod thinking;

use std::io::{self, Write};

use anyhow::Result;
use minfer_engine::{Error, Event, Finish, Generator};
use minfer_text::ChatTemplate;

use crate::console::{self, WithHint};
pub use summary::load_summary;
use thinking::ThinkingDimmer;

/// An answer in progress.
pub trait Answering {
    /// Works until there is text to show or the answer is over.
    ///
    /// # Errors
    /// Those of the engine.
    fn next_event(&mut self) -> Result<Event<'_>, Error>;
}

impl Answering for Generator<'_, '_> {
    fn next_event(&mut self) -> Result<Event<'_>, Error> {
        Generator::next_event(self)
    }
}

/// How answers look.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    dims: bool,
    starts_thinking: bool,
}

impl Style {
    /// Thoughts are dimmed if there are `colors`. The template, if it is used, can begin one already.
    pub fn new(colors: bool, template: Option<&ChatTemplate>) -> Self {
        Self {
            dims: colors,
            starts_thinking: colors && template.is_some_and(thinking::begins_in),
        }
    }
}

/// Writes the answer to standard output as it comes, and ends its last line.
///
/// # Errors
/// The engine fails, or standard output cannot be written.
pub fn show(answer: &mut impl Answering, style: Style) -> Result<Finish> {
    let mut output = Streamed::new(style);
    let outcome = stream(answer, &mut output);
    // What was shown before an error stays, and the terminal gets its colours back.
    output.end()?;
    outcome
}

fn stream(answer: &mut impl Answering, output: &mut Streamed) -> Result<Finish> {
    loop {
        match answer.next_event().or_else(advise)? {
            Event::Text(text) => output.write(text)?,
            Event::Done(finish) => return Ok(finish.clone()),
        }
    }
}

/// Adds a hint where a flag would help.
///
/// # Errors
/// Always: the error with its hint.
pub fn advise<T>(error: Error) -> Result<T> {
    match error {
        Error::PromptTooLong { .. } => {
            Err(error).hint("shorten the prompt, or allow a longer context with --n-ctx")
        }
        error => Err(error.into()),
    }
}

/// Standard output that shows text as it comes.
struct Streamed {
    output: console::Output,
    dimmer: Option<ThinkingDimmer>,
    at_line_start: bool,
}

impl Streamed {
    fn new(style: Style) -> Self {
        Self {
            output: console::output(),
            dimmer: style
                .dims
                .then(|| ThinkingDimmer::new(style.starts_thinking)),
            at_line_start: true,
        }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.at_line_start = text.ends_with('\n');
        match &mut self.dimmer {
            Some(dimmer) => self.output.write_all(dimmer.push(text).as_bytes())?,
            None => self.output.write_all(text.as_bytes())?,
        }
        self.output.flush()
    }

    /// Ends the last line.
    fn end(mut self) -> io::Result<()> {
        if let Some(dimmer) = self.dimmer {
            self.output.write_all(dimmer.finish().as_bytes())?;
        }
        if !self.at_line_start {
            writeln!(self.output)?;
        }
        self.output.flush()
    }
}
