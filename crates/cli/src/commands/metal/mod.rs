//! `minfer metal`: Metal kernels on a software device, checked and counted.

mod barriers;
mod bench;
mod check;
mod driver;
mod export;
mod ideal;
mod kernel_table;
mod lint;
mod mutate;
mod options;
mod replay;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::console::Console;

/// Run Metal kernels on a software device that checks and counts what they do
#[derive(Debug, Subcommand)]
pub enum MetalCommand {
    Check(check::CheckArgs),
    Bench(bench::BenchArgs),
    Export(export::ExportArgs),
    Replay(replay::ReplayArgs),
    Mutate(mutate::MutateArgs),
    Lint(lint::LintArgs),
}

/// Runs the command; its exit status is 1 if it found something.
pub fn execute(console: Console, command: MetalCommand) -> Result<ExitCode> {
    match command {
        MetalCommand::Check(args) => check::execute(console, &args),
        MetalCommand::Bench(args) => bench::execute(console, &args),
        MetalCommand::Export(args) => export::execute(console, &args),
        MetalCommand::Replay(args) => replay::execute(&args),
        MetalCommand::Mutate(args) => mutate::execute(console, &args),
        MetalCommand::Lint(args) => lint::execute(&args),
    }
}

/// Exit status of a command that looked for something.
fn status(found_nothing: bool) -> ExitCode {
    if found_nothing {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
