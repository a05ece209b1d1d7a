//! Every variable, described once.

use minfer_cpu::Isa;
use minfer_metal::metallib::Metallib;

use super::Config;
use super::values::{
    accepted_isas, chunks, kv_format_name, metallib, parse_gpu_layers, parse_kv_format, positive,
    shown, shown_path, switch,
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
    Variable {
        name: "MINFER_GEMM",
        meaning: "0 multiplies prompt rows on a Metal device as generated ones are",
        default: "1",
        parse: |config, text| switch(text).map(|on| config.kernels.gemm = on),
        show: |config| (!config.kernels.gemm).then(|| "0".to_owned()),
    },
    Variable {
        name: "MINFER_NO_FLASH",
        meaning: "1 computes attention of generated rows on a Metal device without flash decode",
        default: "0",
        parse: |config, text| switch(text).map(|off| config.kernels.flash_decode = !off),
        show: |config| shown(!config.kernels.flash_decode),
    },
    Variable {
        name: "MINFER_NO_PREFILL_FLASH",
        meaning: "1 computes attention of prompt rows on a Metal device without flash prefill",
        default: "0",
        parse: |config, text| switch(text).map(|off| config.kernels.flash_prefill = !off),
        show: |config| shown(!config.kernels.flash_prefill),
    },
    Variable {
        name: "MINFER_NO_WINDOW_FLASH",
        meaning: "1 does as MINFER_NO_PREFILL_FLASH, but only where a sequence shares cells or does not start at the cache's first",
        default: "0",
        parse: |config, text| switch(text).map(|off| config.kernels.window_flash = !off),
        show: |config| shown(!config.kernels.window_flash),
    },
    Variable {
        name: "MINFER_NO_SPLIT_ATTN",
        meaning: "1 computes attention without flash kernels in one pass instead of two or three",
        default: "0",
        parse: |config, text| switch(text).map(|off| config.kernels.split_attention = !off),
        show: |config| shown(!config.kernels.split_attention),
    },
    Variable {
        name: "MINFER_ATTN_CHUNKS",
        meaning: "most chunks that flash decode cuts a window into",
        default: "as many as there may be",
        parse: |config, text| chunks(text).map(|n| config.kernels.attention_chunks = Some(n)),
        show: |config| config.kernels.attention_chunks.map(|n| n.to_string()),
    },
    Variable {
        name: "MINFER_PACKED_KV_STAGE",
        meaning: "1 reads a q8_0 cache on a Metal device by way of f32 cells in memory",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.kernels.packed_stage = on),
        show: |config| shown(config.kernels.packed_stage),
    },
    Variable {
        name: "MINFER_TRACE",
        meaning: "1 logs each dispatch on a Metal device, with -v",
        default: "0",
        parse: |config, text| switch(text).map(|on| config.trace = on),
        show: |config| shown(config.trace),
    },
    Variable {
        name: "MINFER_METAL_CAPTURE",
        meaning: "writes a GPU trace for Xcode to this path, or to minfer.gputrace with 1; needs MTL_CAPTURE_ENABLED=1 too",
        default: "0: none",
        parse: |config, text| {
            config.metal_capture = match text {
                "0" => None,
                "1" => Some("minfer.gputrace".into()),
                path => Some(path.into()),
            };
            Ok(())
        },
        show: |config| shown_path(config.metal_capture.as_deref()),
    },
    Variable {
        name: "MINFER_METALLIB_FILE",
        meaning: "a compiled Metal library with the kernels of all files, to use instead of those in the program",
        default: "none",
        parse: |config, text| metallib(&mut config.metallib, Metallib::File(text.into())),
        show: |config| match &config.metallib {
            Metallib::File(file) => shown_path(Some(file)),
            _ => None,
        },
    },
    Variable {
        name: "MINFER_METALLIB_PATH",
        meaning: "a folder with a compiled Metal library for each kernel file, to use instead of those in the program",
        default: "none",
        parse: |config, text| metallib(&mut config.metallib, Metallib::Folder(text.into())),
        show: |config| match &config.metallib {
            Metallib::Folder(folder) => shown_path(Some(folder)),
            _ => None,
        },
    },
];
