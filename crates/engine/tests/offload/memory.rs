//! The device's memory decides how many layers run there.

use minfer_engine::{DeviceChoice, EngineOptions, Error, MetalSettings, OffloadError};
use minfer_gguf::{Gguf, OpenOptions};
use minfer_testdata::tiny_model;

use crate::support::{DEVICE, LAYERS, has_device, load, options, refused};

const MODEL: &str = "tiny-qwen3-q4_k";

/// The device with this many bytes.
fn limited(layers: Option<usize>, memory: u64) -> EngineOptions {
    let options = options(layers);
    EngineOptions {
        metal: MetalSettings {
            memory: Some(memory),
            ..options.metal
        },
        ..options
    }
}

/// What the error of too little memory says layers need: weights, KV cache and buffers.
fn needs(layers: usize) -> [u64; 3] {
    needed(&limited(Some(layers), 1))
}

fn needed(options: &EngineOptions) -> [u64; 3] {
    match refused(MODEL, options) {
        Error::Offload(error) => match *error {
            OffloadError::Memory {
                weights,
                kv,
                buffers,
                available: 1,
                fit: 0,
                ..
            } => [weights, kv, buffers],
            error => panic!("{error}"),
        },
        error => panic!("{error}"),
    }
}

/// Bytes of the tensors whose names have this beginning.
fn tensor_bytes(beginning: &str) -> u64 {
    let gguf = Gguf::open(tiny_model(MODEL), OpenOptions::default()).expect("a fixture");
    let tensors = gguf.tensors().iter();
    let named = tensors.filter(|tensor| tensor.name.starts_with(beginning));
    named.map(|tensor| tensor.len as u64).sum()
}

#[test]
fn layers_need_their_weights_their_cells_and_buffers() {
    if !has_device() {
        return;
    }
    let [weights, kv, buffers] = needs(LAYERS);
    assert_eq!(weights, tensor_bytes(""));
    // Too little memory for more than the cells of one sequence; keys and values of 64 features in f32.
    let hparams = load(MODEL, &options(None)).model().hparams().clone();
    let cell = 2 * 4 * (hparams.head_dim * hparams.n_head_kv) as u64;
    assert_eq!(kv, 2 * 128 * cell);
    // At least the logits of the most rows that a step has, 12 of them.
    let n_vocab = load(MODEL, &options(None)).model().n_vocab() as u64;
    assert!(buffers >= 12 * n_vocab * 4, "{buffers}");
    let [weights, kv, _] = needs(1);
    assert_eq!(weights, tensor_bytes("blk.0."));
    assert_eq!(kv, 128 * cell);
}

/// 128 cells are four chunks of 32; a partial is 128 outputs, a score and a sum, for each head of the 12 rows.
#[test]
fn what_lies_between_kernels_counts_as_buffers() {
    if !has_device() {
        return;
    }
    let buffers = |chunks| {
        let mut options = limited(Some(LAYERS), 1);
        options.metal.kernels.attention_chunks = Some(chunks);
        needed(&options)[2]
    };
    let hparams = load(MODEL, &options(None)).model().hparams().clone();
    assert_eq!(hparams.head_dim, 128);
    let of_chunk = 12 * hparams.n_head as u64 * 130 * 4;
    assert_eq!(buffers(4) - buffers(1), 3 * of_chunk);
    assert_eq!(buffers(16), buffers(4));
}

#[test]
fn the_largest_prefix_that_fits_runs_on_the_device() {
    if !has_device() {
        return;
    }
    let all: u64 = needs(LAYERS).iter().sum();
    let one: u64 = needs(1).iter().sum();
    let loaded = |memory| {
        let engine = load(MODEL, &limited(None, memory));
        let placement = engine.placement().clone();
        if placement.is_on_device() {
            let [device, _] = engine.memory() else {
                panic!("{:?}", engine.memory());
            };
            assert_eq!(device.weights, needs(placement.layers)[0]);
            assert!(device.weights + device.pooled <= memory, "{device:?}");
        }
        placement
    };
    let placement = loaded(all);
    assert_eq!((placement.layers, placement.reason), (LAYERS, None));
    let half = loaded(all - 1);
    assert_eq!(half.layers, 1);
    let text = half.to_string();
    let device = DEVICE.name();
    let expected = format!(
        "1 of 2 layers run on {device}, the rest on the CPU: 2 of 2 layers need {all} bytes on {device} ("
    );
    assert!(text.starts_with(&expected), "{text}");
    let end = format!(
        " of buffers), but only {} are available: at most 1 layers fit",
        all - 1
    );
    assert!(text.ends_with(&end), "{text}");
    assert_eq!(loaded(one).layers, 1);
    let none = loaded(one - 1);
    assert_eq!(none.device, DeviceChoice::Cpu);
    assert!(
        none.reason
            .is_some_and(|reason| reason.contains("at most 0 layers fit"))
    );
}

#[test]
fn cells_give_way_before_layers_do() {
    if !has_device() {
        return;
    }
    let all: u64 = needs(LAYERS).iter().sum();
    let [_, kv, _] = needs(LAYERS);
    let cells = |memory| load(MODEL, &limited(None, memory)).kv_budget().cells;
    assert_eq!(cells(all), 128);
    assert_eq!(cells(all + kv / 128), 129);
    assert_eq!(cells(all + 3 * kv), 4 * 128);
    assert_eq!(cells(all + 9 * kv), 4 * 128);
}

#[test]
fn cells_get_what_a_layer_that_does_not_fit_leaves() {
    if !has_device() {
        return;
    }
    let all: u64 = needs(LAYERS).iter().sum();
    let [weights, kv, buffers] = needs(1);
    let engine = load(MODEL, &limited(None, all - 1));
    assert_eq!(engine.placement().layers, 1);
    let room = (all - 1 - weights - buffers) / (kv / 128);
    assert!(room > 128, "{room}");
    assert_eq!(engine.kv_budget().cells as u64, room.min(4 * 128));
}

#[test]
fn layers_that_were_asked_for_and_do_not_fit_are_refused() {
    if !has_device() {
        return;
    }
    let all: u64 = needs(LAYERS).iter().sum();
    let error = refused(MODEL, &limited(Some(99), all - 1)).to_string();
    let expected = format!("2 of 2 layers need {all} bytes on {} (", DEVICE.name());
    assert!(error.starts_with(&expected), "{error}");
    assert_eq!(
        load(MODEL, &limited(Some(1), all - 1)).placement().layers,
        1
    );
}
