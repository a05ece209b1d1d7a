//! Engines on the software device.

use std::path::Path;

use minfer_cpu::Isa;
use minfer_engine::{
    Chunk, DeviceChoice, Engine, EngineOptions, Error, MetalSettings, Role, Wanted,
};
use minfer_graph::{KvFormat, SequenceId};
use minfer_testdata::tiny_model;

/// Layers of the tiny models.
pub const LAYERS: usize = 2;

/// The first `layers` layers on the device; the CPU, where it computes, in plain f32 for prompt rows.
pub fn options(layers: Option<usize>) -> EngineOptions {
    EngineOptions {
        device: DeviceChoice::SoftMetal,
        gpu_layers: layers,
        metal: MetalSettings {
            kernel_cache: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
            ..MetalSettings::default()
        },
        threads: Some(1),
        n_ctx: Some(128),
        ubatch: 64,
        parallel: 4,
        draft: 2,
        isa: Some(Isa::Scalar),
        ..EngineOptions::default()
    }
}

pub fn with_format(layers: usize, format: KvFormat) -> EngineOptions {
    EngineOptions {
        kv_format: Some(format),
        ..options(Some(layers))
    }
}

pub fn load(model: &str, options: &EngineOptions) -> Engine {
    Engine::load(tiny_model(model), options).unwrap_or_else(|e| panic!("{model}: {e}"))
}

pub fn refused(model: &str, options: &EngineOptions) -> Error {
    match Engine::load(tiny_model(model), options) {
        Ok(engine) => panic!("{model} was loaded: {}", engine.placement()),
        Err(error) => error,
    }
}

/// Appends tokens, and returns the logits after each.
pub fn append(
    engine: &mut Engine,
    sequence: SequenceId,
    tokens: &[u32],
    role: Role,
) -> Vec<Vec<f32>> {
    let each = |engine: &mut Engine, tokens: &[u32]| {
        let chunk = Chunk {
            sequence,
            tokens,
            role,
            logits: Wanted::Last,
        };
        engine.step(&[chunk]).unwrap_or_else(|e| panic!("{e}"));
        engine.logits(0, 0).to_vec()
    };
    tokens.chunks(1).map(|token| each(engine, token)).collect()
}

pub fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

pub fn text(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 37 + 11) % 300).collect()
}
