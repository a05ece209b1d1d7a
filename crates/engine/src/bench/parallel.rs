//! Timed generations side by side.

use std::ops::ControlFlow;
use std::time::Instant;

use super::token_ids;
use crate::sampling::SamplerParams;
use crate::{
    Engine, Error, GenerateOptions, Phase, Request, Scheduler, SchedulerOptions, Statistics,
};

/// Sequences that generate side by side, after prompts that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelBench {
    /// How many.
    pub sequences: usize,
    /// Tokens of each prompt.
    pub prompt: usize,
    /// Those at its beginning that are the same in all prompts.
    pub shared: usize,
    /// Tokens that each generates.
    pub tokens: usize,
}

/// What one run of a [`ParallelBench`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelSample {
    /// What the scheduler did.
    pub statistics: Statistics,
    /// KV cells that hold the rows of all sequences at the end.
    pub cells: usize,
    /// Bytes of these cells.
    pub kv_bytes: u64,
    /// Prompt tokens computed, and the time of the steps with any.
    pub prefill: Phase,
    /// Generated tokens computed in the other steps, and the time of those.
    pub decode: Phase,
    /// Number of the other steps.
    pub decode_steps: usize,
}

impl ParallelBench {
    /// Context length the benchmark needs.
    pub fn n_ctx(self) -> usize {
        self.prompt + self.tokens
    }

    /// Runs it once on an engine without sequences, and gives the engine back without any.
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, or a failure of the engine.
    pub fn run(self, engine: Engine) -> Result<(Engine, ParallelSample), Error> {
        let options = SchedulerOptions {
            parallel: Some(self.sequences),
            ..SchedulerOptions::default()
        };
        let mut scheduler = Scheduler::new(engine, options);
        for prompt in self.prompts(scheduler.engine().model().n_vocab()) {
            scheduler.submit(self.request(prompt))?;
        }
        let sample = measure(&mut scheduler)?;
        Ok((scheduler.into_engine(), sample))
    }

    fn prompts(self, n_vocab: usize) -> Vec<Vec<u32>> {
        let shared = self.shared.min(self.prompt);
        let own = self.prompt - shared;
        let ids = token_ids(n_vocab, shared + own * self.sequences);
        let (prefix, rest) = ids.split_at(shared);
        let own = |i| &rest[i * own..(i + 1) * own];
        let prompts = (0..self.sequences).map(|i| [prefix, own(i)].concat());
        prompts.collect()
    }

    fn request(self, prompt: Vec<u32>) -> Request {
        Request {
            prompt,
            options: GenerateOptions {
                sampler: SamplerParams::greedy(),
                max_tokens: Some(self.tokens),
                ignore_eos: true,
                ..GenerateOptions::default()
            },
            share_generated: false,
        }
    }
}

/// Runs all requests to their ends.
fn measure(scheduler: &mut Scheduler) -> Result<ParallelSample, Error> {
    let mut prefill = Phase::default();
    let mut decode = Phase::default();
    let mut decode_steps = 0;
    let mut failure = None;
    let mut before = scheduler.statistics();
    loop {
        let start = Instant::now();
        let more = scheduler.step(|_, event| {
            if let Err(error) = event {
                failure = Some(error);
            }
            ControlFlow::Continue(())
        });
        let time = start.elapsed();
        let after = scheduler.statistics();
        let prompt_tokens = after.prompt_tokens - before.prompt_tokens;
        if prompt_tokens > 0 {
            prefill.tokens += prompt_tokens;
            prefill.time += time;
        } else {
            decode.tokens += after.generated_tokens - before.generated_tokens;
            decode.time += time;
            decode_steps += 1;
        }
        before = after;
        if let Some(error) = failure {
            return Err(error);
        }
        if !more {
            break;
        }
    }
    let budget = scheduler.engine().kv_budget();
    let cells = scheduler.cells_used();
    Ok(ParallelSample {
        statistics: before,
        cells,
        kv_bytes: budget.bytes / budget.cells.max(1) as u64 * cells as u64,
        prefill,
        decode,
        decode_steps,
    })
}
