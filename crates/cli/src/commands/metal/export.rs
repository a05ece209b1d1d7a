//! `minfer metal export`: a model's dispatches as a replay bundle.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use minfer_metal::replay::Recorder;
use minfer_softmetal::SoftDevice;

use super::check;
use super::driver::Job;
use super::options::ModelOptions;
use crate::console::Console;

/// Write the dispatches of a prefill and of a decode step, with their memory before and after
///
/// docs/replay-bundles.md describes the files. `minfer metal replay` runs them again.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    model: ModelOptions,

    /// Folder to write, empty or new.
    folder: PathBuf,
}

pub fn execute(console: Console, args: &ExportArgs) -> Result<ExitCode> {
    let job = Job::new(console, &args.model, 1)?;
    let device = SoftDevice::new(job.device.clone());
    let recorder = Recorder::new(device.clone(), &args.folder)?;
    let mut run = job.start(recorder.clone())?;
    check::note_on_cpu(console, &run.on_cpu()?);
    let result = run.all(1);
    let reports = check::reports(&device, result)?;
    for report in &reports {
        console.note(report.headline());
    }
    anyhow::ensure!(
        check::is_clean(&reports),
        "no bundle of kernels with errors or warnings: `minfer metal check` has the reports in full"
    );
    let kinds = recorder.finish()?;
    console.note(format_args!(
        "{kinds} kinds of dispatches in {}",
        args.folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}
