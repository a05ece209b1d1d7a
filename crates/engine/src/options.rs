//! How to load and run a model.

use std::ops::RangeInclusive;

use minfer_cpu::{Isa, PrefillPrecision};
use minfer_graph::{Fusion, KvFormat};

use crate::{Config, DeviceChoice, Error, MetalSettings};

/// Context length unless another one is asked for or the model was trained for less.
pub const DEFAULT_N_CTX: usize = 4096;

/// Most sequences of an engine. With [`MOST_DRAFTED`] each, the rows of a step stay countable.
const MOST_PARALLEL: usize = 4096;

/// Most drafted tokens of a sequence in one step.
const MOST_DRAFTED: usize = 1024;

/// Settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// What to run on.
    pub device: DeviceChoice,
    /// Leading layers to run on a device that is not the CPU, all if the model has no more, then with embedding and
    /// output; as many as fit when absent. The rest runs on the CPU.
    pub gpu_layers: Option<usize>,
    /// How a Metal device is used.
    pub metal: MetalSettings,
    /// Compute threads; the physical cores when absent.
    pub threads: Option<usize>,
    /// Context length in tokens; 0 is the length the model was trained for, absent is the smaller of
    /// that and [`DEFAULT_N_CTX`].
    pub n_ctx: Option<usize>,
    /// Most prompt tokens computed at once.
    pub ubatch: usize,
    /// Sequences of full length to have room for in the KV cache, which all share; at most 4096.
    pub parallel: usize,
    /// Most drafted tokens of a sequence in one step; at most 1024.
    pub draft: usize,
    /// Format of the KV cache. When absent, f16 on a device other than the CPU for models with at least 8192 key
    /// features in all layers together, else f32.
    pub kv_format: Option<KvFormat>,
    /// Instruction set of the CPU kernels; the best of this machine when absent.
    pub isa: Option<Isa>,
    /// Operands of products for prompt rows, where the instruction set leaves a choice.
    pub prefill: PrefillPrecision,
    /// Rewrites of the compute graph.
    pub fusion: Fusion,
    /// Map the model file instead of reading it into memory.
    pub mmap: bool,
    /// Time each operation.
    pub op_profile: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            device: DeviceChoice::Auto,
            gpu_layers: None,
            metal: MetalSettings::default(),
            threads: None,
            n_ctx: None,
            ubatch: 512,
            parallel: 1,
            draft: 0,
            kv_format: None,
            isa: None,
            prefill: PrefillPrecision::default(),
            fusion: Fusion::default(),
            mmap: true,
            op_profile: false,
        }
    }
}

impl From<&Config> for EngineOptions {
    /// The defaults, changed by the environment.
    fn from(config: &Config) -> Self {
        let fused = !config.no_fusion;
        EngineOptions {
            device: config.device,
            gpu_layers: config.gpu_layers,
            metal: MetalSettings {
                disabled: config.disable_mps,
                copy_weights: config.weight_copy,
                kernels: config.kernels,
                trace: config.trace,
                capture: config.metal_capture.clone(),
                metallib: config.metallib.clone(),
                ..MetalSettings::default()
            },
            threads: config.threads,
            kv_format: config.kv_format,
            isa: config.isa,
            prefill: match config.prefill_bf16 {
                true => PrefillPrecision::Bf16,
                false => PrefillPrecision::Split,
            },
            fusion: Fusion {
                swiglu: fused,
                qkv: fused && !config.no_fuse_qkv,
                ffn: fused && !config.no_fuse_ffn,
                residual: fused,
                norm: fused,
            },
            mmap: !config.no_mmap,
            op_profile: config.op_profile,
            ..EngineOptions::default()
        }
    }
}

impl EngineOptions {
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let check = |name, value, accepted: RangeInclusive<usize>, expected| match accepted
            .contains(&value)
        {
            true => Ok(()),
            false => Err(Error::Option {
                name,
                value,
                expected,
            }),
        };
        let any = usize::MAX;
        check("ubatch", self.ubatch, 1..=any, "at least 1")?;
        check("threads", self.threads.unwrap_or(1), 1..=any, "at least 1")?;
        let parallel = 1..=MOST_PARALLEL;
        check("parallel", self.parallel, parallel, "between 1 and 4096")?;
        check("draft", self.draft, 0..=MOST_DRAFTED, "at most 1024")
    }

    /// The context length in tokens for a model trained for `n_ctx_train`.
    pub fn resolve_n_ctx(&self, n_ctx_train: usize) -> usize {
        match self.n_ctx {
            None => n_ctx_train.min(DEFAULT_N_CTX),
            Some(0) => n_ctx_train,
            Some(n_ctx) => n_ctx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_length_defaults_and_zero_is_as_trained() {
        let n_ctx = |n_ctx, trained| {
            let options = EngineOptions {
                n_ctx,
                ..EngineOptions::default()
            };
            options.resolve_n_ctx(trained)
        };
        assert_eq!(n_ctx(None, 32_768), 4096);
        assert_eq!(n_ctx(None, 2048), 2048);
        assert_eq!(n_ctx(Some(0), 32_768), 32_768);
        assert_eq!(n_ctx(Some(9000), 2048), 9000);
    }

    #[test]
    fn zero_threads_or_rows_are_refused() {
        let no_rows = EngineOptions {
            ubatch: 0,
            ..EngineOptions::default()
        };
        let message = no_rows.validate().expect_err("0").to_string();
        assert_eq!(message, "ubatch is 0, but must be at least 1");
        let no_threads = EngineOptions {
            threads: Some(0),
            ..EngineOptions::default()
        };
        assert!(no_threads.validate().is_err());
        assert!(EngineOptions::default().validate().is_ok());
    }

    #[test]
    fn more_rows_than_can_be_counted_are_refused() {
        let refused = |parallel, draft| {
            let options = EngineOptions {
                parallel,
                draft,
                ..EngineOptions::default()
            };
            options.validate().expect_err("too many").to_string()
        };
        let message = format!("draft is {}, but must be at most 1024", usize::MAX);
        assert_eq!(refused(1, usize::MAX), message);
        let message = "parallel is 4097, but must be between 1 and 4096";
        assert_eq!(refused(4097, 0), message);
    }
}
