//! `minfer devices`: what models can run on.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Config, CpuDevice, DeviceInfo, EngineOptions, MetalDevice, metal_devices};
use serde_json::{Value, json};

use crate::console::{self, Output, bytes};

/// Show what models can run on
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

pub fn execute(args: DevicesArgs) -> Result<()> {
    let options = EngineOptions::from(&Config::from_env()?);
    let cpu = CpuDevice::of(&options)?;
    let metal = metal_devices(&options.metal);
    let mut output = console::output();
    if args.json {
        output.write_json_line(&cpu_json(&cpu))?;
        for device in &metal {
            output.write_json_line(&metal_json(device))?;
        }
        return Ok(());
    }
    write_cpu(&mut output, &cpu)?;
    metal
        .iter()
        .try_for_each(|device| write_metal(&mut output, device))
}

fn write_cpu(output: &mut Output, cpu: &CpuDevice) -> Result<()> {
    writeln!(output, "cpu")?;
    write_fields(
        output,
        &[
            ("threads", cpu.threads.to_string()),
            ("instruction set", cpu.isa.to_string()),
            ("available memory", known_bytes(cpu.available)),
        ],
    )
}

fn write_metal(output: &mut Output, device: &MetalDevice) -> Result<()> {
    let name = device.choice.name();
    let info = match &device.info {
        Ok(info) => info,
        Err(reason) => {
            writeln!(output, "{name}: not there: {reason}")?;
            return Ok(());
        }
    };
    writeln!(output, "{name}: {}", info.name)?;
    let memory = match info.unified_memory {
        true => "shared with the CPU",
        false => "its own",
    };
    write_fields(
        output,
        &[
            ("GPU family", family(info)),
            ("memory", memory.to_owned()),
            ("working set", known_bytes(info.recommended_working_set)),
            ("largest buffer", bytes(info.max_buffer_bytes as u64)),
            (
                "threadgroup",
                format!(
                    "{} threads in simdgroups of {}",
                    info.max_threads_per_threadgroup, info.simd_width
                ),
            ),
            (
                "threadgroup memory",
                format!("{} bytes", info.max_threadgroup_memory),
            ),
            ("page", format!("{} bytes", info.page_bytes)),
        ],
    )
}

fn write_fields(output: &mut Output, fields: &[(&str, String)]) -> Result<()> {
    for (name, value) in fields {
        writeln!(output, "  {name:18} {value}")?;
    }
    Ok(())
}

fn known_bytes(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), bytes)
}

fn family(info: &DeviceInfo) -> String {
    match info.apple_family {
        Some(family) => format!("Apple{family}"),
        None => "not one of Apple's".to_owned(),
    }
}

fn cpu_json(cpu: &CpuDevice) -> Value {
    json!({
        "device": "cpu",
        "threads": cpu.threads,
        "isa": cpu.isa.name(),
        "available_bytes": cpu.available,
    })
}

fn metal_json(device: &MetalDevice) -> Value {
    match &device.info {
        Err(reason) => json!({ "device": device.choice.name(), "missing": reason }),
        Ok(info) => json!({
            "device": device.choice.name(),
            "name": info.name,
            "apple_family": info.apple_family,
            "unified_memory": info.unified_memory,
            "working_set_bytes": info.recommended_working_set,
            "max_buffer_bytes": info.max_buffer_bytes,
            "max_threads_per_threadgroup": info.max_threads_per_threadgroup,
            "max_threadgroup_memory": info.max_threadgroup_memory,
            "simd_width": info.simd_width,
            "page_bytes": info.page_bytes,
        }),
    }
}
