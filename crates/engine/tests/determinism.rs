//! Results do not depend on how the work is cut: chunks, threads and reuse change no bit.

use minfer_engine::{Engine, EngineOptions};
use minfer_testdata::tiny_model;

/// Weight types of every kernel family, and the three architectures' attention shapes.
const MODELS: [&str; 5] = [
    "tiny-qwen2-f32",
    "tiny-qwen2-bf16",
    "tiny-qwen2-q4_0",
    "tiny-qwen2-q5_k",
    "tiny-qwen3-q4_k",
];

fn load(name: &str, ubatch: usize, threads: usize) -> Engine {
    let options = EngineOptions {
        ubatch,
        threads: Some(threads),
        ..EngineOptions::default()
    };
    Engine::load(tiny_model(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn prompt(len: u32) -> Vec<u32> {
    (0..len).map(|i| (i * 37 + 11) % 300).collect()
}

/// Bits of the logits after the prompt and after each of some decoded tokens.
fn run(engine: &mut Engine, prompt: &[u32]) -> Vec<Vec<u32>> {
    let bits = |logits: &[f32]| -> Vec<u32> { logits.iter().map(|l| l.to_bits()).collect() };
    let mut session = engine.session();
    session.prefill(prompt).expect("room");
    let mut all = vec![bits(session.logits())];
    for token in [5, 250, 5, 17] {
        session.decode(token).expect("room");
        all.push(bits(session.logits()));
    }
    all
}

#[test]
fn chunked_prefill_equals_whole_prefill_bit_for_bit() {
    for name in MODELS {
        let prompt = prompt(83);
        let whole = run(&mut load(name, 512, 1), &prompt);
        assert!(whole[0].iter().any(|&bits| bits != whole[0][0]), "{name}");
        for ubatch in [1, 2, 7, 16, 33, 64] {
            let chunked = run(&mut load(name, ubatch, 1), &prompt);
            assert!(chunked == whole, "{name}: chunks of {ubatch}");
        }
    }
}

#[test]
fn threads_change_no_bit() {
    for name in MODELS {
        let prompt = prompt(83);
        let one = run(&mut load(name, 32, 1), &prompt);
        for threads in [2, 3] {
            let more = run(&mut load(name, 32, threads), &prompt);
            assert!(more == one, "{name}: {threads} threads");
        }
    }
}

#[test]
fn a_new_session_sees_nothing_of_the_last_one() {
    let mut engine = load("tiny-qwen2-q4_0", 16, 1);
    let fresh = run(&mut engine, &prompt(20));
    run(&mut engine, &prompt(90));
    assert!(run(&mut engine, &prompt(20)) == fresh);
}

#[test]
fn truncating_and_continuing_equals_never_having_gone_on() {
    let mut engine = load("tiny-qwen2-q5_k", 16, 1);
    let tokens = prompt(60);
    let mut session = engine.session();
    session.prefill(&tokens).expect("room");
    let straight = session.logits().to_vec();
    session.decode(3).expect("room");
    session.truncate(40);
    assert!(session.logits().is_empty());
    session.prefill(&tokens[40..]).expect("room");
    assert_eq!(session.logits(), straight);
    assert_eq!(session.tokens(), tokens);
}
