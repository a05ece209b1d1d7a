//! `minfer bench --parallel`: sequences that generate side by side.

use std::path::{Path, PathBuf};

use anyhow::Result;
use minfer_engine::{Engine, EngineOptions, ParallelBench, ParallelSample};
use serde::Serialize;

use super::report::{Line, Report, cell, mean_and_deviation, quoted};
use super::{BenchArgs, nothing_to_measure};
use crate::arguments;
use crate::console::{self, Console};
use crate::environment::Environment;
use crate::loading;
use crate::model_file::Resolver;

pub fn execute(console: Console, args: &BenchArgs) -> Result<()> {
    let tests = tests(args)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut report = Report::new(args.output, console::output())?;
    for threads in args.thread_counts() {
        let n_ctx = tests.iter().map(|test| test.n_ctx()).max();
        let most = tests.iter().map(|test| test.sequences).max();
        let options = EngineOptions {
            parallel: most.unwrap_or(1),
            ..args.loading.engine_options(threads, n_ctx)?
        };
        let mut engine = loading::load(console, &path, &options)?;
        for &test in &tests {
            let line;
            (engine, line) = measure(engine, test, args.repetitions.get(), &path)?;
            report.add(&line)?;
        }
        if let Some(profile) = engine.profile() {
            console.note(profile);
        }
    }
    report.end()
}

/// The tests in the order of their printing.
fn tests(args: &BenchArgs) -> Result<Vec<ParallelBench>> {
    let mut tests = Vec::new();
    let prompts = args.n_prompt.iter().filter(|&&tokens| tokens > 0);
    for &prompt in prompts {
        if args.shared_prefix > prompt {
            return Err(arguments::invalid(format_args!(
                "--shared-prefix is {}, but a prompt has only {prompt} tokens",
                args.shared_prefix
            )));
        }
        for &tokens in args.n_gen.iter().filter(|&&tokens| tokens > 0) {
            tests.extend(args.parallel.iter().map(|sequences| ParallelBench {
                sequences: sequences.get(),
                prompt,
                shared: args.shared_prefix,
                tokens,
            }));
        }
    }
    match tests.is_empty() {
        true => Err(nothing_to_measure()),
        false => Ok(tests),
    }
}

/// Runs a test once without counting it, then `repetitions` times.
fn measure(
    engine: Engine,
    test: ParallelBench,
    repetitions: usize,
    path: &Path,
) -> Result<(Engine, Throughput)> {
    let (mut engine, first) = test.run(engine)?;
    let mut samples = Vec::with_capacity(repetitions);
    for _ in 0..repetitions {
        let sample;
        (engine, sample) = test.run(engine)?;
        samples.push(sample);
    }
    let line = Throughput::new(&engine, test, path, &first, &samples)?;
    Ok((engine, line))
}

/// One test's result. All repetitions compute the same; they differ in time.
#[derive(Debug, Clone, Serialize)]
struct Throughput {
    model: String,
    model_path: PathBuf,
    backend: String,
    threads: usize,
    n_ubatch: usize,
    cache_type: &'static str,
    /// Sequences side by side.
    parallel: usize,
    /// Tokens of each prompt, and those that all share.
    n_prompt: usize,
    n_shared: usize,
    /// Tokens that each sequence generates.
    n_gen: usize,
    /// Prompt tokens computed, and those that were shared instead.
    prompt_tokens: usize,
    shared_tokens: usize,
    /// KV cells with rows at the end, and their bytes.
    kv_cells: usize,
    kv_bytes: u64,
    /// Prompt tokens computed per second.
    prefill_ts: Vec<f64>,
    /// Tokens per second of all sequences together, while none has a prompt to compute.
    decode_ts: Vec<f64>,
    /// The same of one sequence.
    sequence_ts: Vec<f64>,
}

impl Throughput {
    fn new(
        engine: &Engine,
        test: ParallelBench,
        path: &Path,
        first: &ParallelSample,
        samples: &[ParallelSample],
    ) -> Result<Self> {
        let rates = |rate: fn(&ParallelSample) -> Option<f64>| {
            let rates = samples.iter().map(|sample| rate(sample).unwrap_or(0.0));
            rates.collect()
        };
        Ok(Throughput {
            model: super::describe(path)?.name,
            model_path: path.to_owned(),
            backend: loading::backend(engine),
            threads: engine.threads(),
            n_ubatch: engine.ubatch(),
            cache_type: minfer_engine::kv_format_name(engine.kv_format()),
            parallel: test.sequences,
            n_prompt: test.prompt,
            n_shared: test.shared,
            n_gen: test.tokens,
            prompt_tokens: first.statistics.prompt_tokens,
            shared_tokens: first.statistics.shared_tokens,
            kv_cells: first.cells,
            kv_bytes: first.kv_bytes,
            prefill_ts: rates(|sample| sample.prefill.rate()),
            decode_ts: rates(|sample| sample.decode.rate()),
            sequence_ts: rates(|sample| {
                let per_step = sample.decode.time.as_secs_f64() / sample.decode_steps as f64;
                sample.decode.rate().map(|_| per_step.recip())
            }),
        })
    }

    /// `tg128 x 16 @ p512, 400 shared`.
    fn test(&self) -> String {
        let test = format!("tg{} x {} @ p{}", self.n_gen, self.parallel, self.n_prompt);
        match self.n_shared {
            0 => test,
            shared => format!("{test}, {shared} shared"),
        }
    }
}

fn mean(samples: &[f64]) -> f64 {
    mean_and_deviation(samples).0
}

impl Line for Throughput {
    const TABLE_HEAD: &str = "\
        | model | backend | threads | test | prompt tokens | KV cells | KV size | pp t/s | tg t/s | tg t/s each |\n\
        | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";
    const CSV_HEAD: &str = "\
        model,model_path,backend,threads,n_ubatch,cache_type,parallel,n_prompt,n_shared,n_gen,\
        prompt_tokens,shared_tokens,kv_cells,kv_bytes,prefill_ts,decode_ts,sequence_ts";

    fn table_row(&self) -> String {
        let (decode, deviation) = mean_and_deviation(&self.decode_ts);
        format!(
            "| {} | {} | {} | {} | {} | {} | {:.2} MiB | {:.2} | {decode:.2} ± {deviation:.2} | {:.2} |",
            cell(&self.model),
            self.backend,
            self.threads,
            self.test(),
            self.prompt_tokens,
            self.kv_cells,
            self.kv_bytes as f64 / (1024.0 * 1024.0),
            mean(&self.prefill_ts),
            mean(&self.sequence_ts),
        )
    }

    fn csv_row(&self) -> String {
        let samples = |samples: &[f64]| {
            let samples: Vec<String> = samples.iter().map(f64::to_string).collect();
            quoted(&samples.join(" "))
        };
        [
            quoted(&self.model),
            quoted(&self.model_path.to_string_lossy()),
            quoted(&self.backend),
            self.threads.to_string(),
            self.n_ubatch.to_string(),
            self.cache_type.to_owned(),
            self.parallel.to_string(),
            self.n_prompt.to_string(),
            self.n_shared.to_string(),
            self.n_gen.to_string(),
            self.prompt_tokens.to_string(),
            self.shared_tokens.to_string(),
            self.kv_cells.to_string(),
            self.kv_bytes.to_string(),
            samples(&self.prefill_ts),
            samples(&self.decode_ts),
            samples(&self.sequence_ts),
        ]
        .join(",")
    }
}
