//! `minfer metal mutate`: whether every barrier of the kernels is needed.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use minfer_softmetal::report::SourcePlace;
use minfer_softmetal::{Options, SoftDevice};
use serde::Serialize;
use serde_json::json;

use super::barriers::{self, position};
use super::driver::Job;
use super::options::ModelOptions;
use super::{check, status};
use crate::console::{self, Console};

/// Leave out each barrier in turn, and see whether the checker misses it
///
/// The exit status is 1 if one can be left out without a report and its line has no
/// `softmetal: allow(unneeded-barrier): reason`. Barriers that the model's kernels do not pass are listed, not judged.
#[derive(Debug, Args)]
pub struct MutateArgs {
    #[command(flatten)]
    model: ModelOptions,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// A barrier that was left out. The names are an interface.
#[derive(Debug, Serialize)]
struct Mutant {
    place: SourcePlace,
    /// First line of the first report.
    reported: Option<String>,
    /// Why it may stand all the same.
    reason: Option<String>,
}

impl Mutant {
    fn is_accepted(&self) -> bool {
        self.reported.is_some() || self.reason.is_some()
    }
}

pub fn execute(console: Console, args: &MutateArgs) -> Result<ExitCode> {
    let job = Job::new(console, &args.model, 1)?;
    let whole = SoftDevice::new(job.device.clone());
    let result = job.start(whole.clone())?.all(1);
    let reports = check::reports(&whole, result)?;
    if let Some(report) = reports.first() {
        anyhow::bail!(
            "with all barriers, `minfer metal check` reports {}",
            report.headline()
        );
    }
    let known = barriers::shipped()?;
    let passed = whole.barriers();
    let mut mutants = Vec::new();
    for place in &passed {
        let barrier = known.iter().find(|barrier| barrier.place == *place);
        mutants.push(Mutant {
            place: place.clone(),
            reported: without(&job, place)?,
            reason: barrier.and_then(|barrier| barrier.reason.clone()),
        });
    }
    let others = known.iter().map(|barrier| &barrier.place);
    let not_passed: Vec<_> = others.filter(|place| !passed.contains(place)).collect();
    let mut output = console::output();
    if args.json {
        output.write_json_line(&json!({ "barriers": mutants, "not_passed": not_passed }))?;
    } else {
        for mutant in &mutants {
            let at = position(&mutant.place);
            match (&mutant.reported, &mutant.reason) {
                (Some(headline), _) => writeln!(output, "{at}: {headline}")?,
                (None, Some(reason)) => {
                    writeln!(output, "{at}: not reported, which is allowed: {reason}")?
                }
                (None, None) => writeln!(output, "{at}: NOT REPORTED")?,
            }
        }
        for place in &not_passed {
            writeln!(output, "{}: not passed", position(place))?;
        }
    }
    output.flush()?;
    Ok(status(mutants.iter().all(Mutant::is_accepted)))
}

/// The first report of a run without a barrier.
fn without(job: &Job, place: &SourcePlace) -> Result<Option<String>> {
    let device = SoftDevice::new(Options {
        without_barrier: Some(place.clone()),
        ..job.device.clone()
    });
    let result = job.start(device.clone())?.all(1);
    let reports = device.take_reports();
    match (reports.first(), result) {
        (Some(report), _) => Ok(Some(report.headline())),
        (None, Ok(())) => Ok(None),
        (None, Err(error)) => Err(error.into()),
    }
}
