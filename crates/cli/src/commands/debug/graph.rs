//! `minfer debug graph`: the compute graph of a step as it runs.

use std::io::Write;
use std::num::NonZeroUsize;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::console::{self, Console};
use crate::environment::Environment;
use crate::loading;
use crate::model_file::Resolver;
use crate::options::LoadingOptions;

/// Print the compute graph of a step as it runs: placed, fused, with its buffers
#[derive(Debug, Args)]
pub struct GraphArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    model: String,

    /// dot for Graphviz, json for tools.
    #[arg(long, value_enum, default_value_t = Format::Dot)]
    format: Format,

    /// Tokens of the step: 1 for a decode step, at most --ubatch for a part of a prompt.
    #[arg(long, value_name = "COUNT", default_value_t = NonZeroUsize::MIN)]
    rows: NonZeroUsize,

    #[command(flatten)]
    loading: LoadingOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Dot,
    Json,
}

pub fn execute(console: Console, args: GraphArgs) -> Result<()> {
    let options = args.loading.engine_options(None, None)?;
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let mut engine = loading::load(console, &path, &options)?;
    let graph = engine.graph(args.rows.get())?;
    let mut output = console::output();
    match args.format {
        Format::Dot => output.write_all(graph.to_dot().as_bytes())?,
        Format::Json => writeln!(output, "{}", graph.to_json())?,
    }
    Ok(output.flush()?)
}
