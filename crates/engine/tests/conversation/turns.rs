//! Turns without overflow.

use minfer_engine::MessageRole::{Assistant, System, User};

use std::ops::ControlFlow;
use std::sync::Arc;

use minfer_engine::Engine;
use minfer_text::EncodeOptions;

use crate::model::*;

/// Session tokens and the answer after a prompt, without a conversation.
fn reference(engine: &mut Engine, prompt: &[u32], max_tokens: usize) -> (Vec<u32>, String) {
    let mut text = String::new();
    let mut session = engine.session();
    let generator = session
        .generate(prompt, greedy(max_tokens))
        .expect("options");
    let finish = generator.run(|piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    finish.expect("a step");
    (session.tokens().to_vec(), text)
}

#[test]
fn a_turn_prefills_only_what_is_new() {
    let mut engine = load(2048);
    let asked = [
        message(System, "Be brief."),
        message(User, "the first question"),
    ];
    let first_prompt = ids(&engine, &asked);
    let (held, answer) = reference(&mut engine, &first_prompt, 12);

    let mut conversation = engine.conversation(options(Some("Be brief.")));
    let first = ask(&mut conversation, "the first question", 12);
    assert_eq!((first.prefilled, first.reused), (first_prompt.len(), 0));
    assert_eq!(conversation.messages()[2], message(Assistant, &answer));

    // The last token was chosen but not computed: its text comes with the second turn.
    let tokenizer = Arc::clone(conversation.session().engine().tokenizer());
    let computed = tokenizer.decode(&held[first_prompt.len()..]);
    let last = answer
        .strip_prefix(&computed)
        .expect("all but the last token");
    let delta =
        format!("{last}<|im_end|>\n<|im_start|>user\nanother<|im_end|>\n<|im_start|>assistant\n");
    let special = EncodeOptions {
        parse_special: true,
        add_bos: false,
    };
    let delta = tokenizer.encode(&delta, special);

    let answer = conversation.ask("another", greedy(1)).expect("a turn");
    let (second, _) = finish(answer);
    assert_eq!((second.prefilled, second.reused), (delta.len(), held.len()));
    assert_eq!(conversation.session().tokens(), [held, delta].concat());
}
