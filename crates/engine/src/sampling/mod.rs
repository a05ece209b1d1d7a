//! From logits to a token: the sampler chain.
//!
//! In llama.cpp's order: penalties, DRY, top-k, typical, top-p, min-p, XTC, temperature, draw; with
//! Mirostat 2: penalties, DRY, temperature, Mirostat's own truncation and draw.

mod candidates;
mod draw;
mod dry;
mod dry_breakers;
mod mirostat;
mod params;
mod penalties;
mod temperature;
mod truncation;
mod typical;
mod xtc;

use std::collections::VecDeque;

use candidates::Candidates;
use draw::{Random, draw};
use dry::Dry;
use mirostat::Mirostat;
use typical::Typical;

pub use dry::DryParams;
pub use dry_breakers::{DEFAULT_BREAKERS, breaker_tokens};
pub use mirostat::MirostatParams;
pub use params::{ParamError, SamplerParams};
pub use penalties::PenaltyParams;
pub use temperature::DynamicTemperature;
pub use xtc::XtcParams;

/// Logits from which no token can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum LogitError {
    /// A NaN or positive infinity.
    #[error("the logit of token {token} is {value}")]
    NotFinite {
        /// First such token.
        token: u32,
        /// Its logit.
        value: f32,
    },
    /// Nothing above negative infinity.
    #[error("all {count} logits are -inf: no token can follow")]
    AllMasked {
        /// Size of the vocabulary.
        count: usize,
    },
}

/// Chooses tokens: settings, random generator and the tokens seen so far.
///
/// Draws depend on the seed, the settings, the accepted tokens and the logits, on nothing else.
#[derive(Debug)]
pub struct Sampler {
    params: SamplerParams,
    seed: u64,
    random: Random,
    mirostat: Option<Mirostat>,
    history: History,
    candidates: Candidates,
    typical: Typical,
    dry: Dry,
    /// Logits after the penalties.
    penalized: Vec<f32>,
    /// Copy of a part of the history.
    recent: Vec<u32>,
}

impl Sampler {
    /// A sampler for sequences of up to `n_ctx` tokens.
    pub fn new(params: SamplerParams, n_ctx: usize) -> Result<Self, ParamError> {
        params.validate()?;
        let seed = params.seed.unwrap_or_else(random_seed);
        let mut window = 0;
        if params.penalties.is_active() {
            window = params.penalties.last_n.unwrap_or(n_ctx);
        }
        if params.dry.is_active() {
            window = window.max(params.dry.last_n.unwrap_or(n_ctx));
        }
        let window = window.min(n_ctx);
        Ok(Sampler {
            seed,
            random: Random::new(seed),
            mirostat: params.mirostat.map(Mirostat::new),
            history: History::new(window),
            candidates: Candidates::default(),
            typical: Typical::default(),
            dry: Dry::new(&params.dry),
            penalized: Vec::new(),
            recent: Vec::with_capacity(window),
            params,
        })
    }

    /// The seed in use: the one given, or the random one chosen in its place.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Tells of a token of the sequence, prompt tokens included: the penalties look at them.
    pub fn accept(&mut self, token: u32) {
        self.history.push(token);
    }

    /// Chooses the next token. The caller decides whether to [`Sampler::accept`] it.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, LogitError> {
        if self.penalize(logits) {
            let penalized = std::mem::take(&mut self.penalized);
            let token = self.choose(&penalized);
            self.penalized = penalized;
            token
        } else {
            self.choose(logits)
        }
    }

    /// Fills `penalized`; false when the logits stay as they are.
    fn penalize(&mut self, logits: &[f32]) -> bool {
        let SamplerParams { penalties, dry, .. } = &self.params;
        let active = penalties.is_active() || dry.is_active();
        if !active || self.history.is_empty() {
            return false;
        }
        self.penalized.clear();
        self.penalized.extend_from_slice(logits);
        if penalties.is_active() {
            self.history.copy_newest(penalties.last_n, &mut self.recent);
            penalties.apply(&mut self.penalized, &mut self.recent);
        }
        if dry.is_active() {
            self.history.copy_newest(dry.last_n, &mut self.recent);
            self.dry.apply(dry, &mut self.penalized, &self.recent);
        }
        true
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, LogitError> {
        check(logits)?;
        let params = &self.params;
        let masked = LogitError::AllMasked {
            count: logits.len(),
        };
        let candidates = &mut self.candidates;
        if let Some(mirostat) = &mut self.mirostat {
            candidates.load_all(logits);
            temperature::temperature(candidates, params.temperature, params.dynamic_temperature);
            let drawn = mirostat.draw(candidates, &mut self.random);
            return drawn.map(|c| c.id).ok_or(masked);
        }
        if params.top_k == 0 {
            candidates.load_all(logits);
        } else {
            candidates.load_top_k(logits, params.top_k);
        }
        self.typical.apply(candidates, params.typical_p);
        truncation::top_p(candidates, params.top_p);
        truncation::min_p(candidates, params.min_p);
        xtc::xtc(candidates, params.xtc, &mut self.random);
        temperature::temperature(candidates, params.temperature, params.dynamic_temperature);
        draw(candidates, &mut self.random)
            .map(|c| c.id)
            .ok_or(masked)
    }
}

/// Refuses logits that are NaN, positive infinity, or all negative infinity (masked).
fn check(logits: &[f32]) -> Result<(), LogitError> {
    let mut usable = true;
    let mut any_finite = false;
    for &logit in logits {
        usable &= logit < f32::INFINITY;
        any_finite |= logit > f32::NEG_INFINITY;
    }
    if !usable {
        let unusable = (0u32..)
            .zip(logits)
            .find(|(_, l)| l.is_nan() || **l == f32::INFINITY);
        if let Some((token, &value)) = unusable {
            return Err(LogitError::NotFinite { token, value });
        }
    }
    if !any_finite {
        return Err(LogitError::AllMasked {
            count: logits.len(),
        });
    }
    Ok(())
}

/// Id of the greatest logit, the lowest such id; an error as in [`Sampler::sample`].
pub fn argmax(logits: &[f32]) -> Result<u32, LogitError> {
    check(logits)?;
    let mut best = (0, f32::NEG_INFINITY);
    for (id, &logit) in (0u32..).zip(logits) {
        if logit > best.1 {
            best = (id, logit);
        }
    }
    Ok(best.0)
}

/// The `n` greatest logits and their tokens, the greatest first, the lowest id first among equals.
pub fn best_tokens(logits: &[f32], n: usize) -> Vec<(u32, f32)> {
    let mut candidates = Candidates::default();
    candidates.load_top_k(logits, n);
    candidates.items().iter().map(|c| (c.id, c.logit)).collect()
}

/// A seed from the operating system's randomness, through the keys of the standard hasher.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

/// The last tokens of a sequence.
#[derive(Debug)]
struct History {
    tokens: VecDeque<u32>,
    window: usize,
}

impl History {
    fn new(window: usize) -> Self {
        History {
            tokens: VecDeque::with_capacity(window),
            window,
        }
    }

    fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    fn push(&mut self, token: u32) {
        if self.tokens.len() >= self.window {
            self.tokens.pop_front();
        }
        if self.window > 0 {
            self.tokens.push_back(token);
        }
    }

    /// The `last_n` newest tokens (all when `None`), the newest first.
    fn copy_newest(&self, last_n: Option<usize>, out: &mut Vec<u32>) {
        out.clear();
        out.extend(
            self.tokens
                .iter()
                .rev()
                .take(last_n.unwrap_or(usize::MAX))
                .copied(),
        );
    }
}

#[cfg(test)]
mod tests;
