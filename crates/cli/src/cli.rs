//! The command line: from this declaration come parsing, help and shell completions.

use clap::{ArgAction, Parser, Subcommand};

use crate::commands::{
    bench::BenchArgs, completions::CompletionsArgs, config::ConfigArgs, debug::DebugCommand,
    info::InfoArgs, list::ListArgs, pull::PullArgs, run::RunArgs,
};
use crate::console::Console;
use crate::logging::Verbosity;

/// Runs large language models on this machine.
#[derive(Debug, Parser)]
#[command(name = "minfer", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,

    /// Say more on stderr; twice says everything.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,

    /// Print nothing on stderr but errors.
    #[arg(short, long, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(RunArgs),
    Bench(BenchArgs),
    Info(InfoArgs),
    Pull(PullArgs),
    List(ListArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    /// Interfaces for programs.
    #[command(hide = true, subcommand)]
    Debug(DebugCommand),
}

impl Cli {
    /// How much goes to stderr.
    pub fn verbosity(&self) -> Verbosity {
        match (self.quiet, self.verbose) {
            (true, _) => Verbosity::Quiet,
            (false, 0) => Verbosity::Normal,
            (false, 1) => Verbosity::Verbose,
            (false, _) => Verbosity::Debug,
        }
    }

    /// Where notes go.
    pub fn console(&self) -> Console {
        Console::new(self.quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }
}
