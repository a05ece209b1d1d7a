//! One file per command.

pub mod bench;
pub mod chat;
pub mod completions;
pub mod config;
pub mod debug;
pub mod devices;
pub mod info;
pub mod list;
#[cfg(all(feature = "softmetal", target_os = "linux"))]
pub mod metal;
#[cfg(not(all(feature = "softmetal", target_os = "linux")))]
#[path = "no_metal.rs"]
pub mod metal;
pub mod pull;
pub mod run;

use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{Cli, Command};

/// Runs the command that the user asked for; its exit status.
pub fn execute(cli: Cli) -> Result<ExitCode> {
    let console = cli.console();
    match cli.command {
        Command::Chat(args) => return chat::execute(console, args),
        Command::Run(args) => return run::execute(console, args),
        Command::Metal(command) => return metal::execute(console, command),
        Command::Bench(args) => bench::execute(console, args)?,
        Command::Info(args) => info::execute(console, args)?,
        Command::Pull(args) => pull::execute(console, args)?,
        Command::List(args) => list::execute(console, args)?,
        Command::Devices(args) => devices::execute(args)?,
        Command::Config(args) => config::execute(args)?,
        Command::Completions(args) => completions::execute(args)?,
        Command::Debug(command) => debug::execute(console, command)?,
    }
    Ok(ExitCode::SUCCESS)
}
