//! `minfer metal bench`: what a model's kernels do, beside what they would have to.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use minfer_graph::GraphError;
use minfer_softmetal::{Estimate, SoftDevice, Statistics};
use serde::Serialize;
use serde_json::json;

use super::driver::{Job, Run};
use super::ideal::Traffic;
use super::options::{Machine, ModelOptions};
use super::{check, kernel_table, status};
use crate::console::{self, Console, Output, bytes};

/// Count what the kernels of a prefill and of a decode step do, and estimate their time
///
/// The times are estimates from a model of a machine, not measurements: docs/metal.md has its formula. The exit status
/// is 1 if the checker has an error or a warning.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(flatten)]
    model: ModelOptions,

    /// Leave the prefill out: the decode step reads zeros for the prompt.
    #[arg(long)]
    decode_only: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// What one step did. The names are an interface.
#[derive(Debug, Serialize)]
struct Step {
    dispatches: u64,
    /// How often dispatches waited for those before them.
    barriers: u64,
    copies: u64,
    command_buffers: u64,
    /// Bytes that kernels read and wrote, each once per dispatch.
    device_bytes: u64,
    ideal_bytes: u64,
    ideal: Traffic,
    /// By machine.
    estimates: BTreeMap<&'static str, Estimate>,
}

impl Step {
    fn new(statistics: &Statistics, ideal: Traffic) -> Self {
        let Statistics {
            kernels,
            submissions,
        } = statistics;
        let estimate = |machine: Machine| {
            let costs = machine.profile().costs();
            (machine.name(), costs.estimate(kernels, *submissions))
        };
        let distinct = |kernel: &minfer_softmetal::KernelStatistics| {
            kernel.distinct_bytes_read + kernel.distinct_bytes_written
        };
        Step {
            dispatches: submissions.dispatches,
            barriers: submissions.barriers,
            copies: submissions.copies,
            command_buffers: submissions.command_buffers,
            device_bytes: kernels.iter().map(distinct).sum(),
            ideal_bytes: ideal.total(),
            ideal,
            estimates: Machine::ALL.map(estimate).into(),
        }
    }
}

pub fn execute(console: Console, args: &BenchArgs) -> Result<ExitCode> {
    let job = Job::new(console, &args.model, 1)?;
    let device = SoftDevice::new(job.device.clone());
    let mut run = job.start(device.clone())?;
    let on_cpu = run.on_cpu()?;
    let [ideal_prefill, ideal_decode] = run.ideal()?;
    let mut phases = [Statistics::default(), Statistics::default()];
    let result = steps(&mut run, args.decode_only, &device, &mut phases);
    let reports = check::reports(&device, result)?;
    let [prefill, decode] = &phases;
    let mut all = prefill.clone();
    all.add(decode);
    let kernels = kernel_table::rows(&all.kernels);
    let prefill = (!args.decode_only).then(|| Step::new(prefill, ideal_prefill));
    let decode = Step::new(decode, ideal_decode);
    let mut output = console::output();
    if args.json {
        check::note_on_cpu(console, &on_cpu);
        let object = json!({
            "reports": reports,
            "kernels": kernels,
            "prefill": prefill,
            "decode": decode,
        });
        output.write_json_line(&object)?;
    } else {
        check::write_reports(&mut output, &reports)?;
        kernel_table::write(&mut output, &kernels)?;
        if let Some(prefill) = &prefill {
            write_step(&mut output, "prefill", prefill)?;
        }
        write_step(&mut output, "decode", &decode)?;
        check::write_on_cpu(&mut output, &on_cpu)?;
    }
    output.flush()?;
    Ok(status(check::is_clean(&reports)))
}

/// Runs both steps, keeping their counts apart.
fn steps(
    run: &mut Run<'_>,
    decode_only: bool,
    device: &SoftDevice,
    [prefill, decode]: &mut [Statistics; 2],
) -> Result<(), GraphError> {
    if decode_only {
        run.skip_prefill();
    } else {
        let result = run.prefill();
        *prefill = device.take_statistics();
        result?;
    }
    let result = run.decode();
    *decode = device.take_statistics();
    result
}

fn write_step(output: &mut Output, name: &str, step: &Step) -> Result<()> {
    writeln!(
        output,
        "\n{name}: {} dispatches, {} barriers, {} copies, {} command buffers",
        step.dispatches, step.barriers, step.copies, step.command_buffers
    )?;
    let Traffic {
        weights,
        kv,
        activations,
    } = step.ideal;
    writeln!(
        output,
        "  device bytes {}, ideal {} (weights {}, KV {}, activations {})",
        bytes(step.device_bytes),
        bytes(step.ideal_bytes),
        bytes(weights),
        bytes(kv),
        bytes(activations),
    )?;
    for (machine, estimate) in &step.estimates {
        writeln!(
            output,
            "  estimate for {machine}, not measured: {:.3} ms (memory {:.3}, dispatches {:.3}, barriers {:.3}, command \
             buffers {:.3})",
            estimate.total_ms,
            estimate.memory_ms,
            estimate.dispatches_ms,
            estimate.barriers_ms,
            estimate.command_buffers_ms,
        )?;
    }
    Ok(())
}
