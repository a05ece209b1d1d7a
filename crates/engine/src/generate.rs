//! Text generation: sample, detokenize, watch for stop strings.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use minfer_text::{Detokenizer, StopMatcher, StopStrings, Tokenizer};

use crate::sampling::{Sampler, SamplerParams};
use crate::{Error, Session};

/// How to continue a prompt.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// How tokens are chosen.
    pub sampler: SamplerParams,
    /// Most tokens to generate; the rest of the context when absent.
    pub max_tokens: Option<usize>,
    /// Strings that end the text. They are not part of it.
    pub stop: Vec<String>,
    /// Ends the generation soon after another thread sets it.
    pub cancel: Option<Arc<AtomicBool>>,
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
    /// Prompt tokens and the time to compute them.
    pub prefill: Phase,
    /// Decode steps and their time, sampling included. The first generated token needs none: its
    /// logits come with the prompt.
    pub decode: Phase,
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
    tokenizer: Arc<Tokenizer>,
    sampler: Sampler,
    prompt: Vec<u32>,
    max_tokens: usize,
    cancel: Option<Arc<AtomicBool>>,
    /// The last sampled token, not yet in the session.
    pending: Option<u32>,
    output: Output,
    progress: Progress,
    finish: Option<Finish>,
}

#[derive(Debug, Default)]
struct Progress {
    generated: usize,
    prefill: Phase,
    decode: Phase,
}

/// From tokens to the text that may be shown.
struct Output {
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    stops: Vec<String>,
    matcher: StopMatcher,
    text: String,
}

impl Output {
    fn new(tokenizer: Arc<Tokenizer>, stops: Vec<String>) -> Self {
        Output {
            detokenizer: Detokenizer::continuing(tokenizer),
            matcher: StopStrings::new(&stops).matcher(),
            stops,
            text: String::new(),
        }
    }

    /// Appends the text that a token completes; the stop string, if it completes one.
    fn push(&mut self, token: u32) -> Option<&str> {
        let found = self.matcher.push(self.detokenizer.push(token));
        self.text.push_str(found.text);
        self.stops.get(found.stopped?).map(String::as_str)
    }

    /// Appends what was held back. Left-over bytes cannot complete a stop string that their character
    /// did not.
    fn flush(&mut self) {
        let rest = self.matcher.push(self.detokenizer.finish());
        self.text.push_str(rest.text);
        self.text.push_str(self.matcher.finish());
    }
}

impl<'e> Session<'e> {
    /// Starts to continue this session with `prompt` and then with generated tokens. Nothing is computed
    /// before the first event is asked for.
    ///
    /// # Errors
    /// A sampling parameter out of range.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: GenerateOptions,
    ) -> Result<Generator<'_, 'e>, Error> {
        let tokenizer = Arc::clone(self.engine().tokenizer());
        let mut sampler = Sampler::new(options.sampler, self.engine().n_ctx())?;
        for &token in self.tokens() {
            sampler.accept(token);
        }
        Ok(Generator {
            output: Output::new(Arc::clone(&tokenizer), options.stop),
            session: self,
            tokenizer,
            sampler,
            prompt: prompt.to_vec(),
            max_tokens: options.max_tokens.unwrap_or(usize::MAX),
            cancel: options.cancel,
            pending: None,
            progress: Progress::default(),
            finish: None,
        })
    }
}

impl Generator<'_, '_> {
    /// The seed of the sampler.
    pub fn seed(&self) -> u64 {
        self.sampler.seed()
    }

    /// Works until there is text to show or the generation is over.
    ///
    /// # Errors
    /// A prompt that does not fit, a failed step, or logits that no token can be chosen from.
    pub fn next_event(&mut self) -> Result<Event<'_>, Error> {
        self.output.text.clear();
        while self.finish.is_none() && self.output.text.is_empty() {
            if let Some(reason) = self.advance()? {
                self.end(reason);
            }
        }
        Ok(match &self.finish {
            Some(finish) if self.output.text.is_empty() => Event::Done(finish),
            _ => Event::Text(&self.output.text),
        })
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

    /// Computes one more token; the reason if there is none.
    fn advance(&mut self) -> Result<Option<FinishReason>, Error> {
        if self.progress.prefill.tokens == 0 && !self.prefill()? {
            return Ok(Some(FinishReason::Cancelled));
        }
        if is_set(&self.cancel) {
            return Ok(Some(FinishReason::Cancelled));
        }
        if self.progress.generated >= self.max_tokens {
            return Ok(Some(FinishReason::Length));
        }
        let start = Instant::now();
        let decodes = self.pending.is_some();
        if let Some(token) = self.pending.take() {
            if self.session.room() == 0 {
                return Ok(Some(FinishReason::Length));
            }
            self.session.decode(token)?;
        }
        let token = self.sample()?;
        if decodes {
            self.progress.decode.tokens += 1;
            self.progress.decode.time += start.elapsed();
        }
        if self.tokenizer.is_end_of_generation(token) {
            return Ok(Some(FinishReason::Eos));
        }
        self.progress.generated += 1;
        self.pending = Some(token);
        let stop = self.output.push(token);
        Ok(stop.map(|stop| FinishReason::Stop(stop.to_owned())))
    }

    /// Computes the prompt; false if it was cancelled.
    fn prefill(&mut self) -> Result<bool, Error> {
        let start = Instant::now();
        let before = self.session.tokens().len();
        let cancel = &self.cancel;
        let complete = self
            .session
            .prefill_while(&self.prompt, || !is_set(cancel))?;
        self.progress.prefill = Phase {
            tokens: self.session.tokens().len() - before,
            time: start.elapsed(),
        };
        for &token in &self.prompt {
            self.sampler.accept(token);
        }
        Ok(complete)
    }

    fn sample(&mut self) -> Result<u32, Error> {
        let token = self
            .sampler
            .sample(self.session.logits())
            .map_err(|source| Error::Logits {
                position: self.session.tokens().len(),
                source,
            })?;
        self.sampler.accept(token);
        Ok(token)
    }

    fn end(&mut self, reason: FinishReason) {
        if !matches!(reason, FinishReason::Stop(_)) {
            self.output.flush();
        }
        self.finish = Some(self.finished(reason));
    }

    fn finished(&self, reason: FinishReason) -> Finish {
        Finish {
            reason,
            generated: self.progress.generated,
            prefill: self.progress.prefill,
            decode: self.progress.decode,
        }
    }
}

fn is_set(cancel: &Option<Arc<AtomicBool>>) -> bool {
    cancel
        .as_ref()
        .is_some_and(|flag| flag.load(Ordering::Relaxed))
}
