//! Every variable, described once.

use minfer_cpu::Isa;

use super::Config;
use super::values::{
    accepted_isas, kv_format_name, parse_gpu_layers, parse_kv_format, positive, shown, switch,
};
use crate::DeviceChoice;

/// One variable: its description, how to read it and how to show what was read.
pub(super) struct Variable {
    pub name: &'static str,
    pub meaning: &'static str,
    pub default: &'static str,
    pub parse: fn(&mut Config, &str) -> Result<(), String>,
    pub show: fn(&Config) -> Option<String>,
}

pub(super) const VARIABLES: &[Variable] = &[
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
        default: "f16 on a device for models that gain from it, else f32",
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
    Variable {
        name: "MINFER_DEVICE",
        meaning: "what to run on: auto, cpu, metal, soft-metal",
        default: "auto: Metal on Apple's systems, else the CPU",
        parse: |config, text| DeviceChoice::parse(text).map(|device| config.device = device),
        show: |config| {
            let device = config.device;
            (device != DeviceChoice::Auto).then(|| device.name().to_owned())
        },
    },
    Variable {
        name: "MINFER_GPU_LAYERS",
        meaning: "leading layers to run on a device other than the CPU: a number, or auto",
        default: "auto: as many as fit",
        parse: |config, text| parse_gpu_layers(text).map(|layers| config.gpu_layers = layers),
        show: |config| config.gpu_layers.map(|layers| layers.to_string()),
    },
    Variable {
        name: "MINFER_DISABLE_MPS",
        meaning: "1 does as if the system had no Metal device",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.disable_mps = on),
        show: |config| shown(config.disable_mps),
    },
    Variable {
        name: "MINFER_WEIGHT_COPY",
        meaning: "1 copies weights that a Metal device could read where the file is mapped",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.weight_copy = on),
        show: |config| shown(config.weight_copy),
    },
    Variable {
        name: "MINFER_NO_FUSE_QKV",
        meaning: "1 runs the projections of queries, keys and values and what follows them as nodes of their own",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.no_fuse_qkv = on),
        show: |config| shown(config.no_fuse_qkv),
    },
    Variable {
        name: "MINFER_NO_FUSE_FFN",
        meaning: "1 runs the gate and up projections as nodes of their own",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.no_fuse_ffn = on),
        show: |config| shown(config.no_fuse_ffn),
    },
];
