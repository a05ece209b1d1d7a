//! Text generation: draft, compute, sample, detokenize, watch for stop strings.

mod continuation;
mod output;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub(crate) use continuation::Continuation;

use crate::draft::Drafter;
use crate::sampling::SamplerParams;
use crate::{DraftOptions, Error, Session};

/// How to continue a prompt.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampler: SamplerParams,
    /// Most tokens to generate; the rest of the context when absent.
    pub max_tokens: Option<usize>,
    /// Goes on after an end-of-generation token.
    pub ignore_eos: bool,
    /// Strings that end the text. They are not part of it.
    pub stop: Vec<String>,
    /// Ends the generation soon after another thread sets it.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Whether tokens are guessed ahead. The text is the same, but comes sooner where guesses are right.
    pub draft: DraftOptions,
}

/// Why a generation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model generated an end-of-generation token.
    Eos,
    /// This stop string appeared.
    Stop(String),
    /// The most tokens asked for were generated, or the context is full.
    Length,
    /// The caller did not want more.
    Cancelled,
}

/// Tokens of one kind and the time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// Tokens computed.
    pub tokens: usize,
    /// Time in all.
    pub time: Duration,
}

impl Phase {
    /// Tokens per second; `None` when there were none.
    pub fn rate(self) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        (self.tokens > 0 && seconds > 0.0).then(|| self.tokens as f64 / seconds)
    }
}

/// How a generation went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// Tokens generated, without the end-of-generation token.
    pub generated: usize,
    /// Prompt tokens whose rows another request had computed. None in a session.
    pub reused: usize,
    /// Prompt tokens computed and the time to compute them.
    pub prefill: Phase,
    /// Decode steps and their time, sampling included. The first generated token needs none: its
    /// logits come with the prompt.
    pub decode: Phase,
    /// Tokens guessed ahead and verified.
    pub drafted: usize,
    /// Those of them that became part of the text.
    pub accepted: usize,
}

/// What [`Generator::next_event`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'g> {
    /// More text, never empty, never part of a stop string.
    Text(&'g str),
    /// The end; every further call reports it again.
    Done(&'g Finish),
}

/// A generation in progress.
pub struct Generator<'s, 'e> {
    session: &'s mut Session<'e>,
    prompt: Vec<u32>,
    /// The last sampled token, not yet in the session.
    pending: Option<u32>,
    continuation: Continuation,
    drafter: Drafter,
    /// Tokens of a step: the pending one and the draft after it.
    step: Vec<u32>,
    finish: Option<Finish>,
}

impl<'e> Session<'e> {
    /// Starts to continue this session with `prompt` and then with generated tokens. Nothing is computed
    /// before the first event is asked for.
    ///
    /// # Errors
    /// A sampling parameter out of range, or drafts that the engine was not made for.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: GenerateOptions,
    ) -> Result<Generator<'_, 'e>, Error> {
        let tokenizer = Arc::clone(self.engine().tokenizer());
        let most_drafted = self.engine().max_draft();
        let mut drafter = Drafter::new(&options.draft, most_drafted)?;
        drafter.extend(self.tokens());
        let mut continuation = Continuation::new(tokenizer, options, self.engine().n_ctx())?;
        continuation.accept(self.tokens());
        Ok(Generator {
            session: self,
            prompt: prompt.to_vec(),
            pending: None,
            continuation,
            drafter,
            step: Vec::with_capacity(1 + most_drafted),
            finish: None,
        })
    }
}

impl<'e> Generator<'_, 'e> {
    /// The seed of the sampler.
    pub fn seed(&self) -> u64 {
        self.continuation.seed()
    }

    /// Works until there is text to show or the generation is over.
    ///
    /// # Errors
    /// A prompt that does not fit, a failed step, or logits that no token can be chosen from. None of a prompt
    /// that failed stays in the session.
    pub fn next_event(&mut self) -> Result<Event<'_>, Error> {
        self.next_event_with(|_| Ok(()))
    }

    /// [`Generator::next_event`]. Before a token that the context has no room for, `make_room` may shift the
    /// session.
    pub(crate) fn next_event_with(
        &mut self,
        mut make_room: impl FnMut(&mut Session<'e>) -> Result<(), Error>,
    ) -> Result<Event<'_>, Error> {
        self.continuation.clear_text();
        while self.finish.is_none() && self.continuation.text().is_empty() {
            if self.pending.is_some()
                && self.session.room() == 0
                && !self.continuation.is_complete()
            {
                make_room(self.session)?;
            }
            if let Some(reason) = self.advance()? {
                self.finish = Some(self.continuation.end(reason));
            }
        }
        Ok(match &self.finish {
            Some(finish) if self.continuation.text().is_empty() => Event::Done(finish),
            _ => Event::Text(self.continuation.text()),
        })
    }

    /// How it went, if it ended now for `reason`.
    pub(crate) fn finished(&self, reason: FinishReason) -> Finish {
        self.continuation.finished(reason)
    }

    /// The session, to which nothing is added before the next event is asked for.
    pub(crate) fn session_mut(&mut self) -> &mut Session<'e> {
        self.session
    }

    /// Hands all text to `show` until the generation is over or `show` breaks it off.
    ///
    /// # Errors
    /// As [`Generator::next_event`].
    pub fn run(mut self, mut show: impl FnMut(&str) -> ControlFlow<()>) -> Result<Finish, Error> {
        loop {
            match self.next_event()? {
                Event::Done(finish) => return Ok(finish.clone()),
                Event::Text(text) => {
                    if show(text).is_break() {
                        return Ok(self.finished(FinishReason::Cancelled));
                    }
                }
            }
        }
    }

    /// Computes at least one more token; the reason if there is none.
    fn advance(&mut self) -> Result<Option<FinishReason>, Error> {
        if self.continuation.prefill.tokens == 0 && !self.prefill()? {
            return Ok(Some(FinishReason::Cancelled));
        }
        if self.continuation.is_cancelled() {
            return Ok(Some(FinishReason::Cancelled));
        }
        if self.continuation.is_complete() {
            return Ok(Some(FinishReason::Length));
        }
        let chosen = match self.pending.take() {
            Some(_) if self.session.room() == 0 => ControlFlow::Break(FinishReason::Length),
            Some(token) => self.decode(token)?,
            None => {
                let position = self.session.tokens().len();
                self.continuation.choose(self.session.logits(), position)?
            }
        };
        Ok(match chosen {
            ControlFlow::Break(reason) => Some(reason),
            ControlFlow::Continue(token) => {
                self.drafter.push(token);
                self.pending = Some(token);
                None
            }
        })
    }

    /// Computes a chosen token and the draft that follows it, and chooses a token after each of them up to
    /// the first that was not drafted. Tokens of the draft beyond it leave the session again.
    fn decode(&mut self, token: u32) -> Result<ControlFlow<FinishReason, u32>, Error> {
        let start = Instant::now();
        let before = self.session.tokens().len();
        self.step.clear();
        self.step.push(token);
        // The token itself needs room, and one token is chosen after the draft.
        let most = self.session.room().min(self.continuation.remaining()) - 1;
        self.step.extend_from_slice(self.drafter.draft(most));
        self.session.verify(&self.step)?;
        let mut kept = 0;
        let chosen = loop {
            let logits = self.session.logits_at(kept);
            kept += 1;
            match self.continuation.choose(logits, before + kept) {
                Ok(ControlFlow::Continue(token)) if self.step.get(kept) == Some(&token) => {
                    self.drafter.push(token);
                }
                chosen => break chosen,
            }
        };
        self.session.truncate(before + kept);
        self.continuation.drafted += self.step.len() - 1;
        self.continuation.accepted += kept - 1;
        self.continuation.decode.tokens += kept;
        self.continuation.decode.time += start.elapsed();
        chosen
    }

    /// Computes the prompt; false if it was cancelled.
    fn prefill(&mut self) -> Result<bool, Error> {
        let start = Instant::now();
        let before = self.session.tokens().len();
        let continuation = &self.continuation;
        let proceed = || !continuation.is_cancelled();
        let complete = self.session.prefill_while(&self.prompt, proceed);
        if complete.is_err() {
            // Whoever asks again gets the prompt from its first token.
            self.session.truncate(before);
        }
        let complete = complete?;
        self.continuation.prefill = Phase {
            tokens: self.session.tokens().len() - before,
            time: start.elapsed(),
        };
        self.continuation.accept(&self.prompt);
        self.drafter.extend(&self.prompt);
        Ok(complete)
    }
}
