//! The `minfer` binary: commands over the engine.

mod cache;
mod catalog;
mod cli;
mod commands;
mod console;
mod environment;
mod fetch;
mod logging;
mod model_file;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use console::Hinted;

fn main() -> ExitCode {
    let cli = Cli::parse();
    logging::start(cli.verbosity());
    match commands::execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if console::is_output_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::FAILURE
        }
    }
}

fn report(error: &anyhow::Error) {
    let mut stderr = io::stderr().lock();
    // With stderr closed there is nobody left to tell; the exit status still does.
    let _ = writeln!(stderr, "minfer: {error:#}");
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        let _ = writeln!(stderr, "  hint: {}", hinted.hint());
    }
}
