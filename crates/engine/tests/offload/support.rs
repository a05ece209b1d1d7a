//! Engines on the software device, on a Mac on its GPU.

use std::path::Path;

use minfer_cpu::Isa;
use minfer_engine::{
    Chunk, DeviceChoice, Engine, EngineOptions, Error, MetalSettings, Role, Wanted, metal_devices,
};
use minfer_graph::{KvFormat, SequenceId};
use minfer_testdata::{largest_difference, tiny_model};

/// What models are offloaded to.
pub const DEVICE: DeviceChoice = match cfg!(target_vendor = "apple") {
    true => DeviceChoice::Metal,
    false => DeviceChoice::SoftMetal,
};

/// Whether there is such a device. Only a Mac may lack one, unless `MINFER_REQUIRE_MPS=1` asks for it.
pub fn has_device() -> bool {
    let mut devices = metal_devices(&MetalSettings::default()).into_iter();
    let device = devices.find(|device| device.choice == DEVICE);
    let info = device.expect("a choice").info;
    let is_software = DEVICE == DeviceChoice::SoftMetal;
    let required = is_software || std::env::var_os("MINFER_REQUIRE_MPS").is_some();
    assert!(info.is_ok() || !required, "{info:?}");
    info.is_ok()
}

/// Layers of the tiny models.
pub const LAYERS: usize = 2;

/// The first `layers` layers on the device; the CPU, where it computes, in plain f32 for prompt rows.
pub fn options(layers: Option<usize>) -> EngineOptions {
    EngineOptions {
        device: DEVICE,
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

/// Bits of the logits after a prompt and after each token that follows.
pub type Bits = Vec<Vec<u32>>;

pub fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

pub fn text(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 37 + 11) % 300).collect()
}

/// Largest |Δlogit| from the CPU where both compute in f32 and round keys and values, a few of them to another side. Up
/// to 1.2e-3 is seen.
const TOLERANCE: f32 = 5e-3;

/// Compares with the CPU, which takes the generated tokens as a prompt too: it computes that in f32.
pub fn assert_as_on_the_cpu(
    found: &Bits,
    model: &str,
    options: &EngineOptions,
    prompt: &[u32],
    generated: &[u32],
) {
    let options = EngineOptions {
        gpu_layers: Some(0),
        ..options.clone()
    };
    let mut engine = load(model, &options);
    let sequence = engine.create_sequence();
    let mut expected = Vec::new();
    let chunks = prompt.chunks(options.ubatch);
    let last = chunks.len() - 1;
    let chunks = chunks.enumerate().map(|(i, tokens)| match i == last {
        true => (tokens, Wanted::Last),
        false => (tokens, Wanted::None),
    });
    for (tokens, logits) in chunks.chain([(generated, Wanted::All)]) {
        let chunk = Chunk {
            sequence,
            tokens,
            role: Role::Prompt,
            logits,
        };
        engine.step(&[chunk]).unwrap_or_else(|e| panic!("{e}"));
        let rows = (0..).map(|row| engine.logits(0, row).to_vec());
        expected.extend(rows.take_while(|row| !row.is_empty()));
    }
    assert_eq!(found.len(), expected.len());
    let format = engine.kv_format();
    for (row, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let found: Vec<_> = found.iter().map(|&bits| f32::from_bits(bits)).collect();
        let difference = largest_difference(&found, expected);
        let what = format!("{model}, {format:?}, row {row}: {difference}");
        assert!(difference <= TOLERANCE, "{what}");
    }
}
