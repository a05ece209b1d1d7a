//! A tiny model with the vocabulary of bytes, and conversations on it.

use minfer_engine::sampling::SamplerParams;
use minfer_engine::{
    Answer, Conversation, ConversationOptions, Engine, EngineOptions, Finish, GenerateOptions,
    Message, MessageRole, TurnReport,
};
use minfer_gguf::{Gguf, OpenOptions, Writer};
use minfer_testdata::tiny_model;
use minfer_text::{RenderTime, encode_chat};
use serde_json::json;

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// A time for templates.
pub fn now() -> RenderTime {
    RenderTime::from_rfc3339("2026-11-29T12:00:00Z").expect("a time")
}

/// A model with a ChatML template and this context length.
pub fn load(n_ctx: usize) -> Engine {
    load_with(CHATML, n_ctx, EngineOptions::default())
}

pub fn load_with(template: &str, n_ctx: usize, options: EngineOptions) -> Engine {
    let options = EngineOptions {
        n_ctx: Some(n_ctx),
        ..options
    };
    Engine::from_gguf(&model(template), &options).unwrap_or_else(|e| panic!("{e}"))
}

/// The tiny model, whose user-defined tokens `<|pad…|>` become control tokens: they are in any answer, and
/// a conversation would take them for what somebody wrote.
fn model(template: &str) -> Gguf {
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
    for info in source.tensors() {
        writer.add(source.tensor(&info.name).expect("listed"));
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
pub fn finish(answer: Answer<'_, '_>) -> (TurnReport, Finish) {
    let mut answer = answer;
    loop {
        if let minfer_engine::Event::Done(finish) = answer.next_event().expect("a step") {
            let finish = finish.clone();
            return (answer.turn(), finish);
        }
    }
}

pub fn ask(conversation: &mut Conversation<'_>, text: &str, max_tokens: usize) -> TurnReport {
    let answer = conversation.ask(text, greedy(max_tokens)).expect("a turn");
    finish(answer).0
}

/// Ids of a prompt, computed from the messages alone.
pub fn ids(engine: &Engine, messages: &[Message]) -> Vec<u32> {
    let context = json!({ "messages": messages, "add_generation_prompt": true });
    encode_chat(engine.tokenizer(), engine.template(), context, &now()).expect("a prompt")
}

pub fn message(role: MessageRole, content: &str) -> Message {
    Message {
        role,
        content: content.to_owned(),
    }
}
