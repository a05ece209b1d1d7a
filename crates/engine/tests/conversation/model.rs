//! A tiny model with the vocabulary of bytes, and conversations on it.

use std::ops::ControlFlow;

use minfer_engine::sampling::SamplerParams;
use minfer_engine::{
    Answer, Conversation, ConversationOptions, Engine, EngineOptions, Event, Finish,
    GenerateOptions, Message, MessageRole, TurnReport,
};
use minfer_gguf::{Gguf, OpenOptions, TensorBytes, Writer};
use minfer_testdata::tiny_model;
use minfer_text::{EncodeOptions, RenderTime, Tokenizer, encode_chat};
use serde_json::json;

pub const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Ids of `<|im_start|>` and `<|im_end|>`.
pub const IM_START: u32 = 264;
pub const IM_END: u32 = 265;

/// A time for templates.
pub fn now() -> RenderTime {
    RenderTime::from_rfc3339("2026-11-29T12:00:00Z").expect("a time")
}

/// A model with a ChatML template and this context length.
pub fn load(n_ctx: usize) -> Engine {
    load_with(CHATML, n_ctx, None, EngineOptions::default())
}

/// A model with this template and, if given, end-of-text token.
pub fn load_with(template: &str, n_ctx: usize, eos: Option<u32>, options: EngineOptions) -> Engine {
    let options = EngineOptions {
        n_ctx: Some(n_ctx),
        ..options
    };
    Engine::from_gguf(&model(template, eos), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// A model whose logits are no numbers once `token` is among the tokens.
pub fn load_poisoned(n_ctx: usize, token: u32) -> Engine {
    let gguf = model(CHATML, None);
    let gguf = changed(&gguf, |tensor, bytes| {
        if tensor == "token_embd.weight" {
            let row = bytes.len() / gguf.tensor(tensor).expect("listed").shape[1];
            let value = f32::NAN.to_le_bytes();
            let poisoned = &mut bytes[token as usize * row..][..row];
            poisoned
                .chunks_exact_mut(4)
                .for_each(|x| x.copy_from_slice(&value));
        }
    });
    let options = EngineOptions {
        n_ctx: Some(n_ctx),
        ..EngineOptions::default()
    };
    Engine::from_gguf(&gguf, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// A copy of a model with other bytes in some tensors.
fn changed(source: &Gguf, change: impl Fn(&str, &mut [u8])) -> Gguf {
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in source.tensors() {
        let mut tensor = source.tensor(&info.name).expect("listed");
        let mut bytes = tensor.bytes.to_vec();
        change(&tensor.name, &mut bytes);
        tensor.bytes = TensorBytes::from_vec(bytes);
        writer.add(tensor);
    }
    let bytes = writer.to_bytes().expect("a valid model");
    Gguf::parse_bytes("a changed model", bytes).expect("a model")
}

/// The tiny model. It ends no answer by itself, since the logits of `<|endoftext|>`, `<|im_start|>` and `<|im_end|>`
/// are 0. The user-defined tokens `<|pad…|>` become control tokens: they are in any answer, and a
/// conversation would take them for what somebody wrote.
pub fn model(template: &str, eos: Option<u32>) -> Gguf {
    let source = Gguf::open(tiny_model("tiny-qwen2-f32"), OpenOptions::default());
    let source = source.unwrap_or_else(|e| panic!("{e}"));
    let mut writer = Writer::new();
    for (key, value) in source.metadata().iter() {
        writer.set(key, value.clone());
    }
    let types = "tokenizer.ggml.token_type";
    let codes = source.metadata().get_i64s(types).expect("numbers");
    let codes = codes.into_iter().flatten();
    let codes: Vec<i32> = codes
        .map(|code| if code == 4 { 3 } else { code as i32 })
        .collect();
    writer.set(types, codes);
    writer.set("tokenizer.chat_template", template);
    if let Some(eos) = eos {
        writer.set("tokenizer.ggml.eos_token_id", eos);
    }
    for info in source.tensors() {
        let mut tensor = source.tensor(&info.name).expect("listed");
        if tensor.name == "output.weight" {
            let row = tensor.bytes.len() / tensor.shape[1];
            let mut bytes = tensor.bytes.to_vec();
            for token in [263, IM_START, IM_END] {
                bytes[token as usize * row..][..row].fill(0);
            }
            tensor.bytes = TensorBytes::from_vec(bytes);
        }
        writer.add(tensor);
    }
    let bytes = writer.to_bytes().expect("a valid model");
    Gguf::parse_bytes("with another template", bytes).expect("a model")
}

pub fn options(system: Option<&str>) -> ConversationOptions {
    ConversationOptions {
        system: system.map(str::to_owned),
        now: now(),
        ..ConversationOptions::default()
    }
}

pub fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        sampler: SamplerParams::greedy(),
        max_tokens: Some(max_tokens),
        ..GenerateOptions::default()
    }
}

/// Runs an answer to its end.
pub fn finish(mut answer: Answer<'_, '_>) -> (TurnReport, Finish) {
    loop {
        if let Event::Done(finish) = answer.next_event().expect("a step") {
            let finish = finish.clone();
            return (answer.turn(), finish);
        }
    }
}

/// A turn with an answer of so many tokens; with none, the prompt is computed all the same.
pub fn ask(conversation: &mut Conversation<'_>, text: &str, max_tokens: usize) -> TurnReport {
    let answer = conversation.ask(text, greedy(max_tokens)).expect("a turn");
    finish(answer).0
}

/// Tokens, text and end of a generation without a conversation.
pub fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    options: GenerateOptions,
) -> (Vec<u32>, String, Finish) {
    let mut text = String::new();
    let mut session = engine.session();
    let generator = session.generate(prompt, options).expect("options");
    let finish = generator.run(|piece| {
        text.push_str(piece);
        ControlFlow::Continue(())
    });
    let finish = finish.expect("a step");
    (session.tokens().to_vec(), text, finish)
}

pub fn message(role: MessageRole, content: &str) -> Message {
    Message {
        role,
        content: content.to_owned(),
    }
}

/// Ids of a prompt, computed from the messages alone.
pub fn ids(engine: &Engine, messages: &[Message]) -> Vec<u32> {
    let context = json!({ "messages": messages, "add_generation_prompt": true });
    encode_chat(engine.tokenizer(), engine.template(), context, &now()).expect("a prompt")
}

/// Ids of a text with special tokens.
pub fn special(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let options = EncodeOptions {
        parse_special: true,
        add_bos: false,
    };
    tokenizer.encode(text, options)
}

/// What the ChatML template writes between an answer and the next.
pub fn turn_after_answer(text: &str) -> String {
    format!("<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n")
}

/// The messages before the last answer.
pub fn prompt_of<'c>(conversation: &'c Conversation<'_>) -> &'c [Message] {
    let messages = conversation.messages();
    &messages[..messages.len() - 1]
}

pub fn count(tokens: &[u32], token: u32) -> usize {
    tokens.iter().filter(|&&t| t == token).count()
}

/// Leading tokens that are the same.
pub fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Asserts that the context is the rendering of all messages but the last answer and the `dropped` oldest
/// turns: the same tokens in everything but the answers, where the text is the same, and of the last
/// answer what was computed.
pub fn assert_holds(conversation: &Conversation<'_>, dropped: usize) {
    let engine = conversation.session().engine();
    let messages = prompt_of(conversation);
    let system = usize::from(messages[0].role == MessageRole::System);
    let retained = [&messages[..system], &messages[system + 2 * dropped..]].concat();
    let rendered = ids(engine, &retained);
    let split = |tokens: &[u32]| -> Vec<Vec<u32>> {
        let parts = tokens.split(|&token| token == IM_START);
        parts.map(<[u32]>::to_vec).collect()
    };
    let (held, rendered) = (split(conversation.session().tokens()), split(&rendered));
    assert_eq!(held.len(), rendered.len(), "{messages:?}");
    let answers = special(engine.tokenizer(), "assistant\n");
    let last = rendered.len() - 1;
    for (i, (held, rendered)) in held.iter().zip(&rendered).enumerate() {
        if !rendered.starts_with(&answers) {
            assert_eq!(held, rendered, "message {i}");
            continue;
        }
        let decode = |tokens| engine.tokenizer().decode(tokens);
        let (held, rendered) = (decode(held), decode(rendered));
        assert!(
            held == rendered || i == last && held.starts_with(&rendered),
            "{held:?} is not {rendered:?}"
        );
    }
}
