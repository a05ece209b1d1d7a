//! Timed prefill and decode, with llama-bench's meaning.

mod parallel;

use std::time::{Duration, Instant};

pub use parallel::{ParallelBench, ParallelSample};

use crate::{Engine, Error};

/// What one benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// Prefill of a prompt of `tokens` tokens.
    Prefill {
        /// Timed tokens.
        tokens: usize,
        /// Tokens already in the context.
        depth: usize,
    },
    /// `tokens` decode steps of one token each.
    Decode {
        /// Timed tokens.
        tokens: usize,
        /// Tokens already in the context.
        depth: usize,
    },
}

impl Bench {
    /// Context length the benchmark needs.
    pub fn n_ctx(self) -> usize {
        let (Bench::Prefill { tokens, depth } | Bench::Decode { tokens, depth }) = self;
        // The warm-up of a decode is one token.
        depth + tokens.max(1)
    }
}

impl Engine {
    /// Runs a benchmark `repetitions` times after an untimed warm-up; returns every sample.
    ///
    /// Token ids are pseudo-random, the same at every call: speed must not depend on them.
    pub fn bench(&mut self, bench: Bench, repetitions: usize) -> Result<Vec<Duration>, Error> {
        match bench {
            Bench::Prefill { tokens, depth } => self.bench_prefill(tokens, depth, repetitions),
            Bench::Decode { tokens, depth } => self.bench_decode(tokens, depth, repetitions),
        }
    }

    fn bench_prefill(
        &mut self,
        tokens: usize,
        depth: usize,
        repetitions: usize,
    ) -> Result<Vec<Duration>, Error> {
        let ids = token_ids(self.model().n_vocab(), depth + tokens);
        let (context, prompt) = ids.split_at(depth);
        let mut session = self.session();
        if depth > 0 {
            session.prefill(context)?;
        }
        session.prefill(prompt)?;
        let mut samples = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            session.truncate(depth);
            let start = Instant::now();
            session.prefill(prompt)?;
            samples.push(start.elapsed());
        }
        Ok(samples)
    }

    fn bench_decode(
        &mut self,
        tokens: usize,
        depth: usize,
        repetitions: usize,
    ) -> Result<Vec<Duration>, Error> {
        let ids = token_ids(self.model().n_vocab(), depth + tokens + 1);
        let (context, generated) = ids.split_at(depth);
        let mut session = self.session();
        if depth > 0 {
            session.prefill(context)?;
        }
        if let Some(&warm_up) = generated.first() {
            session.decode(warm_up)?;
        }
        let mut samples = Vec::with_capacity(repetitions);
        for _ in 0..repetitions {
            session.truncate(depth);
            let start = Instant::now();
            for &token in generated.iter().take(tokens) {
                session.decode(token)?;
            }
            samples.push(start.elapsed());
        }
        Ok(samples)
    }
}

/// Token ids from a linear congruential generator (Knuth's MMIX constants).
fn token_ids(n_vocab: usize, count: usize) -> Vec<u32> {
    let mut state = 1u64;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % n_vocab.max(1) as u64) as u32
        })
        .collect()
}
