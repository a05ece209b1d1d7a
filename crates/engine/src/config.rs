//! The `MINFER_*` variables of the engine, read once.

use std::ffi::OsString;

use minfer_cpu::Isa;
use minfer_graph::KvFormat;

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

/// One variable: its description, how to read it and how to show what was read.
struct Variable {
    name: &'static str,
    meaning: &'static str,
    default: &'static str,
    parse: fn(&mut Config, &str) -> Result<(), String>,
    show: fn(&Config) -> Option<String>,
}

const VARIABLES: [Variable; 7] = [
    Variable {
        name: "MINFER_THREADS",
        meaning: "compute threads",
        default: "physical cores",
        parse: |config, text| positive(text).map(|n| config.threads = Some(n)),
        show: |config| config.threads.map(|n| n.to_string()),
    },
    Variable {
        name: "MINFER_CPU_ISA",
        meaning: "instruction set of the CPU kernels: auto, scalar, avx2, avx512, amx, neon",
        default: "auto: the best of this machine",
        parse: |config, text| {
            config.isa = Some(Isa::select(text).map_err(|_| accepted_isas())?);
            Ok(())
        },
        show: |config| config.isa.map(|isa| isa.to_string()),
    },
    Variable {
        name: "MINFER_PREFILL_BF16",
        meaning: "1 rounds prompt products to bf16 on amx: up to twice as fast, rounding operands by up to 0.4 %",
        default: "0: nearly as exact as f32",
        parse: |config, text| switch(text).map(|on| config.prefill_bf16 = on),
        show: |config| shown(config.prefill_bf16),
    },
    Variable {
        name: "MINFER_CACHE_TYPE",
        meaning: "element format of the KV cache: f32, f16, q8_0",
        default: "f32 on the CPU",
        parse: |config, text| parse_kv_format(text).map(|f| config.kv_format = Some(f)),
        show: |config| config.kv_format.map(|f| kv_format_name(f).to_owned()),
    },
    Variable {
        name: "MINFER_NO_FUSION",
        meaning: "1 runs every operation as a node of its own",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.no_fusion = on),
        show: |config| shown(config.no_fusion),
    },
    Variable {
        name: "MINFER_NO_MMAP",
        meaning: "1 reads model files into memory instead of mapping them",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.no_mmap = on),
        show: |config| shown(config.no_mmap),
    },
    Variable {
        name: "MINFER_OP_PROFILE",
        meaning: "1 times each operation and reports the totals at the end",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.op_profile = on),
        show: |config| shown(config.op_profile),
    },
];

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
        for variable in &VARIABLES {
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

fn accepted_isas() -> String {
    let names: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    format!("auto or what this machine has ({})", names.join(", "))
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a whole number of at least 1".to_owned()),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1".to_owned()),
    }
}

fn shown(on: bool) -> Option<String> {
    on.then(|| "1".to_owned())
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
            }
        );
        let shown: Vec<_> = config
            .settings()
            .into_iter()
            .map(|setting| (setting.name, setting.value.unwrap_or_default()))
            .collect();
        assert_eq!(shown, values.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn unset_and_empty_leave_the_defaults() {
        assert_eq!(config(&[]), Ok(Config::default()));
        assert_eq!(config(&[("MINFER_THREADS", "")]), Ok(Config::default()));
        assert_eq!(config(&[("MINFER_NO_MMAP", "0")]), Ok(Config::default()));
    }

    #[test]
    fn errors_name_variable_value_and_accepted_values() {
        for (name, value, accepted) in [
            ("MINFER_THREADS", "0", "a whole number of at least 1"),
            ("MINFER_THREADS", "two", "a whole number of at least 1"),
            ("MINFER_CACHE_TYPE", "q4_0", "f32, f16 or q8_0"),
            ("MINFER_NO_FUSION", "yes", "0 or 1"),
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
