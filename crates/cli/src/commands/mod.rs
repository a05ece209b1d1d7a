//! One file per command.

pub mod completions;
pub mod config;
pub mod info;
pub mod list;
pub mod pull;

use anyhow::Result;

use crate::cli::{Cli, Command};

/// Runs the command that the user asked for.
pub fn execute(cli: Cli) -> Result<()> {
    let console = cli.console();
    match cli.command {
        Command::Info(args) => info::execute(console, args),
        Command::Pull(args) => pull::execute(console, args),
        Command::List(args) => list::execute(console, args),
        Command::Config(args) => config::execute(args),
        Command::Completions(args) => completions::execute(args),
    }
}
