//! `minfer metal check`: a model's kernels under the checker.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use minfer_graph::GraphError;
use minfer_softmetal::report::{Report, Severity, SourcePlace};
use minfer_softmetal::{Mode, Options, SoftDevice};
use serde_json::json;

use super::driver::{Job, OnCpu};
use super::options::ModelOptions;
use super::{barriers, kernel_table, status};
use crate::arguments;
use crate::console::{self, Console, Output};

/// Check how the kernels of a prefill and of decode steps use memory
///
/// The exit status is 1 if there is an error or a warning.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    model: ModelOptions,

    /// Decode steps after the prompt.
    #[arg(long, value_parser = arguments::number, value_name = "COUNT", default_value_t = 2)]
    decode_steps: usize,

    /// Order in which threads run.
    #[arg(long, value_enum, default_value_t = Order::Lockstep)]
    order: Order,

    /// Leave out a barrier of the kernels, FILE:LINE:COLUMN as `minfer metal mutate` lists them.
    #[arg(long, value_parser = barriers::parse, value_name = "PLACE")]
    without_barrier: Option<SourcePlace>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    /// The lanes of a simdgroup access memory together, as on the hardware
    Lockstep,
    /// Each lane runs on to its next simdgroup operation
    FreeRunning,
    /// In lockstep, with lanes, simdgroups and threadgroups in descending order
    Reversed,
}

impl Order {
    fn apply(self, options: Options) -> Options {
        let (mode, reversed) = match self {
            Order::Lockstep => (Mode::Checked, false),
            Order::FreeRunning => (Mode::CheckedFreeRunning, false),
            Order::Reversed => (Mode::Checked, true),
        };
        Options {
            mode,
            reversed,
            ..options
        }
    }
}

pub fn execute(console: Console, args: &CheckArgs) -> Result<ExitCode> {
    if let Some(place) = &args.without_barrier {
        barriers::check_shipped(place)?;
    }
    let job = Job::new(console, &args.model, args.decode_steps)?;
    let device = SoftDevice::new(Options {
        without_barrier: args.without_barrier.clone(),
        ..args.order.apply(job.device.clone())
    });
    let mut run = job.start(device.clone())?;
    let on_cpu = run.on_cpu()?;
    let result = run.all(args.decode_steps);
    let reports = reports(&device, result)?;
    let kernels = kernel_table::rows(&device.statistics());
    let mut output = console::output();
    if args.json {
        note_on_cpu(console, &on_cpu);
        let object = json!({ "reports": reports, "kernels": kernels });
        output.write_json_line(&object)?;
    } else {
        write_reports(&mut output, &reports)?;
        kernel_table::write(&mut output, &kernels)?;
        write_on_cpu(&mut output, &on_cpu)?;
    }
    output.flush()?;
    Ok(status(is_clean(&reports)))
}

/// Whether there is nothing worse than a note.
pub fn is_clean(reports: &[Report]) -> bool {
    let mut severities = reports.iter().map(|report| report.severity);
    severities.all(|severity| severity < Severity::Warning)
}

/// What the checker found. A run that failed for another reason is an error.
pub fn reports(device: &SoftDevice, result: Result<(), GraphError>) -> Result<Vec<Report>> {
    let reports = device.take_reports();
    match result {
        Err(error) if is_clean(&reports) => Err(error.into()),
        Err(error) => {
            // With `--quiet` too: what follows is about a part of the run.
            console::tell(format_args!("the run ended early: {error}"));
            Ok(reports)
        }
        Ok(()) => Ok(reports),
    }
}

/// Prints reports and how many there are.
pub fn write_reports(output: &mut Output, reports: &[Report]) -> Result<()> {
    for report in reports {
        writeln!(output, "{report}\n")?;
    }
    let count = |severity| {
        let of_it = reports.iter().filter(|report| report.severity == severity);
        of_it.count()
    };
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    writeln!(
        output,
        "{errors} errors, {warnings} warnings, {notes} notes\n"
    )?;
    Ok(())
}

/// Prints which nodes the Metal backend did not run.
pub fn write_on_cpu(output: &mut Output, on_cpu: &[OnCpu]) -> Result<()> {
    for OnCpu { node, op, reason } in on_cpu {
        writeln!(output, "on the CPU: {node} ({op}): {reason}")?;
    }
    Ok(())
}

/// Notes which nodes the Metal backend did not run.
pub fn note_on_cpu(console: Console, on_cpu: &[OnCpu]) {
    for OnCpu { node, op, reason } in on_cpu {
        console.note(format_args!("on the CPU: {node} ({op}): {reason}"));
    }
}
