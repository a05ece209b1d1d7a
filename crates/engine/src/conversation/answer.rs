//! An answer in progress.

use std::ops::ControlFlow;

use super::State;
use crate::{Error, Event, Finish, FinishReason, GenerateOptions, Generator, Session};

/// What a turn costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnReport {
    /// Prompt tokens to compute.
    pub prefilled: usize,
    /// Tokens of the prompt that the context held already.
    pub reused: usize,
    /// Oldest turns that left the context to make room.
    pub dropped_turns: usize,
    /// Whether what comes after those turns was kept and moved. Otherwise it was computed again, if there was
    /// anything.
    pub shifted: bool,
}

/// A turn for which the session is ready.
pub struct Begun {
    pub report: TurnReport,
    /// Tokens of the prompt to compute.
    pub prompt: Vec<u32>,
    /// Turns that had left the context before.
    pub dropped_before: usize,
}

/// The answer of a turn in progress. Dropping it breaks it off: its text so far stays in the conversation, or,
/// if there is none, the answer that it was to replace.
pub struct Answer<'c, 'e> {
    generator: Generator<'c, 'e>,
    state: &'c mut State,
    report: TurnReport,
    /// The answer that this one replaces.
    former: Option<String>,
    dropped_before: usize,
    failed: bool,
    /// It came to an end that was not a cancellation.
    complete: bool,
}

impl<'c, 'e> Answer<'c, 'e> {
    /// Generates from where `begun` left the session.
    ///
    /// # Errors
    /// An option out of range; the turn is taken back then.
    pub(super) fn new(
        session: &'c mut Session<'e>,
        state: &'c mut State,
        begun: Begun,
        options: GenerateOptions,
        former: Option<String>,
    ) -> Result<Self, Error> {
        match session.generate(&begun.prompt, options) {
            Ok(generator) => {
                state.history.begin_answer(String::new());
                Ok(Answer {
                    generator,
                    state,
                    report: begun.report,
                    former,
                    dropped_before: begun.dropped_before,
                    failed: false,
                    complete: false,
                })
            }
            Err(e) => {
                state.history.take_back(former);
                state.history.set_dropped(begun.dropped_before);
                Err(e)
            }
        }
    }

    /// What the turn costs. Turns that leave the context while the answer is generated are counted as they go.
    pub fn turn(&self) -> TurnReport {
        self.report
    }

    /// The seed of the sampler.
    pub fn seed(&self) -> u64 {
        self.generator.seed()
    }

    /// Works until there is text to show or the answer is over.
    ///
    /// # Errors
    /// A failed step, or logits that no token can be chosen from. The answer is over then; if it has no text,
    /// its turn is taken back.
    pub fn next_event(&mut self) -> Result<Event<'_>, Error> {
        let Answer {
            generator,
            state,
            report,
            failed,
            complete,
            ..
        } = self;
        let event = generator.next_event_with(|session| {
            if state.shift
                && let Some(more) = state.make_room(session)?
            {
                report.prefilled += more.prefilled;
                report.dropped_turns += more.dropped_turns;
                report.shifted |= more.shifted;
            }
            Ok(())
        });
        match event {
            Ok(Event::Text(text)) => state.history.extend_answer(text),
            Ok(Event::Done(finish)) => *complete = finish.reason != FinishReason::Cancelled,
            Err(_) => *failed = true,
        }
        event
    }

    /// Hands all text to `show` until the answer is over or `show` breaks it off.
    ///
    /// # Errors
    /// As [`Answer::next_event`].
    pub fn run(mut self, mut show: impl FnMut(&str) -> ControlFlow<()>) -> Result<Finish, Error> {
        loop {
            match self.next_event()? {
                Event::Done(finish) => return Ok(finish.clone()),
                Event::Text(text) => {
                    if show(text).is_break() {
                        return Ok(self.generator.finished(FinishReason::Cancelled));
                    }
                }
            }
        }
    }
}

impl Drop for Answer<'_, '_> {
    fn drop(&mut self) {
        let went = self.generator.finished(FinishReason::Cancelled);
        let state = &mut *self.state;
        state.prefilled += went.prefill.tokens;
        state.generated += went.generated;
        state.settle(self.generator.session_mut());
        if state.history.answer() != Some("") {
            return;
        }
        if self.failed {
            state.history.take_back(self.former.take());
            state.history.set_dropped(self.dropped_before);
        } else if !self.complete && self.former.is_some() {
            state.history.take_back(self.former.take());
        }
    }
}
