//! `minfer metal` in a binary without the software device.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;

use crate::console::{Console, WithHint};

/// Run Metal kernels on a software device (this binary was built without it)
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct MetalCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _arguments: Vec<OsString>,
}

pub fn execute(_: Console, _: MetalCommand) -> Result<ExitCode> {
    let missing = Err(anyhow!(
        "this minfer was built without the software Metal device"
    ));
    if cfg!(target_os = "linux") {
        missing.hint("cargo build --release --features softmetal")
    } else {
        missing.hint("it runs on x86-64 Linux only")
    }
}
