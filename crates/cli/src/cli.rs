//! The command line: from this declaration come parsing, help and shell completions.

use std::env;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    bench::BenchArgs, chat::ChatArgs, completions::CompletionsArgs, config::ConfigArgs,
    debug::DebugCommand, devices::DevicesArgs, info::InfoArgs, list::ListArgs, metal::MetalCommand,
    pull::PullArgs, run::RunArgs,
};
use crate::console::Console;
use crate::logging::Verbosity;
use crate::spellings;

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
    Chat(ChatArgs),
    Run(RunArgs),
    Bench(BenchArgs),
    Info(InfoArgs),
    Pull(PullArgs),
    List(ListArgs),
    Devices(DevicesArgs),
    Config(ConfigArgs),
    #[cfg_attr(all(feature = "softmetal", target_os = "linux"), command(subcommand))]
    Metal(MetalCommand),
    Completions(CompletionsArgs),
    /// Interfaces for programs.
    #[command(hide = true, subcommand)]
    Debug(DebugCommand),
}

impl Cli {
    /// The parsed command line. A usage error ends the process, as does a request for help.
    pub fn from_command_line() -> Self {
        let arguments = spellings::canonical(env::args_os());
        let matches = with_negative_values(Self::command()).get_matches_from(arguments);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

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
        Console::new(self.verbosity())
    }
}

/// Takes `-5` after a flag as its value, so that the complaint is about the value and not about a flag `-5`.
fn with_negative_values(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes_value = arg.get_action().takes_values() && !arg.is_positional();
            arg.allow_negative_numbers(takes_value)
        })
        .mut_subcommands(with_negative_values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        with_negative_values(Cli::command()).debug_assert();
    }
}
