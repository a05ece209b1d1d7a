//! `minfer completions`: scripts that teach a shell minfer's commands and flags.

use std::io::Write;

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::console;

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub fn execute(args: CompletionsArgs) -> Result<()> {
    // The generator panics when it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "minfer", &mut script);
    console::output().write_all(&script)?;
    Ok(())
}
