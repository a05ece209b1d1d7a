//! Accuracy on real models against exact references: weights dequantized to f32, f32 activations.

use minfer_engine::sampling::argmax;
use minfer_engine::{Engine, EngineOptions, logsumexp};
use minfer_testdata::{fixture, real_model};
use serde_json::Value;

/// A recorded prediction.
struct Reference {
    prompt: String,
    ids: Vec<u32>,
    logsumexp: f64,
    top_ids: Vec<u32>,
    top_logits: Vec<f64>,
    greedy: Vec<u32>,
    margins: Vec<f64>,
}

impl Reference {
    fn parse(line: &str) -> Self {
        let value: Value = serde_json::from_str(line).expect("JSON");
        let floats = |key: &str| -> Vec<f64> {
            let items = value[key].as_array().expect(key);
            items.iter().map(|x| x.as_f64().expect(key)).collect()
        };
        let ids = |key: &str| floats(key).into_iter().map(|x| x as u32).collect();
        Reference {
            prompt: value["prompt"].as_str().expect("prompt").to_owned(),
            ids: ids("ids"),
            logsumexp: value["logsumexp"].as_f64().expect("logsumexp"),
            top_ids: ids("top_ids"),
            top_logits: floats("top_logits"),
            greedy: ids("greedy"),
            margins: floats("margins"),
        }
    }

    /// Mean |Δ log-probability| over the reference's ten best tokens.
    fn error(&self, logits: &[f32]) -> f64 {
        let normalizer = logsumexp(logits);
        let best = self.top_ids.iter().zip(&self.top_logits).take(10);
        let differences = best.map(|(&id, &expected)| {
            let actual = f64::from(logits[id as usize]) - normalizer;
            (actual - (expected - self.logsumexp)).abs()
        });
        differences.sum::<f64>() / 10.0
    }
}

/// Checks a model against its references, following their greedy tokens; prints the figures.
fn check(model: &str, references: &str, most_error: f64) {
    let path = real_model(model).unwrap_or_else(|e| panic!("{e}"));
    let mut engine =
        Engine::load(path, &EngineOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let path = fixture(format!("logits/{references}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let references: Vec<Reference> = text.lines().map(Reference::parse).collect();
    let (mut error, mut agreed, mut tokens) = (0.0, 0, 0);
    for reference in &references {
        let mut session = engine.session();
        session.prefill(&reference.ids).expect("a short prompt");
        error += reference.error(session.logits()) / references.len() as f64;
        for (i, (&token, &margin)) in reference.greedy.iter().zip(&reference.margins).enumerate() {
            let chosen = argmax(session.logits()).expect("finite logits");
            agreed += usize::from(chosen == token);
            tokens += 1;
            assert!(
                chosen == token || margin <= 1.0,
                "{:?}: greedy token {i} is {chosen}, not {token}, despite the margin {margin}",
                reference.prompt
            );
            session.decode(token).expect("room");
        }
    }
    println!("{model}: mean |Δ log-prob| {error:.4}, {agreed} of {tokens} greedy tokens agree");
    assert!(error <= most_error, "{model}: mean |Δ log-prob| {error}");
}

/// The bounds are llama.cpp's own errors on the same files.
#[test]
fn smollm2_is_as_accurate_as_llama_cpp() {
    check("smollm2", "smollm2", 0.081);
}

#[test]
fn qwen_coder_is_as_accurate_as_llama_cpp() {
    check("qwen2.5-coder:0.5b", "qwen2.5-coder-0.5b", 0.066);
}

/// Bits of the logits after a prompt of 130 tokens and after three generated ones.
fn logit_bits(model: &str, ubatch: usize, threads: usize) -> Vec<u32> {
    let path = real_model(model).unwrap_or_else(|e| panic!("{e}"));
    let options = EngineOptions {
        ubatch,
        threads: Some(threads),
        ..EngineOptions::default()
    };
    let mut engine = Engine::load(path, &options).unwrap_or_else(|e| panic!("{e}"));
    let prompt: Vec<u32> = (0..130).map(|i| (i * 131 + 7) % 40_000).collect();
    let mut session = engine.session();
    session.prefill(&prompt).expect("room");
    let mut bits: Vec<u32> = session.logits().iter().map(|l| l.to_bits()).collect();
    for token in [100, 2000, 30_000] {
        session.decode(token).expect("room");
        bits.extend(session.logits().iter().map(|l| l.to_bits()));
    }
    bits
}

#[test]
fn chunks_and_threads_change_no_bit() {
    for model in ["smollm2", "qwen2.5-coder:0.5b"] {
        let whole = logit_bits(model, 512, 1);
        assert!(logit_bits(model, 512, 2) == whole, "{model}: 2 threads");
        assert!(logit_bits(model, 48, 1) == whole, "{model}: chunks of 48");
        assert!(
            logit_bits(model, 129, 2) == whole,
            "{model}: chunks of 129 and 1"
        );
    }
}
