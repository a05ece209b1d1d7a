//! `minfer info`: what a model file holds and what running it needs.

mod metadata;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::Result;
use clap::Args;
use minfer_engine::{Config, EngineOptions, kv_bytes, kv_format_name, parse_kv_format, spread};
use minfer_gguf::{Gguf, OpenOptions, TensorType};
use minfer_graph::KvFormat;
use minfer_model::Model;
use serde::Serialize;
use serde_json::json;

use crate::arguments;
use crate::console::{self, Console, Output, bytes};
use crate::environment::Environment;
use crate::model_file::Resolver;
use crate::options::OffloadOptions;

/// Show a model's metadata, tensors and memory need
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    model: String,

    /// Tokens of context, 0 for what the model was trained for [default: that, but at most 4096].
    #[arg(short = 'c', long, value_parser = arguments::number, value_name = "TOKENS")]
    n_ctx: Option<usize>,

    /// Element format of the KV cache: f32, f16 or q8_0 [default: f16 on a device for models that gain from it, else f32].
    #[arg(long, value_name = "FORMAT", value_parser = parse_kv_format)]
    cache_type: Option<KvFormat>,

    #[command(flatten)]
    offload: OffloadOptions,

    /// Print one JSON object, with arrays in full.
    #[arg(long)]
    json: bool,
}

/// Tensors of one element type.
#[derive(Debug, Default, Serialize)]
struct TypeTotal {
    count: usize,
    bytes: usize,
}

/// What a context needs, in bytes.
#[derive(Debug, Serialize)]
struct Memory {
    n_ctx: usize,
    cache_type: &'static str,
    weights: u64,
    kv_cache: u64,
    /// Where its layers would run.
    device: &'static str,
    device_layers: usize,
    layers: usize,
    /// Why not all layers run on a device, where that may surprise.
    reason: Option<String>,
    #[serde(skip)]
    placement: String,
}

pub fn execute(console: Console, args: InfoArgs) -> Result<()> {
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let gguf = Gguf::open(&path, OpenOptions::default())?;
    // A model that cannot run here still has metadata and tensors to show.
    let memory = memory(&gguf, &args);
    let types = types(&gguf);
    let mut output = console::output();
    if args.json {
        return write_json(&mut output, &gguf, &types, &memory);
    }
    for path in gguf.paths() {
        writeln!(output, "{}", path.display())?;
    }
    writeln!(
        output,
        "GGUF version {}, {}",
        gguf.version(),
        bytes(gguf.file_bytes())
    )?;
    writeln!(output, "\nMetadata")?;
    for (key, value) in gguf.metadata().iter() {
        writeln!(output, "  {key} = {}", metadata::abbreviated(value))?;
    }
    write_types(&mut output, &types)?;
    write_memory(&mut output, &memory)
}

fn types(gguf: &Gguf) -> BTreeMap<TensorType, TypeTotal> {
    let mut types: BTreeMap<TensorType, TypeTotal> = BTreeMap::new();
    for tensor in gguf.tensors() {
        let total = types.entry(tensor.ty).or_default();
        total.count += 1;
        total.bytes += tensor.len;
    }
    types
}

fn memory(gguf: &Gguf, args: &InfoArgs) -> Result<Memory> {
    let model = Model::load(gguf)?;
    let environment = EngineOptions::from(&Config::from_env()?);
    let options = args.offload.apply(EngineOptions {
        n_ctx: args.n_ctx,
        kv_format: args.cache_type.or(environment.kv_format),
        ..environment
    })?;
    let spread = spread(gguf, &options)?;
    Ok(Memory {
        n_ctx: spread.n_ctx,
        cache_type: kv_format_name(spread.kv_format),
        weights: gguf.tensors().iter().map(|tensor| tensor.len as u64).sum(),
        kv_cache: kv_bytes(&model.kv_layout(spread.n_ctx, spread.kv_format))?,
        device: spread.placement.device.name(),
        device_layers: spread.placement.layers,
        layers: spread.placement.of,
        placement: spread.placement.to_string(),
        reason: spread.placement.reason,
    })
}

fn write_types(output: &mut Output, types: &BTreeMap<TensorType, TypeTotal>) -> Result<()> {
    writeln!(output, "\nTensors")?;
    for (ty, total) in types {
        let size = bytes(total.bytes as u64);
        writeln!(output, "  {:8} {:>6} {size:>10}", ty.name(), total.count)?;
    }
    Ok(())
}

fn write_memory(output: &mut Output, memory: &Result<Memory>) -> Result<()> {
    match memory {
        Ok(memory) => {
            writeln!(output, "\nMemory for a context of {} tokens", memory.n_ctx)?;
            let kv_cache = format!("KV cache, {}", memory.cache_type);
            let together = memory.weights.saturating_add(memory.kv_cache);
            for (what, size) in [
                ("weights", memory.weights),
                (&kv_cache, memory.kv_cache),
                ("together", together),
            ] {
                writeln!(output, "  {what:14} {:>10}", bytes(size))?;
            }
            writeln!(output, "\n{}", memory.placement)?;
        }
        Err(error) => writeln!(output, "\nThis model cannot be run: {error:#}")?,
    }
    Ok(())
}

fn write_json(
    output: &mut Output,
    gguf: &Gguf,
    types: &BTreeMap<TensorType, TypeTotal>,
    memory: &Result<Memory>,
) -> Result<()> {
    let entries = gguf.metadata().iter();
    let metadata: serde_json::Map<String, serde_json::Value> = entries
        .map(|(key, value)| (key.to_owned(), metadata::to_json(value)))
        .collect();
    let types: BTreeMap<&str, &TypeTotal> =
        types.iter().map(|(ty, total)| (ty.name(), total)).collect();
    let memory = match memory {
        Ok(memory) => json!(memory),
        Err(error) => json!({ "error": format!("{error:#}") }),
    };
    let object = json!({
        "paths": gguf.paths().collect::<Vec<_>>(),
        "version": gguf.version(),
        "file_bytes": gguf.file_bytes(),
        "metadata": metadata,
        "tensors": types,
        "memory": memory,
    });
    output.write_json_line(&object)?;
    Ok(())
}
