//! The `MINFER_*` variables of the engine, read once.

mod values;
mod variables;

use std::ffi::OsString;
use std::path::PathBuf;

use minfer_cpu::Isa;
use minfer_graph::KvFormat;
use minfer_metal::backend::KernelChoices;
use minfer_metal::metallib::Metallib;

use crate::DeviceChoice;
pub use values::{kv_format_name, parse_gpu_layers, parse_kv_format};
use variables::VARIABLES;

/// A variable with a value that is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} is `{value}`, but must be {accepted}")]
pub struct ConfigError {
    /// The variable.
    pub name: &'static str,
    /// Its value; bytes that are not UTF-8 are replaced.
    pub value: String,
    /// The accepted values, or why this one cannot be used here.
    pub accepted: String,
}

/// What the environment asks of the engine. `None` leaves the choice to the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `MINFER_THREADS`: compute threads.
    pub threads: Option<usize>,
    /// `MINFER_CPU_ISA`: instruction set of the CPU kernels.
    pub isa: Option<Isa>,
    /// `MINFER_PREFILL_BF16`: round operands of prompt products to bf16 where they would be sums of two.
    pub prefill_bf16: bool,
    /// `MINFER_CACHE_TYPE`: format of the KV cache.
    pub kv_format: Option<KvFormat>,
    /// `MINFER_NO_FUSION`: run every operation as a node of its own.
    pub no_fusion: bool,
    /// `MINFER_NO_MMAP`: read model files into memory instead of mapping them.
    pub no_mmap: bool,
    /// `MINFER_OP_PROFILE`: time each operation and report the totals.
    pub op_profile: bool,
    /// `MINFER_DEVICE`: what to run on.
    pub device: DeviceChoice,
    /// `MINFER_GPU_LAYERS`: leading layers to run on a device other than the CPU.
    pub gpu_layers: Option<usize>,
    /// `MINFER_DISABLE_MPS`: do as if the system had no Metal device.
    pub disable_mps: bool,
    /// `MINFER_WEIGHT_COPY`: copy weights that a Metal device could share.
    pub weight_copy: bool,
    /// `MINFER_NO_FUSE_QKV`: no fusion of the projections before attention.
    pub no_fuse_qkv: bool,
    /// `MINFER_NO_FUSE_FFN`: no fusion of the gate and up projections.
    pub no_fuse_ffn: bool,
    /// `MINFER_GEMM`, `MINFER_NO_FLASH`, `MINFER_NO_PREFILL_FLASH`, `MINFER_NO_WINDOW_FLASH`, `MINFER_NO_SPLIT_ATTN`,
    /// `MINFER_ATTN_CHUNKS` and `MINFER_PACKED_KV_STAGE`: kernels of a Metal device where several can run.
    pub kernels: KernelChoices,
    /// `MINFER_TRACE`: log each dispatch on a Metal device.
    pub trace: bool,
    /// `MINFER_METAL_CAPTURE`: where a GPU trace for Xcode goes.
    pub metal_capture: Option<PathBuf>,
    /// `MINFER_METALLIB_FILE` and `MINFER_METALLIB_PATH`: where compiled Metal kernels are from.
    pub metallib: Metallib,
}

/// A variable as `minfer config` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The variable.
    pub name: &'static str,
    /// What it does and what it accepts.
    pub meaning: &'static str,
    /// What happens without it.
    pub default: &'static str,
    /// Its present value, if it is set.
    pub value: Option<String>,
}

impl Config {
    /// Reads the environment of the process.
    ///
    /// # Errors
    /// A variable whose value is not accepted. An empty value counts as unset.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    fn from_lookup(get: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let mut config = Config::default();
        for variable in VARIABLES {
            let Some(value) = get(variable.name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let parsed = match value.to_str() {
                Some(text) => (variable.parse)(&mut config, text),
                None => Err("valid UTF-8".to_owned()),
            };
            parsed.map_err(|accepted| ConfigError {
                name: variable.name,
                value: value.to_string_lossy().into_owned(),
                accepted,
            })?;
        }
        Ok(config)
    }

    /// Every variable with its present value.
    pub fn settings(&self) -> Vec<Setting> {
        VARIABLES
            .iter()
            .map(|variable| Setting {
                name: variable.name,
                meaning: variable.meaning,
                default: variable.default,
                value: (variable.show)(self),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn every_variable_is_read_and_shown() {
        let values = [
            ("MINFER_THREADS", "3"),
            ("MINFER_CPU_ISA", "scalar"),
            ("MINFER_PREFILL_BF16", "1"),
            ("MINFER_CACHE_TYPE", "q8_0"),
            ("MINFER_NO_FUSION", "1"),
            ("MINFER_NO_MMAP", "1"),
            ("MINFER_OP_PROFILE", "1"),
            ("MINFER_DEVICE", "soft-metal"),
            ("MINFER_GPU_LAYERS", "12"),
            ("MINFER_DISABLE_MPS", "1"),
            ("MINFER_WEIGHT_COPY", "1"),
            ("MINFER_NO_FUSE_QKV", "1"),
            ("MINFER_NO_FUSE_FFN", "1"),
            ("MINFER_GEMM", "0"),
            ("MINFER_NO_FLASH", "1"),
            ("MINFER_NO_PREFILL_FLASH", "1"),
            ("MINFER_NO_WINDOW_FLASH", "1"),
            ("MINFER_NO_SPLIT_ATTN", "1"),
            ("MINFER_ATTN_CHUNKS", "4"),
            ("MINFER_PACKED_KV_STAGE", "1"),
            ("MINFER_TRACE", "1"),
            ("MINFER_METAL_CAPTURE", "x.gputrace"),
            ("MINFER_METALLIB_FILE", "x.metallib"),
        ];
        let config = config(&values).expect("accepted values");
        assert_eq!(
            config,
            Config {
                threads: Some(3),
                isa: Some(Isa::Scalar),
                prefill_bf16: true,
                kv_format: Some(KvFormat::Q8_0),
                no_fusion: true,
                no_mmap: true,
                op_profile: true,
                device: DeviceChoice::SoftMetal,
                gpu_layers: Some(12),
                disable_mps: true,
                weight_copy: true,
                no_fuse_qkv: true,
                no_fuse_ffn: true,
                kernels: KernelChoices {
                    gemm: false,
                    flash_decode: false,
                    flash_prefill: false,
                    window_flash: false,
                    split_attention: false,
                    attention_chunks: Some(4),
                    packed_stage: true,
                },
                trace: true,
                metal_capture: Some("x.gputrace".into()),
                metallib: Metallib::File("x.metallib".into()),
            }
        );
        let shown: Vec<_> = config
            .settings()
            .into_iter()
            .filter_map(|setting| Some((setting.name, setting.value?)))
            .collect();
        assert_eq!(shown, values.map(|(name, value)| (name, value.to_owned())));
        // All but the one that excludes another.
        assert_eq!(config.settings().len(), values.len() + 1);
    }

    #[test]
    fn kernels_come_from_one_place() {
        let folder = ("MINFER_METALLIB_PATH", "kernels");
        let read = config(&[folder]).expect("a folder");
        assert_eq!(read.metallib, Metallib::Folder("kernels".into()));
        let shown = read
            .settings()
            .into_iter()
            .filter(|setting| setting.value.is_some());
        let shown: Vec<_> = shown.map(|setting| setting.name).collect();
        assert_eq!(shown, ["MINFER_METALLIB_PATH"]);
        let both = config(&[folder, ("MINFER_METALLIB_FILE", "x.metallib")]);
        assert_eq!(
            both.expect_err("two places").to_string(),
            "MINFER_METALLIB_PATH is `kernels`, but must be unset, since MINFER_METALLIB_FILE is set"
        );
    }

    #[test]
    fn a_capture_has_a_path() {
        let capture = |value| {
            config(&[("MINFER_METAL_CAPTURE", value)])
                .expect("any")
                .metal_capture
        };
        assert_eq!(capture("0"), None);
        assert_eq!(capture("1"), Some("minfer.gputrace".into()));
        assert_eq!(capture("a/b.gputrace"), Some("a/b.gputrace".into()));
    }

    #[test]
    fn unset_and_empty_leave_the_defaults() {
        assert_eq!(config(&[]), Ok(Config::default()));
        assert_eq!(config(&[("MINFER_THREADS", "")]), Ok(Config::default()));
        assert_eq!(config(&[("MINFER_NO_MMAP", "0")]), Ok(Config::default()));
        assert_eq!(config(&[("MINFER_DEVICE", "auto")]), Ok(Config::default()));
        assert_eq!(
            config(&[("MINFER_GPU_LAYERS", "auto")]),
            Ok(Config::default())
        );
    }

    #[test]
    fn errors_name_variable_value_and_accepted_values() {
        for (name, value, accepted) in [
            ("MINFER_THREADS", "0", "a whole number of at least 1"),
            ("MINFER_THREADS", "two", "a whole number of at least 1"),
            ("MINFER_CACHE_TYPE", "q4_0", "f32, f16 or q8_0"),
            ("MINFER_NO_FUSION", "yes", "0 or 1"),
            ("MINFER_GEMM", "off", "0 or 1"),
            ("MINFER_ATTN_CHUNKS", "0", "a whole number from 1 to 16"),
            ("MINFER_ATTN_CHUNKS", "17", "a whole number from 1 to 16"),
            ("MINFER_DEVICE", "gpu", "auto, cpu, metal or soft-metal"),
            (
                "MINFER_GPU_LAYERS",
                "-1",
                "a whole number of at least 0, or auto",
            ),
            (
                "MINFER_GPU_LAYERS",
                "all",
                "a whole number of at least 0, or auto",
            ),
        ] {
            let error = config(&[(name, value)]).expect_err(value).to_string();
            assert_eq!(
                error,
                format!("{name} is `{value}`, but must be {accepted}")
            );
        }
        let error = config(&[("MINFER_CPU_ISA", "sse9")]).expect_err("sse9");
        let message = error.to_string();
        let start = "MINFER_CPU_ISA is `sse9`, but must be auto or what this machine has (scalar";
        assert!(message.starts_with(start), "{message}");
    }
}
