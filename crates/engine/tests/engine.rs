//! Loading, benchmarks and the numbers behind a prediction.

use minfer_cpu::Isa;
use minfer_engine::{Bench, Engine, EngineOptions, Error, LoadProgress};
use minfer_graph::KvFormat;
use minfer_testdata::{largest_difference, tiny_logits, tiny_model};

const MODEL: &str = "tiny-qwen2-f32";

#[test]
fn an_engine_can_move_to_another_thread() {
    fn assert_send<T: Send>(_: &T) {}
    let engine = Engine::load(tiny_model(MODEL), &EngineOptions::default());
    assert_send(&engine.unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn loading_reports_progress_up_to_the_last_byte() {
    let mut reports: Vec<LoadProgress> = Vec::new();
    let options = EngineOptions::default();
    Engine::load_with_progress(tiny_model(MODEL), &options, |progress| {
        reports.push(progress)
    })
    .unwrap_or_else(|e| panic!("{e}"));
    let last = reports.last().expect("a report for each tensor");
    assert_eq!(last.done, last.total);
    assert!(reports.is_sorted_by_key(|progress| progress.done));
}

#[test]
fn a_context_beyond_the_memory_is_refused_with_numbers() {
    let options = EngineOptions {
        n_ctx: Some(1 << 40),
        ..EngineOptions::default()
    };
    let error = Engine::load(tiny_model(MODEL), &options).err();
    let Some(Error::KvMemory {
        n_ctx,
        needed,
        available,
        largest,
    }) = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(n_ctx, 1 << 40);
    assert!(needed > available);
    assert_eq!(largest, available / (needed >> 40));
}

#[test]
fn no_prompt_needs_a_plan_or_memory_that_loading_did_not_make() {
    let options = EngineOptions {
        ubatch: 40,
        ..EngineOptions::default()
    };
    let mut engine = Engine::load(tiny_model(MODEL), &options).unwrap_or_else(|e| panic!("{e}"));
    let loaded = engine.memory().to_vec();
    for len in [1, 2, 3, 5, 9, 17, 33, 40, 41, 100] {
        let mut session = engine.session();
        session.prefill(&vec![7; len]).expect("room");
        session.decode(7).expect("room");
        assert_eq!(session.engine().memory(), loaded, "{len} tokens");
    }
}

#[test]
fn reading_instead_of_mapping_gives_the_same_logits() {
    let ids = [104, 260, 32, 265];
    let logits = |mmap| {
        let options = EngineOptions {
            mmap,
            ..EngineOptions::default()
        };
        let mut engine =
            Engine::load(tiny_model(MODEL), &options).unwrap_or_else(|e| panic!("{e}"));
        let mut session = engine.session();
        session.prefill(&ids).expect("a short prompt");
        session.logits().to_vec()
    };
    assert_eq!(logits(true), logits(false));
}

#[test]
fn smaller_kv_formats_stay_close_to_f32() {
    let file = format!("{MODEL}.gguf");
    let mut all = tiny_logits().into_iter();
    let expected = all.find(|logits| logits.file == file).expect("recorded");
    // f16 keeps 11 bits of keys and values, q8_0 seven and a scale per 32; the rest is exact here.
    for (format, tolerance) in [(KvFormat::F16, 0.01), (KvFormat::Q8_0, 0.15)] {
        let options = EngineOptions {
            kv_format: Some(format),
            isa: Some(Isa::Scalar),
            ..EngineOptions::default()
        };
        let mut engine =
            Engine::load(tiny_model(MODEL), &options).unwrap_or_else(|e| panic!("{e}"));
        let mut session = engine.session();
        session.prefill(&expected.ids).expect("a short prompt");
        let difference = largest_difference(session.logits(), &expected.last_logits);
        println!("{format:?}: max |Δlogit| {difference}");
        assert!(difference <= tolerance, "{format:?}: {difference}");
    }
}

#[test]
fn debug_logits_are_those_of_the_reference() {
    let file = format!("{MODEL}.gguf");
    let mut all = tiny_logits().into_iter();
    let expected = all.find(|logits| logits.file == file).expect("recorded");
    let mut engine = Engine::load(tiny_model(MODEL), &EngineOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let answer = engine
        .debug_logits(&expected.ids, 16, 5)
        .unwrap_or_else(|e| panic!("{e}"));

    let mut ranked: Vec<(u32, f32)> = (0..).zip(expected.last_logits).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let sum: f64 = ranked
        .iter()
        .map(|(_, logit)| f64::from(*logit).exp())
        .sum();
    assert_eq!(answer.top_ids[0], ranked[0].0);
    assert_eq!(answer.top_ids.len(), 5);
    assert!(answer.top_logits.is_sorted_by(|a, b| a >= b));
    assert!((answer.top_logits[4] - ranked[4].1).abs() < 0.1);
    assert!((answer.logsumexp - sum.ln()).abs() < 0.05);
    assert_eq!(answer.greedy, expected.greedy);
}

#[test]
fn a_benchmark_returns_every_sample() {
    let mut engine = Engine::load(tiny_model(MODEL), &EngineOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    for bench in [
        Bench::Prefill {
            tokens: 20,
            depth: 0,
        },
        Bench::Prefill {
            tokens: 20,
            depth: 30,
        },
        Bench::Decode {
            tokens: 6,
            depth: 0,
        },
        Bench::Decode {
            tokens: 6,
            depth: 30,
        },
    ] {
        let samples = engine.bench(bench, 3).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|time| !time.is_zero()), "{bench:?}");
    }
    let too_long = Bench::Prefill {
        tokens: 1 << 20,
        depth: 0,
    };
    assert!(matches!(
        engine.bench(too_long, 1),
        Err(Error::PromptTooLong { .. })
    ));
}
