//! Flags that the commands over a model share.

use std::num::NonZeroUsize;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use minfer_engine::parse_kv_format;
use minfer_graph::KvFormat;
use minfer_softmetal::Profile;

use crate::arguments;

/// A model, and how much of it runs.
#[derive(Debug, Args)]
pub struct ModelOptions {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    pub model: String,

    /// Machine whose limits the kernels are held to.
    #[arg(long, value_enum, default_value_t = Machine::M1)]
    pub device: Machine,

    /// Tokens of the prompt.
    #[arg(long, value_parser = arguments::positive, value_name = "COUNT", default_value_t = DEFAULT_PROMPT)]
    pub prompt_tokens: NonZeroUsize,

    /// Leading layers to run, or all. The others run the same kernels over other weights.
    #[arg(long, value_name = "COUNT", default_value_t = Layers::First(DEFAULT_LAYERS))]
    pub layers: Layers,

    /// Element format of the KV cache: f32, f16 or q8_0.
    #[arg(long, value_name = "FORMAT", value_parser = parse_kv_format, default_value = "f32")]
    pub cache_type: KvFormat,
}

/// More rows than kernels for few rows take at once.
const DEFAULT_PROMPT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9);
/// The last layer computes other rows than those before it.
const DEFAULT_LAYERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// A machine that the software device stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Machine {
    /// Apple M1
    M1,
    /// Apple M4 Pro
    M4Pro,
}

impl Machine {
    pub const ALL: [Machine; 2] = [Machine::M1, Machine::M4Pro];

    pub fn profile(self) -> Profile {
        match self {
            Machine::M1 => Profile::M1,
            Machine::M4Pro => Profile::M4Pro,
        }
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Machine::M1 => "m1",
            Machine::M4Pro => "m4-pro",
        }
    }
}

/// How many layers of a model run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layers {
    First(NonZeroUsize),
    All,
}

impl Layers {
    /// Layers that run of `count`.
    pub fn of(self, count: usize) -> usize {
        match self {
            Layers::First(first) => first.get().min(count),
            Layers::All => count,
        }
    }
}

impl FromStr for Layers {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Layers::All),
            text => match text.parse() {
                Ok(first) => Ok(Layers::First(first)),
                Err(_) => Err("not a whole number of at least 1, nor `all`"),
            },
        }
    }
}

impl std::fmt::Display for Layers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Layers::First(first) => first.fmt(f),
            Layers::All => f.write_str("all"),
        }
    }
}
