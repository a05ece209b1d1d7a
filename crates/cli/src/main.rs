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
mod saved;
mod spellings;

use std::process::ExitCode;

use arguments::InvalidArgument;
use cli::Cli;

/// Exit status of a usage error, the one that clap uses.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::from_command_line();
    logging::start(cli.verbosity());
    match commands::execute(cli) {
        Ok(status) => status,
        Err(error) if console::is_output_closed(&error) => ExitCode::SUCCESS,
        Err(error) => {
            console::report(&error);
            if error.is::<InvalidArgument>() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
