use std::fs;
use std::sync::{Arc, LazyLock};

use minfer_testdata::{fixture, vocabulary};
use minfer_text::{ChatTemplate, RenderTime, render_chat};
use serde_json::{Value, json};

use super::*;

/// Templates in `tests/fixtures/chat` by the vocabulary that has their special tokens, or that stands in.
const TEMPLATES: [(&str, &[&str]); 3] = [
    (
        "qwen35",
        &[
            "Qwen-Qwen2.5-7B-Instruct",
            "Qwen-Qwen3-0.6B",
            "Qwen-QwQ-32B",
            "HuggingFaceTB-SmolLM3-3B",
        ],
    ),
    (
        "llama-bpe",
        &[
            "meta-llama-Llama-3.1-8B-Instruct",
            "meta-llama-Llama-3.2-3B-Instruct",
        ],
    ),
    ("llama-spm", &["llama-2"]),
];

/// Its prompts end with `<think>`, which it takes out of every answer but the last message.
const THOUGHTS_BEGUN: &str = "Qwen-QwQ-32B";

/// The marks of a turn are special tokens of the vocabulary `llama-spm`, but in the middle of a turn.
const LLAMA_2: &str = "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token }}[INST] {{ m.content }} [/INST]\
    {% elif m.role == 'system' %}{{ bos_token }}<<SYS>> {{ m.content }} <</SYS>>{{ eos_token }}\
    {% else %}{{ ' ' + m.content|trim + ' ' + eos_token }}{% endif %}{% endfor %}";

fn template(name: &str) -> ChatTemplate {
    let source = match name {
        "llama-2" => LLAMA_2.to_owned(),
        _ => {
            let recording = fs::read_to_string(fixture(format!("chat/{name}.json")));
            let recording: Value =
                serde_json::from_str(&recording.expect("a recording")).expect("JSON");
            recording["template"]
                .as_str()
                .expect("a template")
                .to_owned()
        }
    };
    ChatTemplate::new(&source).expect("a template")
}

/// A session without a model: its tokens, and what they stand for.
struct Held {
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    tokens: Vec<u32>,
    transcript: Transcript,
    messages: Vec<Value>,
}

impl Held {
    fn new(tokenizer: Arc<Tokenizer>, template: ChatTemplate) -> Self {
        Held {
            tokenizer,
            template,
            tokens: Vec::new(),
            transcript: Transcript::default(),
            messages: vec![json!({"role": "system", "content": "Be brief."})],
        }
    }

    /// The rendering without the first turns.
    fn render(&self, dropped: usize) -> ChatText {
        let kept = self.messages[..1]
            .iter()
            .chain(&self.messages[1 + 2 * dropped..]);
        let messages: Vec<&Value> = kept.collect();
        let context = json!({"messages": messages, "add_generation_prompt": true});
        let now = RenderTime::from_rfc3339("2026-11-29T12:00:00Z").expect("a time");
        render_chat(&self.tokenizer, &self.template, context, &now).expect("a rendering")
    }

    /// Asks and returns how many tokens stayed and how many were computed.
    fn ask(&mut self, text: &str) -> (usize, usize) {
        self.messages.push(json!({"role": "user", "content": text}));
        let plan = self
            .transcript
            .plan(&self.tokens, self.render(0), &self.tokenizer);
        let cost = (plan.kept, plan.rest.len());
        self.tokens.truncate(plan.kept);
        self.tokens.extend(plan.rest);
        self.transcript = plan.prompt;
        assert!(self.transcript.is_of(&self.tokens));
        cost
    }

    /// Answers with these tokens, of which `shown` is the text.
    fn answer(&mut self, tokens: &[u32], shown: &str) {
        self.messages
            .push(json!({"role": "assistant", "content": shown}));
        self.transcript.push_answer(tokens, shown, &self.tokenizer);
        let held = self.transcript.tokens() - self.tokens.len();
        self.tokens.extend(&tokens[..held]);
        assert!(self.transcript.is_of(&self.tokens));
    }

    /// Answers with the tokens of a text as the model would choose them.
    fn say(&mut self, text: &str) {
        let tokens = self.tokenizer.encode(text, Default::default());
        let shown: String = {
            let mut detokenizer = Detokenizer::continuing(&*self.tokenizer);
            tokens
                .iter()
                .map(|&id| detokenizer.push(id).to_owned())
                .collect()
        };
        self.answer(&tokens, &shown);
    }
}

/// The tokenizer of a vocabulary in [`TEMPLATES`].
fn tokenizer(name: &str) -> Arc<Tokenizer> {
    static TOKENIZERS: LazyLock<Vec<(&str, Arc<Tokenizer>)>> = LazyLock::new(|| {
        let names = TEMPLATES.iter().map(|(name, _)| *name);
        let tokenizers = names.map(|name| {
            let tokenizer = Tokenizer::from_gguf(&vocabulary(name));
            (name, Arc::new(tokenizer.expect("a vocabulary")))
        });
        tokenizers.collect()
    });
    let found = TOKENIZERS.iter().find(|(known, _)| *known == name);
    Arc::clone(&found.expect("listed").1)
}

fn all() -> impl Iterator<Item = (&'static str, Held)> {
    TEMPLATES.iter().flat_map(|(vocabulary, templates)| {
        let templates = templates.iter();
        templates.map(|&name| (name, Held::new(tokenizer(vocabulary), template(name))))
    })
}

#[test]
fn turns_of_real_templates_compute_only_what_is_new() {
    for (name, mut held) in all().filter(|(name, _)| *name != THOUGHTS_BEGUN) {
        held.ask("What is the capital of France?");
        for text in [
            "Why?",
            "<|im_end|></s><|eot_id|>",
            "  Et l'Italie ? 🇮🇹 ",
            "1\n\n2",
        ] {
            held.say("It is Paris, naturellement.");
            let before = held.tokens.len();
            let (kept, computed) = held.ask(text);
            assert_eq!(kept, before, "{name}: {text:?}");
            // The tokens are those of the whole rendering, whose answers are encoded alike here.
            let whole = held.render(0).encode_from(&held.tokenizer, 0);
            assert_eq!(held.tokens, whole.ids, "{name}: {text:?}");
            assert_eq!(kept + computed, whole.ids.len());
            assert_eq!(held.transcript.special, whole.special, "{name}");
        }
    }
}

#[test]
fn thoughts_that_a_template_takes_out_leave_the_context_and_nothing_before_them_does() {
    let mut seen = 0;
    for (name, mut held) in all() {
        let answer = match name {
            "Qwen-Qwen3-0.6B" => "<think>\nHm, France.\n</think>\n\nIt is Paris.",
            THOUGHTS_BEGUN => "Hm, France.\n</think>\n\nIt is Paris.",
            _ => continue,
        };
        seen += 1;
        held.ask("What is the capital of France?");
        for text in ["Why?", "And Italy?"] {
            let before = held.tokens.clone();
            held.say(answer);
            let (kept, _) = held.ask(text);
            let whole = held.render(0).encode_from(&held.tokenizer, 0).ids;
            assert_eq!(held.tokens, whole, "{name}");
            let same = before.iter().zip(&whole).take_while(|(a, b)| a == b);
            assert_eq!(kept, same.count(), "{name}");
        }
    }
    assert_eq!(seen, 2);
}

#[test]
fn the_oldest_turns_of_real_templates_can_be_taken_out() {
    for (name, mut held) in all() {
        for text in [
            "What is the capital of France?",
            "Why?",
            "And Italy?",
            "Since when?",
        ] {
            held.ask(text);
            held.say(&format!("An answer to {text}"));
        }
        held.ask("Really?");
        for dropped in 1..4 {
            let plan = Plan::keeping(held.transcript.clone());
            let text = held.render(dropped);
            let whole = text.encode_from(&held.tokenizer, 0);
            let plan = plan
                .without(&text)
                .unwrap_or_else(|| panic!("{name}: {dropped} turns"));
            let mut tokens = held.tokens.clone();
            tokens.drain(plan.removed.expect("turns"));
            assert_eq!(tokens, whole.ids, "{name}: {dropped} turns");
            assert_eq!(plan.prompt.special, whole.special, "{name}");
            assert_eq!(plan.prompt.tokens, whole.ids.len(), "{name}");
        }
    }
}

fn qwen() -> Held {
    let template = template("Qwen-Qwen2.5-7B-Instruct");
    let mut held = Held::new(tokenizer("qwen35"), template);
    held.ask("Hello");
    held
}

#[test]
fn an_answer_is_held_up_to_its_last_whole_character_and_token() {
    let mut held = qwen();
    let encode = |text: &str| held.tokenizer.encode(text, Default::default());
    let smile = encode("🥸");
    assert!(smile.len() > 1, "a character of several tokens");
    let cut = &smile[..smile.len() - 1];
    let (before, hi) = (held.tokens.len(), encode("Hi there"));
    held.answer(&[&hi[..], cut].concat(), "Hi there\u{FFFD}");
    assert_eq!(held.tokens.len(), before + hi.len());
    // What is missing of the answer comes with the next turn.
    held.ask("Hm?");
    let text = held.tokenizer.decode(&held.tokens);
    assert!(text.contains("Hi there\u{FFFD}\nuser\nHm?"), "{text:?}");

    let mut held = qwen();
    let tokens = held.tokenizer.encode("one two three", Default::default());
    assert_eq!(tokens.len(), 3);
    let before = held.tokens.len();
    held.answer(&tokens, "one tw");
    assert_eq!(
        held.tokens.len(),
        before + 1,
        "a stop string within a token"
    );
}

#[test]
fn an_end_of_turn_is_never_held_twice() {
    let mut held = qwen();
    let special = minfer_text::EncodeOptions {
        parse_special: true,
        add_bos: false,
    };
    let tokens = held.tokenizer.encode("Hi<|im_end|>", special);
    held.answer(&tokens, "Hi");
    held.ask("Hm?");
    let end = tokens[tokens.len() - 1];
    let ends = held.tokens.iter().filter(|&&token| token == end).count();
    assert_eq!(ends, 4, "system, user, assistant, user");
}

#[test]
fn a_prompt_that_was_broken_off_is_cut_where_it_went_on() {
    let mut held = qwen();
    held.say("Hi there");
    let (transcript, before) = (held.transcript.clone(), held.tokens.len());
    held.ask("Hm?");
    for tokens in before..held.tokens.len() {
        let mut cut = held.transcript.clone();
        cut.truncate(tokens);
        assert!(cut.tokens() <= tokens && cut.tokens() >= before);
        assert!(cut.is_of(&held.tokens[..cut.tokens()]));
        let rest = cut.plan(
            &held.tokens[..cut.tokens()],
            held.render(0),
            &held.tokenizer,
        );
        assert_eq!(
            [&held.tokens[..rest.kept], &rest.rest].concat(),
            held.tokens
        );
    }
    held.transcript.truncate(before);
    assert_eq!(held.transcript.text, transcript.text);
    let mut cut = held.transcript.clone();
    cut.truncate(before - 1);
    assert_eq!(cut.tokens, transcript.special[transcript.special.len() - 1]);
}

#[test]
fn no_token_of_a_prompt_that_was_broken_off_passes_for_an_answer() {
    for (name, mut held) in all().filter(|(name, _)| *name != THOUGHTS_BEGUN) {
        held.ask("Hello");
        held.say("Hi there");
        held.ask("Hm?");
        for tokens in 0..held.tokens.len() {
            let mut cut = held.transcript.clone();
            cut.settle(&held.tokens[..tokens], "", &held.tokenizer);
            if cut.text.text().is_empty() {
                assert_eq!(cut.tokens, 0, "{name}: {tokens}");
                continue;
            }
            let encoded = cut.text.encode_from(&held.tokenizer, 0).ids;
            assert_eq!(encoded, held.tokens[..cut.tokens], "{name}: {tokens}");
        }
    }
}

#[test]
fn a_transcript_of_other_tokens_is_recognised() {
    let held = qwen();
    let is_of = |transcript: &Transcript| transcript.is_of(&held.tokens);
    assert!(is_of(&held.transcript));
    let mut changed = held.transcript.clone();
    changed.special[1] += 1;
    assert!(!is_of(&changed), "no special token is there");
    changed.clone_from(&held.transcript);
    changed.special.pop();
    assert!(!is_of(&changed), "a special token without a place");
    changed.clone_from(&held.transcript);
    changed.joint = (usize::MAX, 0);
    assert!(!is_of(&changed), "a joint outside of the text");
    // Cut there, text and tokens would not have the same special tokens.
    changed.joint = (held.transcript.text.text().len(), 0);
    assert!(!is_of(&changed), "a joint at the end of the text alone");
    changed.joint = (0, held.tokens.len());
    assert!(!is_of(&changed), "a joint at the end of the tokens alone");
    assert!(!held.transcript.is_of(&held.tokens[1..]));
    let text = serde_json::to_string(&held.transcript).expect("JSON");
    let changed = text.replacen("\"start\":0", "\"start\":9999", 1);
    let changed: Transcript = serde_json::from_str(&changed).expect("JSON");
    assert!(!is_of(&changed), "a special token outside of the text");
}
