//! Values of variables.

use std::path::Path;

use minfer_cpu::Isa;
use minfer_graph::KvFormat;
use minfer_metal::metallib::Metallib;
use minfer_metal::ops::flash_decode::MOST_CHUNKS;

/// The KV format of this name.
///
/// # Errors
/// The accepted names.
pub fn parse_kv_format(name: &str) -> Result<KvFormat, String> {
    [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0]
        .into_iter()
        .find(|&format| kv_format_name(format) == name)
        .ok_or_else(|| "f32, f16 or q8_0".to_owned())
}

/// Name of a KV format, as [`parse_kv_format`] takes it.
pub fn kv_format_name(format: KvFormat) -> &'static str {
    match format {
        KvFormat::F32 => "f32",
        KvFormat::F16 => "f16",
        KvFormat::Q8_0 => "q8_0",
    }
}

pub(super) fn accepted_isas() -> String {
    let names: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    format!("auto or what this machine has ({})", names.join(", "))
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number of at least 1".to_owned()),
    }
}

/// A number of layers; `None` for `auto`.
///
/// # Errors
/// The accepted values.
pub fn parse_gpu_layers(text: &str) -> Result<Option<usize>, String> {
    match text {
        "auto" => Ok(None),
        text => {
            let layers = text.parse().map(Some);
            layers.map_err(|_| "a whole number of at least 0, or auto".to_owned())
        }
    }
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1".to_owned()),
    }
}

pub(super) fn shown(on: bool) -> Option<String> {
    on.then(|| "1".to_owned())
}

pub(super) fn shown_path(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Chunks of a window.
pub(super) fn chunks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (1..=MOST_CHUNKS).contains(&n) => Ok(n),
        _ => Err(format!("a whole number from 1 to {MOST_CHUNKS}")),
    }
}

/// Takes `chosen` unless another variable has said where kernels are from.
pub(super) fn metallib(known: &mut Metallib, chosen: Metallib) -> Result<(), String> {
    if *known != Metallib::default() {
        return Err("unset, since MINFER_METALLIB_FILE is set".to_owned());
    }
    *known = chosen;
    Ok(())
}
