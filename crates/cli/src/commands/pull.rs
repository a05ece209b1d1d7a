//! `minfer pull`: fetch a model and say where it is.

use std::io::Write;

use anyhow::Result;
use clap::Args;

use crate::console::{self, Console};
use crate::environment::Environment;
use crate::model_file::Resolver;

/// Fetch a model into the cache, or verify the one that is there
#[derive(Debug, Args)]
pub struct PullArgs {
    /// A name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    #[arg(value_name = "NAME")]
    name: String,
}

pub fn execute(console: Console, args: PullArgs) -> Result<()> {
    let resolver = Resolver::new(console, &Environment::read()?)?;
    let path = resolver.pull(&args.name)?;
    writeln!(console::output(), "{}", path.display())?;
    Ok(())
}
