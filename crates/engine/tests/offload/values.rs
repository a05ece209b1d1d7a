//! Tiny models wholly, half and not at all on the device, against a reference that computed with weights dequantized to
//! f32 and f32 activations.

use minfer_engine::sampling::argmax;
use minfer_engine::{DeviceChoice, Engine, Role};
use minfer_testdata::{TinyLogits, largest_difference, tiny_logits};

use crate::support::{DEVICE, LAYERS, append, has_device, load, options};

const MODELS: [&str; 3] = ["tiny-qwen2-q4_k", "tiny-qwen3-q4_k", "tiny-llama-q4_k"];

/// Largest |Δlogit| of a prompt row, and of a generated row of the device; the logits are about -5 to 5. All is f32:
/// only the order of sums differs.
const TOLERANCE: f32 = 1e-4;
/// The same of rows that the CPU generated in part: it takes activations in int8.
const TOLERANCE_INT8: f32 = 0.3;

fn reference(name: &str) -> TinyLogits {
    let mut all = tiny_logits().into_iter();
    all.find(|logits| logits.file == format!("{name}.gguf"))
        .unwrap_or_else(|| panic!("no reference for {name}"))
}

fn compare(name: &str, engine: &mut Engine, expected: &TinyLogits) {
    let layers = engine.placement().layers;
    let whole = engine.create_sequence();
    for (row, token) in append(engine, whole, &expected.ids, Role::Prompt)
        .iter()
        .zip(&expected.row_argmax)
    {
        assert_eq!(argmax(row).as_ref(), Ok(token), "{name}, {layers} layers");
    }
    let mut session = engine.session();
    session.prefill(&expected.ids).expect("room");
    let difference = largest_difference(session.logits(), &expected.last_logits);
    drop(session);
    assert!(
        difference <= TOLERANCE,
        "{name}, {layers} layers: {difference}"
    );

    let (first, rest) = expected.ids.split_at(1);
    let mut session = engine.session();
    session.prefill(first).expect("room");
    for &token in rest {
        session.decode(token).expect("room");
    }
    let difference = largest_difference(session.logits(), &expected.last_logits);
    let tolerance = match layers {
        LAYERS => TOLERANCE,
        _ => TOLERANCE_INT8,
    };
    assert!(
        difference <= tolerance,
        "{name}, {layers} layers: {difference}"
    );
}

#[test]
fn logits_are_those_of_the_reference_wherever_layers_run() {
    if !has_device() {
        return;
    }
    for name in MODELS {
        let expected = reference(name);
        for layers in 0..=LAYERS {
            let mut engine = load(name, &options(Some(layers)));
            assert_eq!(engine.placement().layers, layers);
            compare(name, &mut engine, &expected);
        }
    }
}

#[test]
fn a_placement_says_what_runs_where() {
    if !has_device() {
        return;
    }
    let on = |layers| {
        load("tiny-qwen3-q4_k", &options(layers))
            .placement()
            .clone()
    };
    for layers in [None, Some(LAYERS), Some(LAYERS + 1), Some(usize::MAX)] {
        let placement = on(layers);
        assert_eq!(placement.device, DEVICE);
        let expected = format!("all 2 layers run on {}", DEVICE.name());
        assert_eq!(placement.to_string(), expected);
    }
    let half = on(Some(1));
    let expected = format!(
        "1 of 2 layers run on {}, the rest on the CPU",
        DEVICE.name()
    );
    assert_eq!(half.to_string(), expected);
    let none = on(Some(0));
    assert_eq!(none.device, DeviceChoice::Cpu);
    assert_eq!(none.to_string(), "all 2 layers run on the CPU");
}
