//! Steps over several sequences: what they compute, what they refuse.

use minfer_engine::{Chunk, Engine, EngineOptions, Error, Role, SequenceId, Session, Wanted};
use minfer_testdata::tiny_model;

const N_CTX: usize = 64;

fn load(parallel: usize) -> Engine {
    let options = EngineOptions {
        n_ctx: Some(N_CTX),
        ubatch: 24,
        threads: Some(1),
        parallel,
        draft: 3,
        ..EngineOptions::default()
    };
    Engine::load(tiny_model("tiny-qwen2-q4_k"), &options).unwrap_or_else(|e| panic!("{e}"))
}

fn prompt(seed: usize, len: usize) -> Vec<u32> {
    (0..len)
        .map(|i| ((i * 37 + seed * 11) % 250) as u32)
        .collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    assert!(!logits.is_empty(), "no logits");
    logits.iter().map(|x| x.to_bits()).collect()
}

fn given(sequence: SequenceId, tokens: &[u32]) -> Chunk<'_> {
    Chunk {
        sequence,
        tokens,
        role: Role::Prompt,
        logits: Wanted::Last,
    }
}

fn generated(sequence: SequenceId, tokens: &[u32]) -> Chunk<'_> {
    Chunk {
        sequence,
        tokens,
        role: Role::Generated,
        logits: Wanted::All,
    }
}

/// Logits after the prompt and after each generated token, on an engine of its own.
fn alone(prompt: &[u32], tokens: &[u32]) -> Vec<Vec<u32>> {
    let mut engine = load(1);
    let mut session = engine.session();
    session.prefill(prompt).expect("room");
    let mut all = vec![bits(session.logits())];
    for &token in tokens {
        session.decode(token).expect("room");
        all.push(bits(session.logits()));
    }
    all
}

#[test]
fn sequences_in_one_step_compute_what_they_compute_alone() {
    let mut engine = load(3);
    let [a, b] = [0; 2].map(|_| engine.create_sequence());
    let (first, second) = (prompt(1, 9), prompt(2, 14));
    engine.step(&[given(a, &first)]).expect("room");
    let first_alone = alone(&first, &[3, 4, 5]);
    assert_eq!(bits(engine.logits(0, 0)), first_alone[0]);

    engine
        .step(&[generated(a, &[3, 4]), given(b, &second)])
        .expect("room");
    assert_eq!(bits(engine.logits(0, 0)), first_alone[1]);
    assert_eq!(bits(engine.logits(0, 1)), first_alone[2]);
    let second_alone = alone(&second, &[7]);
    assert_eq!(bits(engine.logits(1, 0)), second_alone[0]);
    assert!(engine.logits(1, 1).is_empty());
    assert!(engine.logits(2, 0).is_empty());

    engine
        .step(&[generated(b, &[7]), generated(a, &[5])])
        .expect("room");
    assert_eq!(bits(engine.logits(0, 0)), second_alone[1]);
    assert_eq!(bits(engine.logits(1, 0)), first_alone[3]);
    assert_eq!(engine.tokens(a), [&first[..], &[3, 4, 5]].concat());
    assert_eq!(
        engine.roles(a)[8..],
        [
            Role::Prompt,
            Role::Generated,
            Role::Generated,
            Role::Generated
        ]
    );
}

#[test]
fn a_fork_goes_on_as_if_it_had_computed_its_prefix() {
    let mut engine = load(2);
    let parent = engine.create_sequence();
    let tokens = prompt(3, 20);
    engine.step(&[given(parent, &tokens)]).expect("room");
    let used = engine.free_cells();
    let child = engine.fork_sequence(parent, 12).expect("a prefix");
    assert_eq!(engine.free_cells(), used, "shared rows take no cells");
    let rest = prompt(4, 5);
    engine
        .step(&[given(child, &rest), generated(parent, &[6])])
        .expect("room");
    let whole = [&tokens[..12], &rest].concat();
    assert_eq!(bits(engine.logits(0, 0)), alone(&whole, &[])[0]);
    assert_eq!(bits(engine.logits(1, 0)), alone(&tokens, &[6])[1]);

    engine.release_sequence(parent).expect("it exists");
    engine.step(&[generated(child, &[8])]).expect("room");
    assert_eq!(bits(engine.logits(0, 0)), alone(&whole, &[8])[1]);
    assert_eq!(engine.free_cells(), engine.cells() - 18);
}

#[test]
fn a_refused_step_changes_nothing() {
    let mut engine = load(2);
    let [a, b] = [0; 2].map(|_| engine.create_sequence());
    let tokens = prompt(5, 20);
    engine.step(&[given(a, &tokens)]).expect("room");
    let free = engine.free_cells();
    let long = prompt(6, 25);
    let released = engine.create_sequence();
    engine.release_sequence(released).expect("it exists");

    let refusals: [(&[Chunk<'_>], &str); 7] = [
        (&[given(a, &[])], "the prompt is empty"),
        (
            &[given(b, &[1]), given(a, &[1, 9999])],
            "token 9999 at index 1 is not below the vocabulary size 320",
        ),
        (
            &[given(a, &[1]), generated(a, &[2])],
            "is named twice in one step",
        ),
        (
            &[given(b, &long)],
            "a step of 25 tokens is larger than the 24 it may have",
        ),
        (
            &[generated(a, &long[..9])],
            "a step of 9 rows of logits is larger than the 8 it may have",
        ),
        (&[given(b, &[1]), given(released, &[1])], "does not exist"),
        (
            &[given(a, &long[..1]), generated(b, &[4, 5, 320])],
            "token 320 at index 2",
        ),
    ];
    for (chunks, message) in refusals {
        let error = engine.step(chunks).expect_err(message).to_string();
        assert!(error.contains(message), "{error}");
        assert_eq!(engine.free_cells(), free, "{message}");
        assert_eq!(engine.tokens(a), tokens);
        assert!(engine.tokens(b).is_empty());
        assert!(engine.logits(0, 0).is_empty(), "{message}");
    }
    engine.step(&[generated(a, &[3])]).expect("room");
    assert_eq!(bits(engine.logits(0, 0)), alone(&tokens, &[3])[1]);
}

#[test]
fn a_sequence_ends_at_the_context_and_not_at_the_cache() {
    let mut engine = load(2);
    let a = engine.create_sequence();
    for chunk in prompt(7, 60).chunks(20) {
        engine.step(&[given(a, chunk)]).expect("room");
    }
    let error = engine
        .step(&[given(a, &[1, 2, 3, 4, 5])])
        .expect_err("61 and more");
    assert!(matches!(
        error,
        Error::PromptTooLong {
            prompt: 5,
            used: 60,
            n_ctx: N_CTX
        }
    ));
    assert_eq!(engine.free_cells(), 2 * N_CTX - 60);
}

#[test]
fn a_full_cache_is_an_error_with_numbers() {
    let mut engine = load(1);
    let [a, b] = [0; 2].map(|_| engine.create_sequence());
    for chunk in prompt(8, 60).chunks(20) {
        engine.step(&[given(a, chunk)]).expect("room");
    }
    let error = engine
        .step(&[given(b, &[1, 2, 3, 4, 5])])
        .expect_err("4 cells");
    let message = error.to_string();
    assert!(
        message.ends_with("needs 5 cells, 4 of 64 are free"),
        "{message}"
    );
    assert!(engine.tokens(b).is_empty());
    engine.step(&[given(b, &[1, 2, 3, 4])]).expect("4 cells");
}

#[test]
fn a_dropped_session_frees_its_cells_and_an_adopted_sequence_goes_on() {
    let mut engine = load(1);
    let tokens = prompt(9, 20);
    let sequence = engine.create_sequence();
    engine.step(&[given(sequence, &tokens)]).expect("room");
    let mut session = Session::adopt(&mut engine, sequence).expect("it exists");
    assert!(session.logits().is_empty());
    session.decode(2).expect("room");
    assert_eq!(bits(session.logits()), alone(&tokens, &[2])[1]);
    drop(session);
    assert_eq!(engine.free_cells(), engine.cells());
    assert!(Session::adopt(&mut engine, sequence).is_err());
}

#[test]
fn a_token_that_a_session_refuses_leaves_its_logits() {
    let mut engine = load(1);
    let mut session = engine.session();
    session.prefill(&prompt(12, 10)).expect("room");
    let logits = bits(session.logits());
    assert!(!logits.is_empty());
    let error = session.decode(320).expect_err("no such token");
    assert!(matches!(error, Error::UnknownToken { token: 320, .. }));
    assert_eq!(bits(session.logits()), logits);
}

#[test]
fn sequences_that_took_turns_in_the_cells_are_gathered() {
    let mut engine = load(3);
    let tokens = prompt(10, 3);
    let ids = [0; 3].map(|_| engine.create_sequence());
    let expected = alone(&tokens, &[9; 20]);
    for id in ids {
        engine.step(&[given(id, &tokens)]).expect("room");
    }
    // One cell each in turn: without gathering the windows would have up to 20 runs.
    for logits in &expected[1..] {
        engine
            .step(&ids.map(|id| generated(id, &[9])))
            .expect("room");
        for chunk in 0..ids.len() {
            assert!(bits(engine.logits(chunk, 0)) == *logits);
        }
    }
}

#[test]
fn a_shifted_sequence_goes_on_at_its_new_positions() {
    let mut engine = load(1);
    let tokens = prompt(11, 20);
    let id = engine.create_sequence();
    engine.step(&[given(id, &tokens)]).expect("room");
    engine
        .shift_sequence(id, 4..14)
        .expect("within the sequence");
    assert_eq!(engine.tokens(id), [&tokens[..4], &tokens[14..]].concat());
    assert_eq!(engine.shareable(id), 4);
    assert_eq!(engine.free_cells(), N_CTX - 10);
    engine.step(&[generated(id, &[5])]).expect("room");
    assert!(engine.logits(0, 0).iter().all(|x| x.is_finite()));
    assert!(bits(engine.logits(0, 0)) != alone(&tokens, &[5])[1]);
    // An empty shift and one at the end move nothing.
    engine.shift_sequence(id, 3..3).expect("an empty range");
    engine.shift_sequence(id, 10..11).expect("the end");
    assert_eq!(engine.tokens(id).len(), 10);
}
