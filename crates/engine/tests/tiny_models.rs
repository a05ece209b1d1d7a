//! Every weight type end to end: logits of the tiny models against llama.cpp's dequantized f32 reference.

use minfer_engine::sampling::argmax;
use minfer_engine::{Engine, EngineOptions};
use minfer_testdata::{TINY_MODELS, TinyLogits, tiny_logits, tiny_model};

/// Largest |Δlogit| allowed on a tiny model, whose logits reach about ±5.
///
/// Prompt rows: weights and activations of the tile kernels are rounded to bf16 (8 bits), so products
/// carry a relative error of 2^-9; it averages out over sums of 128 to 384 terms but passes two layers.
/// Types whose weights are exact in bf16 see only the activations' half of it. Generated rows:
/// activations are int8 with a scale per 32, a relative error of 2^-8 of the block's maximum.
const PROMPT_TOLERANCE: f32 = 0.1;

fn load(name: &str) -> Engine {
    Engine::load(tiny_model(name), &EngineOptions::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn reference(name: &str) -> TinyLogits {
    tiny_logits()
        .into_iter()
        .find(|logits| logits.file == format!("{name}.gguf"))
        .unwrap_or_else(|| panic!("no reference for {name}"))
}

fn max_difference(actual: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(actual.len(), expected.len());
    let differences = actual.iter().zip(expected).map(|(a, e)| (a - e).abs());
    differences.fold(0.0, f32::max)
}

#[test]
fn logits_after_the_prompt() {
    for name in TINY_MODELS {
        let expected = reference(name);
        let mut engine = load(name);
        let mut session = engine.session();
        session.prefill(&expected.ids).expect("a short prompt");
        let difference = max_difference(session.logits(), &expected.last_logits);
        println!("{name}: max |Δlogit| {difference}");
        assert!(difference <= PROMPT_TOLERANCE, "{name}: {difference}");
    }
}

#[test]
fn likeliest_token_after_every_prompt_token() {
    for name in TINY_MODELS {
        let expected = reference(name);
        let mut engine = load(name);
        let argmaxes: Vec<u32> = (1..=expected.ids.len())
            .map(|n| {
                let mut session = engine.session();
                session.prefill(&expected.ids[..n]).expect("a short prompt");
                argmax(session.logits()).expect("finite logits")
            })
            .collect();
        assert_eq!(argmaxes, expected.row_argmax, "{name}");
    }
}

#[test]
fn greedy_tokens_where_the_margin_is_clear() {
    for name in TINY_MODELS {
        let expected = reference(name);
        let mut engine = load(name);
        let mut session = engine.session();
        session.prefill(&expected.ids).expect("a short prompt");
        for (i, (&token, &margin)) in expected.greedy.iter().zip(&expected.margins).enumerate() {
            let chosen = argmax(session.logits()).expect("finite logits");
            assert!(
                chosen == token || margin < 2.0 * PROMPT_TOLERANCE,
                "{name}: token {i} is {chosen}, not {token}, despite the margin {margin}"
            );
            session.decode(token).expect("room");
        }
    }
}
