//! Accuracy on real models against exact references: weights dequantized to f32, f32 activations.

use minfer_engine::sampling::{argmax, best_tokens};
use minfer_engine::{Chunk, Engine, EngineOptions, Role, Wanted, logsumexp};
use minfer_graph::KvFormat;
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
        let best = self
            .top_ids
            .iter()
            .copied()
            .zip(self.top_logits.iter().copied());
        mean_error(best.take(10), self.logsumexp, logits)
    }
}

/// Mean |Δ log-probability| over the best tokens of a prediction, with their logits.
fn mean_error(
    best: impl Iterator<Item = (u32, f64)>,
    logsumexp_of_best: f64,
    logits: &[f32],
) -> f64 {
    let normalizer = logsumexp(logits);
    let differences = best.map(|(id, expected)| {
        let actual = f64::from(logits[id as usize]) - normalizer;
        (actual - (expected - logsumexp_of_best)).abs()
    });
    mean(&differences.collect::<Vec<_>>())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn references(model: &str) -> Vec<Reference> {
    let path = fixture(format!("logits/{model}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(Reference::parse).collect()
}

fn load(model: &str, options: &EngineOptions) -> Engine {
    let path = real_model(model).unwrap_or_else(|e| panic!("{e}"));
    Engine::load(path, options).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks a model against its references, following their greedy tokens; prints the figures.
fn check(model: &str, recorded: &str, most_error: f64) {
    let mut engine = load(model, &EngineOptions::default());
    let references = references(recorded);
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

/// Logits after every token of the recorded greedy texts, computed as prompt rows: the int8 products of
/// generated rows turn the smallest change of a key into noise that would hide it.
fn logits_along(engine: &mut Engine, reference: &Reference) -> Vec<Vec<f32>> {
    let sequence = engine.create_sequence();
    let mut chunk = Chunk {
        sequence,
        tokens: &reference.ids,
        role: Role::Prompt,
        logits: Wanted::Last,
    };
    engine.step(&[chunk]).expect("a short prompt");
    let mut all = vec![engine.logits(0, 0).to_vec()];
    chunk.tokens = &reference.greedy;
    chunk.logits = Wanted::All;
    engine.step(&[chunk]).expect("a short text");
    all.extend((0..reference.greedy.len()).map(|row| engine.logits(0, row).to_vec()));
    engine.release_sequence(sequence).expect("it exists");
    all
}

/// Errors of a KV format along the recorded texts: against the recorded logits after each prompt, and
/// against an f32 cache after every token.
fn format_errors(model: &str, recorded: &str, format: KvFormat) -> (f64, f64) {
    let with = |format| {
        let options = EngineOptions {
            kv_format: Some(format),
            draft: 31,
            ..EngineOptions::default()
        };
        load(model, &options)
    };
    let (mut engine, mut exact) = (with(format), with(KvFormat::F32));
    let (mut to_reference, mut to_f32) = (Vec::new(), Vec::new());
    for reference in references(recorded) {
        let rows = logits_along(&mut engine, &reference);
        to_reference.push(reference.error(&rows[0]));
        for (row, exact) in rows.iter().zip(logits_along(&mut exact, &reference)) {
            let best = best_tokens(&exact, 10).into_iter();
            let best = best.map(|(id, logit)| (id, f64::from(logit)));
            to_f32.push(mean_error(best, logsumexp(&exact), row));
        }
    }
    (mean(&to_reference), mean(&to_f32))
}

/// Two engines of different formats live side by side. The bounds are about twice what was measured.
///
/// There is none for `q8_0` with the 0.5B, whose key biases reach 100 and more where their median is
/// about 1: a block's scale leaves the other keys in it few bits (llama.cpp's `q8_0` is off by 0.9 there).
#[test]
fn smaller_kv_formats_stay_close_to_f32() {
    let models = [
        ("smollm2", "smollm2", [0.0025, 0.1]),
        (
            "qwen2.5-coder:0.5b",
            "qwen2.5-coder-0.5b",
            [0.02, f64::INFINITY],
        ),
    ];
    for (model, recorded, bounds) in models {
        for (format, most) in [KvFormat::F16, KvFormat::Q8_0].into_iter().zip(bounds) {
            let (to_reference, to_f32) = format_errors(model, recorded, format);
            println!(
                "{model} {format:?}: mean |Δ log-prob| {to_reference:.6} to the reference, \
                 {to_f32:.6} to f32"
            );
            assert!(to_reference <= most, "{model} {format:?}: {to_reference}");
            assert!(to_f32 > 0.0, "{model} {format:?}: the format is not used");
            assert!(to_f32 <= most, "{model} {format:?}: {to_f32}");
        }
    }
}

/// Bits of the logits after a prompt of 130 tokens and after three generated ones.
fn logit_bits(model: &str, ubatch: usize, threads: usize) -> Vec<u32> {
    let options = EngineOptions {
        ubatch,
        threads: Some(threads),
        ..EngineOptions::default()
    };
    let mut engine = load(model, &options);
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
