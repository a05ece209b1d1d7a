//! A generation but for the computing: from logits to tokens, text and an end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minfer_text::Tokenizer;

use super::output::Output;
use super::{Finish, FinishReason, GenerateOptions, Phase};
use crate::Error;
use crate::sampling::Sampler;

/// What becomes of a model's logits. Who owns it computes the tokens.
pub(crate) struct Continuation {
    tokenizer: Arc<Tokenizer>,
    sampler: Sampler,
    output: Output,
    max_tokens: usize,
    ignore_eos: bool,
    cancel: Option<Arc<AtomicBool>>,
    /// Tokens chosen, without the end-of-generation token.
    generated: usize,
    pub prefill: Phase,
    pub decode: Phase,
    /// See [`Finish::reused`].
    pub reused: usize,
    /// See [`Finish::drafted`] and [`Finish::accepted`].
    pub drafted: usize,
    pub accepted: usize,
}

impl Continuation {
    /// For sequences of up to `n_ctx` tokens.
    ///
    /// # Errors
    /// A sampling parameter out of range.
    pub fn new(
        tokenizer: Arc<Tokenizer>,
        options: GenerateOptions,
        n_ctx: usize,
    ) -> Result<Self, Error> {
        Ok(Continuation {
            sampler: Sampler::new(options.sampler, n_ctx)?,
            output: Output::new(Arc::clone(&tokenizer), options.stop),
            tokenizer,
            max_tokens: options.max_tokens.unwrap_or(usize::MAX),
            ignore_eos: options.ignore_eos,
            cancel: options.cancel,
            generated: 0,
            prefill: Phase::default(),
            decode: Phase::default(),
            reused: 0,
            drafted: 0,
            accepted: 0,
        })
    }

    pub fn seed(&self) -> u64 {
        self.sampler.seed()
    }

    /// Tells of tokens that were not generated here.
    pub fn accept(&mut self, tokens: &[u32]) {
        for &token in tokens {
            self.sampler.accept(token);
        }
    }

    pub fn is_cancelled(&self) -> bool {
        let flag = self.cancel.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Tokens that may still be generated.
    pub fn remaining(&self) -> usize {
        self.max_tokens.saturating_sub(self.generated)
    }

    /// Whether as many tokens were generated as were asked for.
    pub fn is_complete(&self) -> bool {
        self.generated >= self.max_tokens
    }

    /// Chooses the token after `position` tokens and takes its text; why there is none to compute, if so.
    ///
    /// # Errors
    /// Logits that no token can be chosen from.
    pub fn choose(
        &mut self,
        logits: &[f32],
        position: usize,
    ) -> Result<ControlFlow<FinishReason, u32>, Error> {
        let chosen = self.sampler.sample(logits);
        let token = chosen.map_err(|source| Error::Logits { position, source })?;
        self.sampler.accept(token);
        if !self.ignore_eos && self.tokenizer.is_end_of_generation(token) {
            return Ok(ControlFlow::Break(FinishReason::Eos));
        }
        self.generated += 1;
        Ok(match self.output.push(token) {
            Some(stop) => ControlFlow::Break(FinishReason::Stop(stop.to_owned())),
            None => ControlFlow::Continue(token),
        })
    }

    /// Text since the last [`Continuation::clear_text`].
    pub fn text(&self) -> &str {
        self.output.text()
    }

    pub fn clear_text(&mut self) {
        self.output.clear();
    }

    /// Ends the text. Only a stop string swallows what was held back.
    pub fn end(&mut self, reason: FinishReason) -> Finish {
        if !matches!(reason, FinishReason::Stop(_)) {
            self.output.flush();
        }
        self.finished(reason)
    }

    pub fn finished(&self, reason: FinishReason) -> Finish {
        Finish {
            reason,
            generated: self.generated,
            reused: self.reused,
            drafted: self.drafted,
            accepted: self.accepted,
            prefill: self.prefill,
            decode: self.decode,
        }
    }
}
