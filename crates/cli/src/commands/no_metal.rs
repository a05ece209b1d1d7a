//! `minfer metal` in a binary without the software device.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::console::{self, Console};

/// Exit status of a command that could not do its work: 1 would say that it found something.
const TROUBLE: u8 = 2;

/// Run Metal kernels on a software device (this binary was built without it)
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct MetalCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

pub fn execute(_: Console, _: MetalCommand) -> Result<ExitCode> {
    let missing = anyhow!("this minfer was built without the software Metal device");
    let hint = match cfg!(target_os = "linux") {
        true => "cargo build --release --features softmetal",
        false => "it runs on x86-64 Linux only",
    };
    console::report(&console::hinted(missing, hint));
    Ok(ExitCode::from(TROUBLE))
}
