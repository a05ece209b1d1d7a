//! Drafts change how fast a text comes, and nothing of the text or of how it ends.

mod counting;

use std::ops::ControlFlow;

use counting::{counting_engine, counting_engine_with_end};
use minfer_engine::sampling::{DryParams, MirostatParams, SamplerParams, XtcParams};
use minfer_engine::{
    DraftMethod, DraftOptions, Engine, EngineOptions, Finish, FinishReason, GenerateOptions,
};
use minfer_testdata::tiny_model;

const MOST: usize = 8;

fn drafting() -> DraftOptions {
    DraftOptions {
        method: DraftMethod::NGRAM,
        max_tokens: MOST,
    }
}

/// A generation and the session after it.
#[derive(Debug, PartialEq)]
struct Outcome {
    text: String,
    reason: FinishReason,
    generated: usize,
    decoded: usize,
    tokens: Vec<u32>,
    /// Bits of the logits after one more token, which reads every row that was kept; none if the context
    /// is full.
    next: Vec<u32>,
}

fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
    draft: DraftOptions,
) -> (Outcome, Finish) {
    let options = GenerateOptions {
        draft,
        ..options.clone()
    };
    let mut session = engine.session();
    let mut text = String::new();
    let generator = session.generate(prompt, options).expect("valid options");
    let finish = generator.run(|piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    let finish = finish.unwrap_or_else(|e| panic!("{e}"));
    let tokens = session.tokens().to_vec();
    if session.room() > 0 {
        session.decode(7).expect("room");
    }
    let outcome = Outcome {
        text,
        reason: finish.reason.clone(),
        generated: finish.generated,
        decoded: finish.decode.tokens,
        next: session.logits().iter().map(|l| l.to_bits()).collect(),
        tokens,
    };
    (outcome, finish)
}

/// Generates with and without drafts and compares all there is to see. Returns the run with drafts.
fn compare(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
    draft: DraftOptions,
) -> (Outcome, Finish) {
    let (expected, plain) = generate(engine, prompt, options, DraftOptions::default());
    assert_eq!((plain.drafted, plain.accepted), (0, 0));
    let (outcome, finish) = generate(engine, prompt, options, draft);
    assert_eq!(outcome, expected);
    assert!(finish.accepted <= finish.drafted, "{finish:?}");
    (outcome, finish)
}

fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        sampler: SamplerParams::greedy(),
        max_tokens: Some(max_tokens),
        ..GenerateOptions::default()
    }
}

fn engine_options() -> EngineOptions {
    EngineOptions {
        draft: MOST,
        ..EngineOptions::default()
    }
}

/// Counts from 40 to 60 and begins anew.
fn counted() -> Vec<u32> {
    (40..=60).chain(40..=41).collect()
}

#[test]
fn as_many_drafts_are_accepted_as_the_text_repeats() {
    let mut engine = counting_engine(&engine_options());
    let single = DraftOptions {
        max_tokens: 1,
        ..drafting()
    };
    let (outcome, finish) = compare(&mut engine, &counted(), &greedy(30), single);
    let text: Vec<u32> = (40..=60).chain(40..=70).collect();
    assert_eq!(outcome.tokens, text);
    assert_eq!(finish.generated, 30);
    // 42 is chosen after the prompt; each step verifies the next number and chooses the one after that.
    // 43, 45, ... 59 come true; after 60 the prompt began anew, and nothing followed 61 before.
    assert_eq!((finish.drafted, finish.accepted), (10, 9));

    let (_, finish) = compare(&mut engine, &counted(), &greedy(30), drafting());
    assert!(finish.accepted > 9, "{finish:?}");
}

#[test]
fn a_limit_may_fall_anywhere_in_a_draft() {
    let mut engine = counting_engine(&engine_options());
    for limit in 0..30 {
        let (outcome, finish) = compare(&mut engine, &counted(), &greedy(limit), drafting());
        assert_eq!(outcome.reason, FinishReason::Length);
        assert_eq!(outcome.generated, limit);
        assert_eq!(finish.drafted > 0, limit > 2, "{finish:?}");
    }
}

#[test]
fn the_context_may_end_anywhere_in_a_draft() {
    for room in 0..30 {
        let mut engine = counting_engine(&EngineOptions {
            n_ctx: Some(counted().len() + room),
            ..engine_options()
        });
        let (outcome, finish) = compare(&mut engine, &counted(), &greedy(100), drafting());
        assert_eq!(outcome.reason, FinishReason::Length);
        assert_eq!(outcome.tokens.len(), counted().len() + room);
        assert_eq!(finish.drafted > 0, room > 1, "{finish:?}");
    }
}

#[test]
fn a_stop_string_may_end_anywhere_in_a_draft() {
    let mut engine = counting_engine(&engine_options());
    for last in 44..70 {
        let stop = engine.tokenizer().decode(&[last - 1, last]);
        let options = GenerateOptions {
            stop: vec![stop.clone()],
            ..greedy(40)
        };
        let (outcome, finish) = compare(&mut engine, &counted(), &options, drafting());
        assert_eq!(outcome.reason, FinishReason::Stop(stop));
        assert_eq!(outcome.tokens.last(), Some(&(last - 1)));
        assert!(finish.accepted > 0, "{finish:?}");
    }
}

#[test]
fn an_end_of_generation_token_may_fall_anywhere_in_a_draft() {
    for end in 44..62 {
        let mut engine = counting_engine_with_end(end, &engine_options());
        let (outcome, finish) = compare(&mut engine, &counted(), &greedy(40), drafting());
        assert_eq!(outcome.reason, FinishReason::Eos);
        assert_eq!(outcome.tokens.last(), Some(&(end - 1)));
        assert!(finish.accepted > 0, "{finish:?}");
    }
}

/// Samplers that keep a state from token to token, and one that rewards repetition.
fn samplers() -> Vec<SamplerParams> {
    let seeded = |seed, temperature| SamplerParams {
        seed: Some(seed),
        temperature,
        ..SamplerParams::default()
    };
    let mut penalties = seeded(3, 0.8);
    penalties.penalties.last_n = None;
    penalties.penalties.repeat = 1.1;
    penalties.penalties.presence = 0.3;
    let mut repeating = seeded(4, 1.0);
    repeating.penalties.last_n = Some(12);
    repeating.penalties.frequency = -1.5;
    vec![
        SamplerParams::greedy(),
        seeded(1, 0.3),
        seeded(2, 1.5),
        penalties,
        repeating,
        SamplerParams {
            mirostat: Some(MirostatParams { tau: 3.0, eta: 0.2 }),
            ..seeded(5, 0.8)
        },
        SamplerParams {
            dry: DryParams {
                multiplier: 0.6,
                ..DryParams::default()
            },
            ..seeded(6, 0.4)
        },
        SamplerParams {
            xtc: XtcParams {
                probability: 0.4,
                threshold: 0.05,
            },
            ..seeded(7, 0.6)
        },
    ]
}

#[test]
fn every_sampler_chooses_the_same_tokens() {
    // Each of its tokens is followed by several others, so that there are guesses all the time.
    let prompt: Vec<u32> = (0..200).map(|i| (i * i / 3) % 101).collect();
    let eager = DraftOptions {
        method: DraftMethod::Ngram {
            shortest: 1,
            longest: 3,
        },
        ..drafting()
    };
    for name in ["tiny-qwen2-q4_0", "tiny-qwen3-q4_k"] {
        let mut engine = Engine::load(tiny_model(name), &engine_options())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let (mut accepted, mut rejected) = (0, 0);
        for sampler in samplers() {
            let options = GenerateOptions {
                sampler,
                ..greedy(80)
            };
            let (_, finish) = compare(&mut engine, &prompt, &options, eager.clone());
            println!(
                "{name}: drafted {}, accepted {}",
                finish.drafted, finish.accepted
            );
            accepted += finish.accepted;
            rejected += finish.drafted - finish.accepted;
        }
        assert!(
            accepted > 0 && rejected > 0,
            "{name}: {accepted}, {rejected}"
        );
    }
}

#[test]
fn later_turns_draft_from_earlier_ones() {
    let mut engine = counting_engine(&engine_options());
    let mut session = engine.session();
    session.prefill(&counted()).expect("room");
    let options = GenerateOptions {
        draft: drafting(),
        ..greedy(10)
    };
    let generator = session.generate(&[42, 43], options).expect("valid options");
    let finish = generator.run(|_| ControlFlow::Continue(()));
    let finish = finish.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(finish.drafted, finish.accepted);
    assert!(finish.accepted > 0, "{finish:?}");
}

#[test]
fn drafts_beyond_the_engine_are_refused() {
    let mut engine = counting_engine(&EngineOptions {
        draft: 3,
        parallel: 4,
        ..EngineOptions::default()
    });
    assert_eq!(engine.max_draft(), 3);
    let options = GenerateOptions {
        draft: drafting(),
        ..greedy(10)
    };
    let mut session = engine.session();
    let Err(error) = session.generate(&[1], options) else {
        panic!("8 are more than 3");
    };
    assert_eq!(
        error.to_string(),
        "drafts of 8 tokens are asked for, but the engine verifies at most 3"
    );
    assert!(session.tokens().is_empty());
}
