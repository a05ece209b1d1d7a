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

use crate::console::{self, Console};

/// Exit status of a command that could not do its work, as of `grep` and `diff`; that of usage errors too.
const TROUBLE: u8 = 2;

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

/// Runs the command; its exit status is 1 if it found something, 2 if it failed.
pub fn execute(console: Console, command: MetalCommand) -> Result<ExitCode> {
    let result = match command {
        MetalCommand::Check(args) => check::execute(console, &args),
        MetalCommand::Bench(args) => bench::execute(console, &args),
        MetalCommand::Export(args) => export::execute(console, &args),
        MetalCommand::Replay(args) => replay::execute(&args),
        MetalCommand::Mutate(args) => mutate::execute(console, &args),
        MetalCommand::Lint(args) => lint::execute(&args),
    };
    result.or_else(|error| {
        if console::is_output_closed(&error) {
            return Err(error);
        }
        console::report(&error);
        Ok(ExitCode::from(TROUBLE))
    })
}

/// Exit status of a command that looked for something.
fn status(found_nothing: bool) -> ExitCode {
    if found_nothing {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
