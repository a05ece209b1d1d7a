//! Generated text: where it ends, what is shown of it, and that seeds reproduce it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minfer_engine::sampling::SamplerParams;
use minfer_engine::{Engine, EngineOptions, Error, Event, Finish, FinishReason, GenerateOptions};
use minfer_gguf::{Gguf, OpenOptions, Writer};
use minfer_testdata::{TinyLogits, tiny_logits, tiny_model};

/// Exact enough in every kernel that its greedy tokens are those of the reference.
const MODEL: &str = "tiny-qwen2-f32";

fn load(options: EngineOptions) -> Engine {
    Engine::load(tiny_model(MODEL), &options).unwrap_or_else(|e| panic!("{e}"))
}

fn reference() -> TinyLogits {
    let file = format!("{MODEL}.gguf");
    let mut all = tiny_logits().into_iter();
    all.find(|logits| logits.file == file).expect("recorded")
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        sampler: SamplerParams::greedy(),
        max_tokens: Some(max_tokens),
        ..GenerateOptions::default()
    }
}

/// All text and the end of a generation.
fn generate(engine: &mut Engine, prompt: &[u32], options: GenerateOptions) -> (String, Finish) {
    let mut text = String::new();
    let mut session = engine.session();
    let generator = session.generate(prompt, options).expect("valid options");
    let finish = generator
        .run(|piece| {
            assert!(!piece.is_empty());
            text.push_str(piece);
            ControlFlow::Continue(())
        })
        .unwrap_or_else(|e| panic!("{e}"));
    (text, finish)
}

#[test]
fn greedy_text_is_that_of_the_reference_tokens() {
    let expected = reference();
    let mut engine = load(EngineOptions::default());
    let tokenizer = Arc::clone(engine.tokenizer());
    let shown = expected.greedy.iter().copied();
    let shown: Vec<u32> = shown
        .take_while(|&token| !tokenizer.is_end_of_generation(token))
        .collect();
    let (text, finish) = generate(&mut engine, &expected.ids, greedy(shown.len()));
    assert_eq!(text, tokenizer.decode(&shown));
    assert_eq!(finish.reason, FinishReason::Length);
    assert_eq!(finish.generated, shown.len());
    assert_eq!(finish.prefill.tokens, expected.ids.len());
    assert_eq!(finish.decode.tokens, shown.len() - 1);
}

#[test]
fn a_stop_string_across_tokens_is_cut_exactly() {
    let prompt = reference().ids;
    let mut engine = load(EngineOptions::default());
    let (text, _) = generate(&mut engine, &prompt, greedy(16));
    let characters: Vec<char> = text.chars().collect();
    for start in 0..characters.len() - 3 {
        let stop: String = characters[start..start + 3].iter().collect();
        let options = GenerateOptions {
            stop: vec!["never generated".to_owned(), stop.clone()],
            ..greedy(16)
        };
        let (shown, finish) = generate(&mut engine, &prompt, options);
        let (before, _) = text.split_once(&stop).expect("part of the text");
        assert_eq!(shown, before, "stop {stop:?} in {text:?}");
        assert_eq!(finish.reason, FinishReason::Stop(stop));
    }
}

#[test]
fn the_beginning_of_a_stop_string_is_shown_when_the_text_ends_there() {
    let prompt = reference().ids;
    let mut engine = load(EngineOptions::default());
    let (text, _) = generate(&mut engine, &prompt, greedy(16));
    let last = text.chars().next_back().expect("some text");
    let options = GenerateOptions {
        stop: vec![format!("{last} and more")],
        ..greedy(16)
    };
    let (shown, finish) = generate(&mut engine, &prompt, options);
    assert_eq!(shown, text);
    assert_eq!(finish.reason, FinishReason::Length);
}

#[test]
fn a_full_context_ends_the_text() {
    let prompt = reference().ids;
    let mut engine = load(EngineOptions {
        n_ctx: Some(prompt.len() + 3),
        ..EngineOptions::default()
    });
    let (_, finish) = generate(&mut engine, &prompt, greedy(100));
    assert_eq!(finish.reason, FinishReason::Length);
    // Three are decoded; the fourth is sampled from the last one's logits.
    assert_eq!(finish.generated, 4);
    assert_eq!(finish.decode.tokens, 3);
}

#[test]
fn nothing_is_generated_when_nothing_is_asked_for() {
    let mut engine = load(EngineOptions::default());
    let (text, finish) = generate(&mut engine, &reference().ids, greedy(0));
    assert_eq!(text, "");
    assert_eq!(finish.reason, FinishReason::Length);
    assert_eq!(finish.generated, 0);
}

#[test]
fn a_set_flag_cancels_before_the_first_chunk_and_between_tokens() {
    let prompt = reference().ids;
    let mut engine = load(EngineOptions::default());
    let flag = Arc::new(AtomicBool::new(true));
    let options = || GenerateOptions {
        cancel: Some(Arc::clone(&flag)),
        ..greedy(16)
    };
    let (text, finish) = generate(&mut engine, &prompt, options());
    assert_eq!(
        (text.as_str(), finish.reason),
        ("", FinishReason::Cancelled)
    );
    assert_eq!(finish.prefill.tokens, 0);

    flag.store(false, Ordering::Relaxed);
    let mut session = engine.session();
    let mut generator = session.generate(&prompt, options()).expect("valid options");
    assert!(matches!(generator.next_event(), Ok(Event::Text(_))));
    flag.store(true, Ordering::Relaxed);
    let reason = loop {
        match generator.next_event().expect("no failure") {
            Event::Text(_) => {}
            Event::Done(finish) => break finish.reason.clone(),
        }
    };
    assert_eq!(reason, FinishReason::Cancelled);
}

#[test]
fn breaking_off_is_a_cancellation() {
    let mut engine = load(EngineOptions::default());
    let mut session = engine.session();
    let generator = session.generate(&reference().ids, greedy(16));
    let finish = generator
        .expect("valid options")
        .run(|_| ControlFlow::Break(()));
    assert_eq!(finish.expect("no failure").reason, FinishReason::Cancelled);
}

#[test]
fn a_seed_reproduces_the_text_whatever_the_threads_and_chunks() {
    let prompt = reference().ids;
    let run = |seed, threads, ubatch| {
        let mut engine = load(EngineOptions {
            threads: Some(threads),
            ubatch,
            ..EngineOptions::default()
        });
        let options = GenerateOptions {
            sampler: SamplerParams {
                seed: Some(seed),
                temperature: 1.5,
                ..SamplerParams::default()
            },
            max_tokens: Some(24),
            ..GenerateOptions::default()
        };
        generate(&mut engine, &prompt, options).0
    };
    let text = run(1, 1, 512);
    assert_eq!(run(1, 2, 512), text);
    assert_eq!(run(1, 3, 5), text);
    assert_ne!(run(2, 1, 512), text);
}

#[test]
fn an_end_of_generation_token_ends_the_text_and_is_not_shown() {
    let expected = reference();
    let index = 5;
    let eos = expected.greedy[index];
    let first = expected.greedy.iter().position(|&token| token == eos);
    assert_eq!(first, Some(index), "the token comes only once before");
    let original = Gguf::open(tiny_model(MODEL), OpenOptions::default());
    let original = original.unwrap_or_else(|e| panic!("{e}"));
    let mut writer = Writer::new();
    for (key, value) in original.metadata().iter() {
        writer.set(key, value.clone());
    }
    writer.set("tokenizer.ggml.eos_token_id", eos);
    for info in original.tensors() {
        writer.add(original.tensor(&info.name).expect("listed"));
    }
    let bytes = writer.to_bytes().unwrap_or_else(|e| panic!("{e}"));
    let gguf = Gguf::parse_bytes("eos.gguf", bytes).unwrap_or_else(|e| panic!("{e}"));
    let mut engine =
        Engine::from_gguf(&gguf, &EngineOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let shown = engine.tokenizer().decode(&expected.greedy[..index]);
    let (text, finish) = generate(&mut engine, &expected.ids, greedy(16));
    assert_eq!(text, shown);
    assert_eq!(finish.reason, FinishReason::Eos);
    assert_eq!(finish.generated, index);
    assert_eq!(finish.decode.tokens, index);
}

#[test]
fn penalties_see_the_prompt_the_text_and_earlier_turns() {
    let mut options = greedy(10);
    options.sampler.penalties.last_n = None;
    options.sampler.penalties.presence = 1e6;
    let mut engine = load(EngineOptions::default());
    let mut session = engine.session();
    for prompt in [&reference().ids[..], &[70, 71, 72]] {
        let generator = session.generate(prompt, options.clone());
        let finish = generator
            .expect("valid options")
            .run(|_| ControlFlow::Continue(()));
        assert_eq!(finish.expect("no failure").generated, 10);
    }
    // The last token of each turn is sampled but not computed.
    assert_eq!(session.tokens().len(), 14 + 9 + 3 + 9);
    let mut distinct = session.tokens().to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), session.tokens().len());
}

#[test]
fn a_reward_for_frequency_repeats_one_token_of_the_prompt() {
    let mut options = greedy(8);
    options.sampler.penalties.frequency = -1e6;
    let mut engine = load(EngineOptions::default());
    let mut session = engine.session();
    let prompt = [104, 260, 32, 265];
    let generator = session.generate(&prompt, options);
    let finish = generator
        .expect("valid options")
        .run(|_| ControlFlow::Continue(()));
    assert_eq!(finish.expect("no failure").generated, 8);
    // The best of the prompt's tokens, which from then on is the most frequent one.
    let (first, rest) = session.tokens()[4..].split_first().expect("generated");
    assert!(prompt.contains(first));
    assert!(rest.iter().all(|token| token == first), "{first} {rest:?}");
}

#[test]
fn unusable_prompts_are_errors_with_numbers() {
    let mut engine = load(EngineOptions {
        n_ctx: Some(10),
        ..EngineOptions::default()
    });
    let n_vocab = engine.model().n_vocab() as u32;
    let mut session = engine.session();
    let error = session.prefill(&[1; 11]).expect_err("11 of 10");
    assert_eq!(
        error.to_string(),
        "the prompt has 11 tokens, but 10 of the context's 10 are left"
    );
    let error = session.prefill(&[1, n_vocab]).expect_err("no such token");
    assert!(
        matches!(error, Error::UnknownToken { index: 1, .. }),
        "{error}"
    );
    assert!(matches!(session.prefill(&[]), Err(Error::EmptyPrompt)));
    assert!(session.tokens().is_empty());
    session.prefill(&[1; 10]).expect("just fits");
    let error = session.decode(1).expect_err("full");
    assert_eq!(error.to_string(), "the context of 10 tokens is full");
}

#[test]
fn a_prompt_that_failed_half_way_is_not_appended_twice() {
    let mut engine = load(EngineOptions {
        n_ctx: Some(32),
        ubatch: 8,
        ..EngineOptions::default()
    });
    let neighbour = engine.create_sequence();
    engine.reserve(neighbour, 20).expect("free cells");
    let mut session = engine.session();
    let prompt: Vec<u32> = (1..=16).collect();
    let generator = session.generate(&prompt, GenerateOptions::default());
    let mut generator = generator.expect("valid options");
    for _ in 0..2 {
        let error = generator
            .next_event()
            .expect_err("cells for the first chunk");
        let message = error.to_string();
        assert!(
            message.ends_with("needs 8 cells, 4 of 32 are free"),
            "{message}"
        );
    }
    drop(generator);
    assert!(session.tokens().is_empty());
}
