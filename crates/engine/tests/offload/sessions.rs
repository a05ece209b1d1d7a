//! Sequences that are saved, restored and shifted on a device.

use std::path::Path;

use minfer_engine::session_file::SessionFileError;
use minfer_engine::{Engine, EngineOptions, Role};
use minfer_graph::KvFormat;
use minfer_testdata::largest_difference;
use tempfile::tempdir;

use crate::support::{DEVICE, LAYERS, append, bits, has_device, load, options, text, with_format};

const MODEL: &str = "tiny-qwen3-q4_k";

/// Saves a sequence of 20 tokens; the bits of what follows it.
fn save(options: &EngineOptions, path: &Path) -> Vec<Vec<u32>> {
    let mut engine = load(MODEL, options);
    let sequence = engine.create_sequence();
    append(&mut engine, sequence, &text(20), Role::Prompt);
    engine
        .save_sequence(sequence, b"host", path)
        .unwrap_or_else(|e| panic!("{e}"));
    go_on(&mut engine, sequence)
}

fn go_on(engine: &mut Engine, sequence: minfer_engine::SequenceId) -> Vec<Vec<u32>> {
    let logits = append(engine, sequence, &[7, 8, 9], Role::Generated);
    logits.iter().map(|row| bits(row)).collect()
}

#[test]
fn a_session_goes_on_bit_for_bit_where_it_was_saved() {
    if !has_device() {
        return;
    }
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    for (layers, format) in [
        (LAYERS, KvFormat::F16),
        (LAYERS, KvFormat::Q8_0),
        (1, KvFormat::F32),
    ] {
        let options = with_format(layers, format);
        let expected = save(&options, &path);
        let mut engine = load(MODEL, &options);
        let (sequence, host) = engine.restore_sequence(&path).expect("its own");
        assert_eq!(host, b"host");
        assert_eq!(
            go_on(&mut engine, sequence),
            expected,
            "{layers} {format:?}"
        );
    }
}

#[test]
fn another_placement_is_refused_with_both() {
    if !has_device() {
        return;
    }
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let refused = |layers| {
        let mut engine = load(MODEL, &options(Some(layers)));
        engine.restore_sequence(&path).expect_err("another origin")
    };
    let backends = |error: SessionFileError| match error {
        SessionFileError::Backend { saved, engine } => (saved, engine),
        error => panic!("{error}"),
    };
    let pair = |saved: &str, engine: &str| (saved.to_owned(), engine.to_owned());
    save(&options(Some(LAYERS)), &path);
    let whole = DEVICE.name();
    let part = &format!("{whole}+cpu");
    assert_eq!(backends(refused(0)), pair(whole, "cpu"));
    assert_eq!(backends(refused(1)), pair(whole, part));
    save(&options(Some(1)), &path);
    assert_eq!(backends(refused(LAYERS)), pair(part, whole));
    save(&options(Some(0)), &path);
    assert_eq!(backends(refused(LAYERS)), pair("cpu", whole));
}

/// Largest |Δlogit| between devices that compute in f32, after keys were rotated once more.
const TOLERANCE: f32 = 1e-3;

#[test]
fn a_context_is_shifted_on_the_device_as_on_the_cpu() {
    if !has_device() {
        return;
    }
    let shifted = |layers| {
        let mut engine = load(MODEL, &with_format(layers, KvFormat::F32));
        let sequence = engine.create_sequence();
        append(&mut engine, sequence, &text(40), Role::Prompt);
        let before = engine.tokens(sequence).to_vec();
        engine.shift_sequence(sequence, 4..24).expect("rotated");
        assert_eq!(
            engine.tokens(sequence),
            [&before[..4], &before[24..]].concat()
        );
        append(&mut engine, sequence, &[7, 8], Role::Prompt).concat()
    };
    let expected = shifted(0);
    for layers in [1, LAYERS] {
        let difference = largest_difference(&shifted(layers), &expected);
        assert!(difference <= TOLERANCE, "{layers} layers: {difference}");
    }
    // Without the shift the logits are others.
    let mut engine = load(MODEL, &with_format(0, KvFormat::F32));
    let sequence = engine.create_sequence();
    let unshifted = [&text(40)[..4], &text(40)[24..], &[7, 8]].concat();
    let alone = append(&mut engine, sequence, &unshifted, Role::Prompt);
    let difference = largest_difference(&alone[20..].concat(), &expected);
    assert!(difference > 10.0 * TOLERANCE, "{difference}");
}
