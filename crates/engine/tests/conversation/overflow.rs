//! Turns for which the context is too short.

use std::sync::Arc;

use minfer_engine::MessageRole::{System, User};
use minfer_engine::{
    Conversation, ConversationOptions, DraftMethod, DraftOptions, EngineOptions, Error,
    FinishReason, GenerateOptions, Role,
};
use minfer_graph::KvFormat;

use crate::model::*;

const N_CTX: usize = 400;

fn load_format(template: &str, format: KvFormat) -> minfer_engine::Engine {
    let options = EngineOptions {
        kv_format: Some(format),
        draft: 3,
        ..EngineOptions::default()
    };
    load_with(template, N_CTX, None, options)
}

/// What the next turn has to compute where the context goes on: the text of the last answer that is not
/// computed yet, and the new message.
fn delta(conversation: &Conversation<'_>, text: &str) -> Vec<u32> {
    let tokenizer = conversation.session().engine().tokenizer();
    let held = conversation.session().tokens();
    let start = held.iter().rposition(|&token| token == IM_START);
    let computed = tokenizer.decode(&held[start.expect("an answer")..]);
    let computed = computed.strip_prefix("assistant\n").expect("an answer");
    let answer = &conversation.messages().last().expect("an answer").content;
    let rest = answer.strip_prefix(computed).expect("the computed text");
    special(tokenizer, &format!("{rest}{}", turn_after_answer(text)))
}

#[test]
fn the_oldest_turns_leave_and_only_what_is_new_is_computed() {
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let mut engine = load_format(CHATML, format);
        let mut conversation = engine.conversation(options(Some("Be brief.")));
        let tokenizer = Arc::clone(conversation.session().engine().tokenizer());
        let system = special(&tokenizer, "<|im_start|>system\nBe brief.<|im_end|>\n");
        let mut shifts = Vec::new();
        for turn in 0..24 {
            let text = format!("question {turn}");
            let before = conversation.session().tokens().to_vec();
            let dropped = conversation.stats().dropped_turns;
            let delta = match turn {
                0 => ids(
                    conversation.session().engine(),
                    &[message(System, "Be brief."), message(User, &text)],
                ),
                _ => delta(&conversation, &text),
            };
            let report = ask(&mut conversation, &text, 8);
            assert_eq!(report.prefilled, delta.len(), "{format:?}, turn {turn}");
            let held = conversation.session().tokens();
            assert!(held.starts_with(&system));
            assert_holds(&conversation, dropped + report.dropped_turns);
            assert_eq!(report.shifted, report.dropped_turns > 0);
            if report.shifted {
                shifts.push(turn);
                // What stays is what was there, answers and all, but for the dropped turns.
                let end = before.len() - report.reused + system.len();
                let kept = [&system, &before[end..], &delta].concat();
                assert!(held.starts_with(&kept));
                assert_eq!(before[end], IM_START);
                let dropped = &before[system.len()..end];
                assert_eq!(count(dropped, IM_START), 2 * report.dropped_turns);
                // Room for the answer and an eighth of the context, and not a turn more than that takes.
                let most = N_CTX - 8 - N_CTX / 8;
                let last = dropped.iter().rposition(|&token| token == IM_START);
                let last = dropped[..last.expect("a turn")]
                    .iter()
                    .rposition(|&t| t == IM_START);
                assert!(kept.len() <= most);
                assert!(kept.len() + dropped.len() - last.expect("a turn") > most);
            } else {
                assert_eq!(report.reused, before.len());
            }
        }
        assert!(shifts.len() >= 3, "{shifts:?}");
        assert!(shifts.is_sorted_by(|a, b| a + 1 < *b), "{shifts:?}");
        let stats = conversation.stats();
        assert_eq!((stats.shifts, stats.turns), (shifts.len(), 24));
        assert_eq!(conversation.messages().len(), 49);
    }
}

#[test]
fn an_answer_goes_on_when_the_oldest_turns_leave() {
    let mut engine = load_format(CHATML, KvFormat::F32);
    let mut conversation = engine.conversation(options(Some("Be brief.")));
    for text in ["one", "two", "three"] {
        ask(&mut conversation, text, 6);
    }
    let tokens = conversation.session().tokens().len();
    let answer = conversation.ask("four", greedy(600)).expect("a turn");
    let before = answer.turn();
    let (report, finish) = finish(answer);
    assert_eq!((before.dropped_turns, before.reused), (0, tokens));
    assert_eq!((report.dropped_turns, report.shifted), (3, true));
    assert_eq!(
        report.prefilled, before.prefilled,
        "rows were moved, not computed"
    );
    assert_eq!(finish.reason, FinishReason::Length);
    assert_holds(&conversation, 3);
    // System message and question leave the rest to the answer; its last token needs no room.
    let engine = conversation.session().engine();
    let prompt = ids(
        engine,
        &[message(System, "Be brief."), message(User, "four")],
    );
    assert_eq!(finish.generated, N_CTX - prompt.len() + 1);
    assert!(conversation.stats().shifts >= 1);
}

#[test]
fn drafts_change_nothing_about_an_answer_during_which_turns_leave() {
    let run = |method| {
        let mut engine = load_format(CHATML, KvFormat::F32);
        let mut conversation = engine.conversation(options(None));
        for text in ["one", "two", "three"] {
            ask(&mut conversation, text, 6);
        }
        let draft = DraftOptions {
            method,
            max_tokens: 3,
        };
        let options = GenerateOptions {
            draft,
            ..greedy(600)
        };
        let (report, finish) = finish(conversation.ask("four", options).expect("a turn"));
        assert_eq!((report.dropped_turns, report.shifted), (3, true));
        (
            conversation.session().tokens().to_vec(),
            conversation.messages().to_vec(),
            finish.drafted,
        )
    };
    let (tokens, messages, _) = run(DraftMethod::None);
    let drafted = run(DraftMethod::NGRAM);
    assert!(drafted.2 > 0);
    assert_eq!((drafted.0, drafted.1), (tokens, messages));
}

#[test]
fn without_shifting_a_full_context_is_the_end() {
    let mut engine = load_format(CHATML, KvFormat::F32);
    let mut conversation = engine.conversation(ConversationOptions {
        shift: false,
        ..options(Some("Be brief."))
    });
    ask(&mut conversation, "one", 6);
    let answer = conversation.ask("two", greedy(600)).expect("a turn");
    let (report, finish) = finish(answer);
    assert_eq!(finish.reason, FinishReason::Length);
    assert_eq!((report.dropped_turns, report.shifted), (0, false));
    let messages = conversation.messages().to_vec();
    let used = conversation.session().tokens().len();
    let prompt = delta(&conversation, "three").len();
    let error = conversation
        .ask("three", greedy(1))
        .map(drop)
        .expect_err("full");
    let expected = format!(
        "the prompt has {prompt} tokens, but {} of the context's {N_CTX} are left",
        N_CTX - used
    );
    assert_eq!(error.to_string(), expected);
    assert!(matches!(error, Error::PromptTooLong { .. }));
    assert_eq!(conversation.messages(), messages);
    assert_eq!(conversation.session().tokens().len(), used);
}

/// Dropping turns changes what is left: rows cannot stay.
const NUMBERED: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ loop.index }} {{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

#[test]
fn turns_that_read_otherwise_without_those_before_are_computed_again() {
    let mut engine = load_format(NUMBERED, KvFormat::F32);
    let mut conversation = engine.conversation(options(Some("Be brief.")));
    let mut dropped = 0;
    for turn in 0..24 {
        let text = format!("question {turn}");
        let before = conversation.session().tokens().to_vec();
        let report = ask(&mut conversation, &text, 0);
        dropped += report.dropped_turns;
        let messages = prompt_of(&conversation);
        let retained = [&messages[..1], &messages[1 + 2 * dropped..]].concat();
        let rendered = ids(conversation.session().engine(), &retained);
        assert_eq!(conversation.session().tokens(), rendered);
        assert!(!report.shifted);
        assert_eq!(report.reused, common(&before, &rendered));
        assert_eq!(report.prefilled, rendered.len() - report.reused);
    }
    assert!(dropped > 8, "{dropped}");
}

#[test]
fn an_answer_goes_on_after_turns_that_are_computed_again() {
    let mut engine = load_format(NUMBERED, KvFormat::F32);
    let mut conversation = engine.conversation(options(Some("Be brief.")));
    for text in ["one", "two", "three"] {
        ask(&mut conversation, text, 0);
    }
    let answer = conversation.ask("four", greedy(350)).expect("a turn");
    let (report, finish) = finish(answer);
    assert!(report.dropped_turns > 0 && !report.shifted, "{report:?}");
    let session = conversation.session();
    let messages = prompt_of(&conversation);
    let retained = [&messages[..1], &messages[1 + 2 * report.dropped_turns..]].concat();
    let prompt = ids(session.engine(), &retained);
    assert!(session.tokens().starts_with(&prompt));
    let roles = session.engine().roles(session.sequence());
    let is_prompt = |role: &Role| *role == Role::Prompt;
    assert_eq!(
        roles.iter().take_while(|r| is_prompt(r)).count(),
        prompt.len()
    );
    assert!(!roles[prompt.len()..].iter().any(is_prompt));
    let text = session
        .engine()
        .tokenizer()
        .decode(&session.tokens()[prompt.len()..]);
    let answer = &conversation.messages().last().expect("an answer").content;
    assert!(answer.starts_with(&text) && !text.is_empty());
    assert!(finish.generated > 200);
}
