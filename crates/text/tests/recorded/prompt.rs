//! Prompts of the recorded conversations.

use minfer_text::{ChatTemplate, EncodeOptions, Tokenizer, encode_chat, render_chat};

use crate::chat::{recordings, time};
use crate::vocabularies::tokenizer;

const SPECIAL: EncodeOptions = EncodeOptions {
    parse_special: true,
    add_bos: true,
};

const SPELLINGS: [&str; 5] = [
    "<|im_end|>",
    "<|im_start|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|begin_of_text|>",
];

fn special_tokens(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    let texts = ids.iter().filter_map(|&id| tokenizer.token_bytes(id));
    let texts = texts.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    texts
        .filter(|text| SPELLINGS.contains(&text.as_str()))
        .collect()
}

/// Where nobody writes a special token, the prompt is the rendered text; where somebody does, the special
/// tokens are those of the same conversation without it.
#[test]
fn prompts_of_recorded_conversations() {
    let (mut unchanged, mut guarded) = (0, 0);
    for (name, recording) in recordings() {
        let template = ChatTemplate::new(&recording.template).expect("a template");
        for case in recording
            .cases
            .into_iter()
            .filter(|case| case.rendered.is_some())
        {
            for tokenizer in ["qwen35", "llama-bpe", "llama-spm"].map(tokenizer) {
                let rendered = case.rendered.as_deref().unwrap_or_default();
                let prompt = |context| {
                    encode_chat(tokenizer, &template, context, &time(None)).expect("a prompt")
                };
                let ids = prompt(case.context.clone());
                let context = case.context.to_string();
                if SPELLINGS.iter().all(|spelling| !context.contains(spelling)) {
                    assert_eq!(
                        ids,
                        tokenizer.encode(rendered, SPECIAL),
                        "{name}, {}",
                        case.case
                    );
                    unchanged += 1;
                } else {
                    let harmless = context.replace("<|im_end|>", "im_end");
                    let harmless = prompt(serde_json::from_str(&harmless).expect("JSON"));
                    let expected = special_tokens(tokenizer, &harmless);
                    assert_eq!(
                        special_tokens(tokenizer, &ids),
                        expected,
                        "{name}, {}",
                        case.case
                    );
                    guarded += 1;
                }
            }
        }
    }
    assert!(
        unchanged > 150 && guarded >= 24,
        "{unchanged} and {guarded}"
    );
}

/// Where a prompt is cut at the start of a special token, the ids of the pieces are those of the whole.
#[test]
fn prompts_encoded_in_pieces() {
    let mut cuts = 0;
    for (name, recording) in recordings() {
        let template = ChatTemplate::new(&recording.template).expect("a template");
        let cases = recording.cases.into_iter();
        for case in cases.filter(|case| case.rendered.is_some()) {
            for tokenizer in ["qwen35", "llama-bpe", "llama-spm"].map(tokenizer) {
                let label = format!("{name}, {}", case.case);
                let chat = render_chat(tokenizer, &template, case.context.clone(), &time(None))
                    .expect("a prompt");
                assert_eq!(Some(chat.text()), case.rendered.as_deref(), "{label}");
                let whole = chat.encode_from(tokenizer, 0);
                for (token, &index) in chat.special().iter().zip(&whole.special) {
                    assert_eq!(whole.ids[index], token.id, "{label}");
                    let rest = chat.encode_from(tokenizer, token.start).ids;
                    let mut beginning = chat.clone();
                    beginning.truncate(token.start);
                    let beginning = beginning.encode_from(tokenizer, 0).ids;
                    // BOS that the text itself begins with is not put before an empty beginning.
                    let beginning = &beginning[..index];
                    assert_eq!([beginning, &rest].concat(), whole.ids, "{label}");
                    cuts += 1;
                }
            }
        }
    }
    assert!(cuts > 390, "{cuts}");
}
