//! The `minfer` binary: commands over the engine.

// Doc comments of arguments are help texts, where brackets are no links.
#![allow(rustdoc::broken_intra_doc_links)]

mod answer;
mod arguments;
mod cache;
mod catalog;
mod cli;
mod commands;
mod console;
mod environment;
mod fetch;
mod interrupt;
mod loading;
mod logging;
mod model_file;
mod options;

use std::io::{self, Write};
use std::process::ExitCode;

use arguments::InvalidArgument;
use cli::Cli;
use console::Hinted;

/// Exit status of a usage error, the one that clap uses.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::from_command_line();
    logging::start(cli.verbosity());
    match commands::execute(cli) {
        Ok(status) => status,
        Err(error) if console::is_output_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            if error.is::<InvalidArgument>() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

fn report(error: &anyhow::Error) {
    let mut stderr = io::stderr().lock();
    // With stderr closed there is nobody left to tell; the exit status still does.
    let _ = writeln!(stderr, "minfer: {}", console::sentence(error));
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        let _ = writeln!(stderr, "  hint: {}", hinted.hint());
    }
}
