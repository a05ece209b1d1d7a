//! An answer on its way to the user.

mod summary;
mod thinking;

use std::io::{self, Write};

use minfer_engine::{Answer, Error, Event, Finish, Generator, TurnReport};
use minfer_text::ChatTemplate;

use crate::console;
pub use summary::{filled_context, load_summary, summary};
use thinking::ThinkingDimmer;
pub use thinking::UNDIM;

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

impl Answering for Answer<'_, '_> {
    fn next_event(&mut self) -> Result<Event<'_>, Error> {
        Answer::next_event(self)
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

/// Writes the answer to standard output as it comes, and ends its last line. What was shown before the engine
/// failed stays.
///
/// # Errors
/// Standard output cannot be written.
pub fn show(answer: &mut impl Answering, style: Style) -> io::Result<Result<Finish, Error>> {
    let mut output = Streamed::new(style);
    let outcome = loop {
        match answer.next_event() {
            Ok(Event::Text(text)) => output.write(text)?,
            Ok(Event::Done(finish)) => break Ok(finish.clone()),
            Err(error) => break Err(error),
        }
    };
    output.end()?;
    Ok(outcome)
}

/// Shows the answer of a conversation's turn as [`show`] does; how it went, with the tokens that the context held
/// already, and what the turn cost.
///
/// # Errors
/// As [`show`].
pub fn show_turn(
    mut answer: Answer<'_, '_>,
    style: Style,
) -> io::Result<Result<(Finish, TurnReport), Error>> {
    let finish = show(&mut answer, style)?;
    let turn = answer.turn();
    let reused = turn.reused;
    Ok(finish.map(|finish| (Finish { reused, ..finish }, turn)))
}

/// Adds a hint where a flag would help.
pub fn advise(error: Error) -> anyhow::Error {
    match error {
        Error::PromptTooLong { used: 0, .. } => {
            let hint = "shorten the prompt, or allow a longer context with --n-ctx";
            console::hinted(error, hint)
        }
        Error::PromptTooLong { .. } => {
            let hint = "in a chat /undo and /clear make room; --n-ctx allows a longer context";
            console::hinted(error, hint)
        }
        error => error.into(),
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
