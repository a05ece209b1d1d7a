//! Verifying several tokens in one step gives the logits that decoding them one by one gives.

use minfer_engine::{Engine, EngineOptions, Session};
use minfer_graph::KvFormat;
use minfer_testdata::tiny_model;

/// Weight types of every kernel family, and the three architectures' attention shapes.
const MODELS: [&str; 5] = [
    "tiny-qwen2-f32",
    "tiny-qwen2-bf16",
    "tiny-qwen2-q4_0",
    "tiny-qwen3-q4_k",
    "tiny-llama-q4_k",
];

const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

/// Most rows of a verification here.
const MOST: usize = 9;

/// Long enough that the generated rows cross a boundary at which attention splits its keys (256).
fn prompt() -> Vec<u32> {
    (0..245).map(|i| (i * 37 + 11) % 300).collect()
}

fn generated() -> Vec<u32> {
    (0..31).map(|i| (i * i * 7 + 5) % 300).collect()
}

fn load(name: &str, kv_format: KvFormat, ubatch: usize, draft: usize, threads: usize) -> Engine {
    let options = EngineOptions {
        kv_format: Some(kv_format),
        ubatch,
        draft,
        threads: Some(threads),
        n_ctx: Some(512),
        ..EngineOptions::default()
    };
    Engine::load(tiny_model(name), &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|l| l.to_bits()).collect()
}

/// Bits of the logits after each generated token, one step for each.
fn decoded(name: &str, kv_format: KvFormat) -> Vec<Vec<u32>> {
    let mut engine = load(name, kv_format, 512, 0, 1);
    let mut session = engine.session();
    session.prefill(&prompt()).expect("room");
    let rows = generated().into_iter().map(|token| {
        session.decode(token).expect("room");
        bits(session.logits())
    });
    let rows: Vec<_> = rows.collect();
    assert!(rows.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
    rows
}

/// Bits of the logits after each of these tokens, verified together.
fn verified(session: &mut Session<'_>, tokens: &[u32]) -> Vec<Vec<u32>> {
    session.verify(tokens).expect("room");
    assert!(session.logits_at(tokens.len()).is_empty());
    let rows = 0..tokens.len();
    rows.map(|row| bits(session.logits_at(row))).collect()
}

#[test]
fn verified_rows_are_decoded_rows_bit_for_bit() {
    for name in MODELS {
        for format in FORMATS {
            let expected = decoded(name, format);
            // A verification may have more rows than a chunk of a prompt.
            for (ubatch, threads) in [(512, 1), (4, 2)] {
                let mut engine = load(name, format, ubatch, MOST - 1, threads);
                let mut session = engine.session();
                session.prefill(&prompt()).expect("room");
                for rows in 1..=MOST {
                    session.truncate(prompt().len());
                    let generated = generated();
                    let steps = generated.chunks(rows);
                    let rows_of_all: Vec<_> =
                        steps.flat_map(|s| verified(&mut session, s)).collect();
                    assert!(
                        rows_of_all == expected,
                        "{name}, {format:?}, ubatch {ubatch}: {rows} rows"
                    );
                }
            }
        }
    }
}

#[test]
fn rejected_tokens_leave_no_trace() {
    for format in FORMATS {
        let name = "tiny-qwen2-q4_0";
        let expected = decoded(name, format);
        let mut engine = load(name, format, 512, MOST - 1, 1);
        let mut session = engine.session();
        session.prefill(&prompt()).expect("room");
        for (i, &token) in generated().iter().enumerate() {
            let wrong = [token, 299, 3, 299, 7];
            let rows = verified(&mut session, &wrong[..1 + i % 5]);
            assert!(rows[0] == expected[i], "{format:?}: row {i}");
            session.truncate(prompt().len() + i + 1);
            assert!(bits(session.logits()) == expected[i], "{format:?}: row {i}");
            assert!(session.logits_at(1).is_empty());
        }
        assert_eq!(session.tokens(), [prompt(), generated()].concat());
    }
}

#[test]
fn a_verification_is_bounded_by_the_options_and_the_context() {
    let mut engine = load("tiny-qwen2-q4_0", KvFormat::F32, 8, 3, 1);
    let mut session = engine.session();
    session.prefill(&[1; 507]).expect("room");
    let error = session.verify(&[2; 5]).expect_err("draft is 3");
    assert_eq!(
        error.to_string(),
        "a step of 5 rows of logits is larger than the 4 it may have"
    );
    assert_eq!(session.tokens().len(), 507);
    session.verify(&[2; 4]).expect("as many as allowed");
    let error = session.verify(&[3; 2]).expect_err("room for one");
    assert_eq!(error.to_string(), "the context of 512 tokens is full");
    assert_eq!(session.tokens().len(), 511);
    session.verify(&[3]).expect("just fits");
}
