//! Conversations in session files.

use std::fs;

use minfer_engine::MessageRole::User;
use minfer_engine::sampling::SamplerParams;
use minfer_engine::{Conversation, EngineOptions, Error, GenerateOptions, Resumed};
use minfer_graph::KvFormat;

use crate::model::*;

const N_CTX: usize = 400;

fn load_format(format: KvFormat) -> minfer_engine::Engine {
    let options = EngineOptions {
        kv_format: Some(format),
        ..EngineOptions::default()
    };
    load_with(CHATML, N_CTX, None, options)
}

/// An answer that is drawn at random, and so tells of every bit.
fn drawn(conversation: &mut Conversation<'_>, text: &str) -> (Vec<u32>, String) {
    let options = GenerateOptions {
        sampler: SamplerParams {
            seed: Some(7),
            temperature: 2.0,
            top_k: 0,
            ..SamplerParams::default()
        },
        ..greedy(20)
    };
    finish(conversation.ask(text, options).expect("a turn"));
    let answer = conversation.messages().last().expect("an answer");
    (
        conversation.session().tokens().to_vec(),
        answer.content.clone(),
    )
}

#[test]
fn a_resumed_conversation_goes_on_as_the_one_that_was_saved() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("conversation");
    for format in [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0] {
        let mut engine = load_format(format);
        let mut conversation = engine.conversation(options(Some("Be brief.")));
        // Long enough that turns have left the context.
        for turn in 0..12 {
            ask(&mut conversation, &format!("question {turn}"), 8);
        }
        let stats = conversation.stats();
        assert!(stats.dropped_turns > 0, "{stats:?}");
        let messages = conversation.messages().to_vec();
        let saved = conversation.save(&path).expect("a file");
        assert_eq!(saved.tokens, stats.tokens);
        assert_eq!(saved.bytes, fs::metadata(&path).expect("a file").len());
        let expected = drawn(&mut conversation, "and now?");
        let computed = conversation.stats().prefilled - stats.prefilled;

        let mut engine = load_format(format);
        let mut conversation = engine.conversation(options(None));
        // A context that the file's has no room beside.
        for turn in 0..8 {
            ask(&mut conversation, &format!("other question {turn}"), 8);
        }
        let resumed = conversation.resume(&path).expect("a conversation");
        assert_eq!(
            resumed,
            Resumed::Exact {
                tokens: stats.tokens
            }
        );
        assert_eq!(conversation.messages(), messages);
        assert_eq!(conversation.stats().dropped_turns, stats.dropped_turns);
        let prefilled = conversation.stats().prefilled;
        assert_eq!(drawn(&mut conversation, "and now?"), expected, "{format:?}");
        let computed_here = conversation.stats().prefilled - prefilled;
        assert_eq!(computed_here, computed, "tokens of the new turn");
        assert!(computed < stats.tokens / 4, "{computed}");
        assert_holds(&conversation, conversation.stats().dropped_turns);
    }
}

#[test]
fn a_context_that_is_of_no_use_here_is_computed_again_from_the_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("conversation");
    let mut engine = load_format(KvFormat::F32);
    let mut conversation = engine.conversation(options(Some("Be brief.")));
    ask(&mut conversation, "one", 8);
    ask(&mut conversation, "two", 8);
    conversation.save(&path).expect("a file");
    let messages = conversation.messages().to_vec();

    let mut engine = load_format(KvFormat::F16);
    let mut conversation = engine.conversation(options(None));
    ask(&mut conversation, "something else", 8);
    let resumed = conversation.resume(&path).expect("a conversation");
    let Resumed::History { reason } = resumed else {
        panic!("{resumed:?}");
    };
    assert!(reason.contains("f32") && reason.contains("f16"), "{reason}");
    assert_eq!(conversation.messages(), messages);
    let report = ask(&mut conversation, "three", 0);
    assert_holds(&conversation, 0);
    let expected = ids(conversation.session().engine(), prompt_of(&conversation));
    assert_eq!(conversation.session().tokens(), expected);
    assert_eq!(
        report.reused,
        special(conversation.session().engine().tokenizer(), "<|im_start|>").len()
    );
}

#[test]
fn a_file_that_holds_no_conversation_leaves_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("conversation");
    let mut engine = load_format(KvFormat::F32);
    let sequence = engine.create_sequence();
    let turns = r#"[{"role":"assistant","content":"?"}]"#;
    let turn = r#"[{"role":"user","content":"?"},{"role":"assistant","content":"!"}]"#;
    let transcript = r#"{"text":{"text":"","special":[]},"special":[],"tokens":0,"joint":[0,0]}"#;
    for (host, part) in [
        ("no JSON".to_owned(), "expected"),
        ("{}".to_owned(), "history"),
        (
            format!(
                r#"{{"history":{{"messages":{turns},"dropped":0}},"transcript":{transcript},"now":""}}"#
            ),
            "turns",
        ),
        // Without its last turn nothing would be left to answer.
        (
            format!(
                r#"{{"history":{{"messages":{turn},"dropped":1}},"transcript":{transcript},"now":""}}"#
            ),
            "turns",
        ),
    ] {
        let written = engine.save_sequence(sequence, host.as_bytes(), &path);
        written.expect("a file");
        let mut conversation = engine.conversation(options(None));
        ask(&mut conversation, "hello", 4);
        let tokens = conversation.session().tokens().to_vec();
        let free = conversation.session().engine().free_cells();
        let error = conversation.resume(&path).expect_err(&host);
        assert!(matches!(error, Error::SavedConversation { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(conversation.messages()[0], message(User, "hello"));
        assert_eq!(conversation.session().tokens(), tokens);
        assert_eq!(conversation.session().engine().free_cells(), free);
    }
    fs::write(&path, "text").expect("a file");
    let mut conversation = engine.conversation(options(None));
    assert!(matches!(
        conversation.resume(&path),
        Err(Error::SessionFile(_))
    ));
    assert_eq!(conversation.messages(), []);
}

#[test]
fn text_that_does_not_belong_to_the_tokens_is_not_trusted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("conversation");
    let mut engine = load_format(KvFormat::F32);
    let mut conversation = engine.conversation(options(None));
    ask(&mut conversation, "hello", 4);
    conversation.save(&path).expect("a file");
    drop(conversation);
    let (sequence, host) = engine.restore_sequence(&path).expect("a session");
    let host = String::from_utf8(host).expect("JSON");
    let (from, to) = (r#""id":264"#, r#""id":265"#);
    let changed = host.replacen(from, to, 1);
    assert_ne!(changed, host);
    engine
        .save_sequence(sequence, changed.as_bytes(), &path)
        .expect("a file");
    engine.release_sequence(sequence).expect("a sequence");
    let free = engine.free_cells();
    let mut conversation = engine.conversation(options(None));
    let resumed = conversation.resume(&path).expect("a conversation");
    assert!(matches!(resumed, Resumed::History { .. }), "{resumed:?}");
    assert_eq!(conversation.messages()[0], message(User, "hello"));
    assert_eq!(conversation.session().engine().free_cells(), free);
    ask(&mut conversation, "again", 0);
    assert_holds(&conversation, 0);
}
