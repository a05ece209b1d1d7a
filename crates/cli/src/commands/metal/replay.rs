//! `minfer metal replay`: a replay bundle on the software device.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use minfer_metal::replay::Bundle;
use minfer_softmetal::{Options, SoftDevice};
use serde_json::json;

use super::status;
use crate::console;
use crate::environment::Environment;

/// Time for one dispatch.
const LIMIT: Duration = Duration::from_secs(600);

/// Run a bundle's dispatches on the software device and compare what they leave in memory
///
/// Kernels of a bundle run as native code: replay only bundles that you trust. The exit status is 1 if a byte differs.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Folder that `minfer metal export` wrote.
    folder: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub fn execute(args: &ReplayArgs) -> Result<ExitCode> {
    let bundle = Bundle::open(&args.folder)?;
    let device = SoftDevice::new(Options {
        cache: Some(Environment::read()?.cache.join("softmetal")),
        ..Options::default()
    });
    let outcomes = bundle.replay(&device, LIMIT)?;
    let different = outcomes.iter().filter(|outcome| !outcome.is_equal());
    let different = different.count();
    let mut output = console::output();
    if args.json {
        output.write_json_line(&json!({
            "recorded_on": bundle.device(),
            "different": different,
            "dispatches": outcomes,
        }))?;
    } else {
        for outcome in &outcomes {
            writeln!(output, "{outcome}")?;
        }
        let count = outcomes.len();
        writeln!(
            output,
            "{count} dispatches recorded on {}, {different} different",
            bundle.device()
        )?;
    }
    output.flush()?;
    Ok(status(different == 0))
}
