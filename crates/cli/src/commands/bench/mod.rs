//! `minfer bench`: speed of prefill (`pp`) and decode (`tg`), measured as llama-bench does, or of sequences
//! that generate side by side.

mod parallel;
mod report;

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Bench, EngineOptions};
use minfer_gguf::{Gguf, OpenOptions};

use crate::arguments;
use crate::console::{self, Console};
use crate::environment::Environment;
use crate::loading;
use crate::model_file::Resolver;
use crate::options::LoadingOptions;
use report::{Format, Report, Row, Summarized};

/// Measure a model's prefill and decode speed
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    model: String,

    /// Prompt lengths to measure prefill with, separated by commas; 0 for none.
    #[arg(short = 'p', long, value_parser = arguments::number, value_name = "TOKENS", value_delimiter = ',', default_values_t = [512])]
    n_prompt: Vec<usize>,

    /// Numbers of tokens to measure decode with, separated by commas; 0 for none.
    #[arg(short = 'n', long, value_parser = arguments::number, value_name = "TOKENS", value_delimiter = ',', default_values_t = [128])]
    n_gen: Vec<usize>,

    /// Tokens that are in the context before, separated by commas.
    #[arg(short = 'd', long, value_parser = arguments::number, value_name = "TOKENS", value_delimiter = ',', default_values_t = [0])]
    n_depth: Vec<usize>,

    /// Numbers of sequences, separated by commas: measures generations side by side instead, each after
    /// a prompt of its own.
    #[arg(long, value_parser = arguments::positive, value_name = "COUNT", value_delimiter = ',', conflicts_with = "n_depth")]
    parallel: Vec<NonZeroUsize>,

    /// Tokens with which all those prompts begin.
    #[arg(long, value_parser = arguments::number, value_name = "TOKENS", default_value_t = 0, requires = "parallel")]
    shared_prefix: usize,

    /// Numbers of compute threads, separated by commas [default: physical cores].
    #[arg(short, long, value_parser = arguments::positive, value_name = "COUNT", value_delimiter = ',')]
    threads: Vec<NonZeroUsize>,

    /// Measurements of each test, after one that does not count.
    #[arg(short, long, value_parser = arguments::positive, value_name = "COUNT", default_value_t = NonZeroUsize::MIN.saturating_add(4))]
    repetitions: NonZeroUsize,

    /// How the results are printed.
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    output: Format,

    #[command(flatten)]
    loading: LoadingOptions,
}

impl BenchArgs {
    /// The tests in the order of their printing.
    fn tests(&self) -> Vec<Bench> {
        let at_depth = |depth: usize| {
            let prefill = self.n_prompt.iter().filter(|&&tokens| tokens > 0);
            let decode = self.n_gen.iter().filter(|&&tokens| tokens > 0);
            prefill
                .map(move |&tokens| Bench::Prefill { tokens, depth })
                .chain(decode.map(move |&tokens| Bench::Decode { tokens, depth }))
        };
        self.n_depth.iter().copied().flat_map(at_depth).collect()
    }
}

impl BenchArgs {
    /// Numbers of threads to measure with; `None` is the default.
    fn thread_counts(&self) -> Vec<Option<NonZeroUsize>> {
        match self.threads.as_slice() {
            [] => vec![None],
            counts => counts.iter().copied().map(Some).collect(),
        }
    }
}

pub fn execute(console: Console, args: BenchArgs) -> Result<()> {
    if !args.parallel.is_empty() {
        return parallel::execute(console, &args);
    }
    let tests = args.tests();
    let Some(n_ctx) = tests.iter().map(|test| test.n_ctx()).max() else {
        return Err(nothing_to_measure());
    };
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut report = Report::new(args.output, console::output())?;
    for count in args.thread_counts() {
        let options = args.loading.engine_options(count, Some(n_ctx))?;
        measure(
            console,
            &path,
            &options,
            &tests,
            args.repetitions.get(),
            &mut report,
        )?;
    }
    report.end()
}

fn nothing_to_measure() -> anyhow::Error {
    arguments::invalid("there is nothing to measure: all of -p and -n are 0")
}

/// Runs all tests with one number of threads.
fn measure(
    console: Console,
    path: &Path,
    options: &EngineOptions,
    tests: &[Bench],
    repetitions: usize,
    report: &mut Report<Summarized>,
) -> Result<()> {
    let mut engine = loading::load(console, path, options)?;
    let model = describe(path)?;
    for &test in tests {
        let samples = engine.bench(test, repetitions)?;
        let (Bench::Prefill { tokens, depth } | Bench::Decode { tokens, depth }) = test;
        let is_prefill = matches!(test, Bench::Prefill { .. });
        let row = Row {
            model: model.name.clone(),
            model_path: path.to_owned(),
            model_size: model.bytes,
            model_params: model.params,
            backend: loading::backend(&engine),
            threads: engine.threads(),
            n_ubatch: engine.ubatch(),
            cache_type: minfer_engine::kv_format_name(engine.kv_format()),
            n_prompt: if is_prefill { tokens } else { 0 },
            n_gen: if is_prefill { 0 } else { tokens },
            n_depth: depth,
            samples_ns: samples.iter().map(std::time::Duration::as_nanos).collect(),
            samples_ts: samples
                .iter()
                .map(|time| tokens as f64 / time.as_secs_f64())
                .collect(),
        };
        report.add(&row.summarized())?;
    }
    if let Some(profile) = engine.profile() {
        console.note(profile);
    }
    Ok(())
}

struct Description {
    name: String,
    bytes: usize,
    params: usize,
}

fn describe(path: &Path) -> Result<Description> {
    let gguf = Gguf::open(path, OpenOptions::default())?;
    let named = gguf.metadata().get_str("general.name")?;
    let stem = || {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    Ok(Description {
        name: named.map_or_else(stem, str::to_owned),
        bytes: gguf.tensors().iter().map(|tensor| tensor.len).sum(),
        params: gguf
            .tensors()
            .iter()
            .map(|tensor| tensor.shape.iter().product::<usize>())
            .sum(),
    })
}
