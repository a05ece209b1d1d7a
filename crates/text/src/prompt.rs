//! A conversation to the token ids of a prompt, in which only the template makes special tokens.
//!
//! The rendered text is parsed for special tokens, since that is how templates write them. What came with the
//! conversation must not count: whoever writes `<|im_end|>` in a message would otherwise end it and go on in
//! another role. So before rendering, each such spelling in the conversation is broken up by a marker, a
//! private-use character that occurs nowhere in it, put after its first character. The rest of the text is
//! as it was, so templates that look into it (`'</think>' in content`, `split`, `trim`) work as ever, and
//! after the special tokens of the rendering are found ([`ChatText`]) the markers are removed: without a broken
//! spelling the ids are exactly those of the rendered text.
//!
//! What is broken up:
//! * in all strings, names of keys included: control and unknown tokens, and user-defined ones that look like
//!   control tokens (`<|…|>`);
//! * outside of the assistant's messages also the user-defined tokens that the template itself writes, such
//!   as `<tool_call>` or `</think>`: they are structure to this template;
//! * in the assistant's messages not the tags that the template looks for there, such as `</think>` in
//!   `content.split('</think>')`: they are the model's own words, and the template parses them.
//!
//! `bos_token`, `eos_token`, `unk_token` and `pad_token` of the context are the model's and stay as they are.
//!
//! A template can still join what was apart: with `replace('/think', '')`, `<|im_/thinkend|>` becomes a
//! spelling. So the conversation is rendered a second time with a marker after every character that starts any
//! spelling, which nothing can undo. If that rendering has other special tokens, it is the one that counts.

use serde_json::Value;

use crate::special::Spellings;
use crate::{ChatTemplate, ChatText, RenderTime, TemplateError, TokenType, Tokenizer};

/// Renders `context` with `template` and encodes the result: [`render_chat`], then [`ChatText::encode_from`] the
/// beginning.
///
/// # Errors
/// As [`render_chat`].
pub fn encode_chat(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    context: Value,
    now: &RenderTime,
) -> Result<Vec<u32>, TemplateError> {
    let rendered = render_chat(tokenizer, template, context, now)?;
    Ok(rendered.encode_from(tokenizer, 0).ids)
}

/// Renders `context` with `template`. `bos_token` and `eos_token` are added to the context if it lacks them.
///
/// # Errors
/// As [`ChatTemplate::render`], and [`TemplateError::NoMarker`].
pub fn render_chat(
    tokenizer: &Tokenizer,
    template: &ChatTemplate,
    context: Value,
    now: &RenderTime,
) -> Result<ChatText, TemplateError> {
    let Value::Object(mut context) = context else {
        return Err(TemplateError::Context);
    };
    for (key, id) in [
        ("bos_token", tokenizer.bos()),
        ("eos_token", tokenizer.eos()),
    ] {
        let spelled = id.and_then(|id| tokenizer.token_bytes(id));
        if let Some(text) = spelled.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
            context.entry(key).or_insert_with(|| text.into());
        }
    }
    Guard::new(tokenizer, template, &context)?.render(template, &context, now)
}

type Context = serde_json::Map<String, Value>;

/// Keys of the context whose values are the model's.
const TRUSTED: [&str; 4] = ["bos_token", "eos_token", "unk_token", "pad_token"];

/// Keeps what came with a conversation from becoming special tokens.
struct Guard<'a> {
    tokenizer: &'a Tokenizer,
    marker: char,
    /// Broken up in the assistant's messages, and in all other strings.
    assistant: Spellings,
    others: Spellings,
    /// Characters that start a spelling, except letters, digits and spaces.
    initials: Vec<char>,
    /// Control tokens that only the template may write, in ascending order.
    forbidden: Vec<u32>,
}

/// How thoroughly spellings are broken up.
#[derive(Clone, Copy, PartialEq)]
enum Breaking {
    /// After the first character of each spelling.
    Spellings,
    /// After each character that could start one.
    Initials,
}

impl<'a> Guard<'a> {
    fn new(
        tokenizer: &'a Tokenizer,
        template: &ChatTemplate,
        context: &Context,
    ) -> Result<Self, TemplateError> {
        let source = template.source();
        let mut assistant = Vec::new();
        let mut others = Vec::new();
        let mut forbidden = Vec::new();
        for (id, ty, text) in tokenizer.special_tokens() {
            let is_control = ty != TokenType::UserDefined || looks_like_control(text);
            if is_control && (tokenizer.is_end_of_generation(id) || !is_sought_tag(text, source)) {
                forbidden.push(id);
                assistant.push((text, id));
            }
            if is_control || (!text.trim().is_empty() && source.contains(text)) {
                others.push((text, id));
            }
        }
        // Marked letters and spaces would change names such as roles, and trimming.
        let initials = others.iter().filter_map(|(text, _)| text.chars().next());
        let mut initials: Vec<char> = initials
            .filter(|c| !c.is_alphanumeric() && !c.is_whitespace())
            .collect();
        initials.sort_unstable();
        initials.dedup();
        let compile = |tokens| {
            Spellings::new(tokens).map_err(|e| TemplateError::SpecialTokens(e.to_string()))
        };
        Ok(Guard {
            tokenizer,
            marker: unused_character(context, source).ok_or(TemplateError::NoMarker)?,
            assistant: compile(assistant)?,
            others: compile(others)?,
            initials,
            forbidden,
        })
    }

    fn render(
        &self,
        template: &ChatTemplate,
        context: &Context,
        now: &RenderTime,
    ) -> Result<ChatText, TemplateError> {
        let render = |context| -> Result<ChatText, TemplateError> {
            let marked = template.render(Value::Object(context), now)?;
            Ok(ChatText::parse(self.tokenizer, &marked, self.marker))
        };
        let guarded = self.guarded(context, Breaking::Initials);
        let usual = self.guarded(context, Breaking::Spellings);
        if usual == guarded {
            return render(usual);
        }
        let (strict, usual) = (render(guarded)?, render(usual)?);
        if self.control_tokens(&usual).eq(self.control_tokens(&strict)) {
            Ok(usual)
        } else {
            Ok(strict)
        }
    }

    fn control_tokens<'t>(&'t self, rendered: &'t ChatText) -> impl Iterator<Item = u32> {
        let ids = rendered.special().iter().map(|token| token.id);
        ids.filter(|id| self.forbidden.binary_search(id).is_ok())
    }

    fn guarded(&self, context: &Context, breaking: Breaking) -> Context {
        let entries = context.iter().map(|(key, value)| {
            let value = match (key.as_str(), value) {
                (key, value) if TRUSTED.contains(&key) => value.clone(),
                ("messages", Value::Array(messages)) => messages
                    .iter()
                    .map(|message| self.guarded_message(message, breaking))
                    .collect(),
                (_, value) => self.guarded_value(value, &self.others, breaking),
            };
            (key.clone(), value)
        });
        entries.collect()
    }

    fn guarded_message(&self, message: &Value, breaking: Breaking) -> Value {
        let is_assistant = message.get("role").is_some_and(|role| role == "assistant");
        let spellings = if is_assistant {
            &self.assistant
        } else {
            &self.others
        };
        self.guarded_value(message, spellings, breaking)
    }

    fn guarded_value(&self, value: &Value, spellings: &Spellings, breaking: Breaking) -> Value {
        match value {
            Value::String(text) => self.guarded_text(text, spellings, breaking).into(),
            Value::Array(items) => items
                .iter()
                .map(|item| self.guarded_value(item, spellings, breaking))
                .collect(),
            Value::Object(entries) => {
                let guarded = entries.iter().map(|(key, value)| {
                    let key = self.guarded_text(key, spellings, breaking);
                    (key, self.guarded_value(value, spellings, breaking))
                });
                guarded.collect()
            }
            other => other.clone(),
        }
    }

    fn guarded_text(&self, text: &str, spellings: &Spellings, breaking: Breaking) -> String {
        let next = |from: usize| {
            let spelling = spellings.find_from(text, from);
            let initial = match breaking {
                Breaking::Spellings => None,
                Breaking::Initials => text[from..]
                    .find(self.initials.as_slice())
                    .map(|at| from + at),
            };
            spelling.into_iter().chain(initial).min()
        };
        let mut guarded = String::with_capacity(text.len());
        let mut done = 0;
        // Spellings may overlap, so the search goes on right after the first character.
        while let Some(start) = next(done) {
            let end = start + text[start..].chars().next().map_or(1, char::len_utf8);
            guarded.push_str(&text[done..end]);
            guarded.push(self.marker);
            done = end;
        }
        guarded.push_str(&text[done..]);
        guarded
    }
}

/// Whether a user-defined token is spelled as only control tokens are.
fn looks_like_control(text: &str) -> bool {
    let bars = [("<|", "|>"), ("<｜", "｜>")];
    bars.iter()
        .any(|(open, close)| text.starts_with(open) && text.ends_with(close))
}

/// Whether `text` is a tag, `<name>` or `</name>`, that the template `source` looks for in messages: an
/// argument of a search method, or the left side of `in`.
fn is_sought_tag(text: &str, source: &str) -> bool {
    let name = text
        .strip_prefix('<')
        .map(|t| t.strip_prefix('/').unwrap_or(t));
    if !name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return false;
    }
    const SEARCHES: [&str; 6] = [
        "split(",
        "startswith(",
        "endswith(",
        "replace(",
        "find(",
        "partition(",
    ];
    source.match_indices(text).any(|(start, _)| {
        let (before, after) = (&source[..start], &source[start + text.len()..]);
        let Some(quote) = before
            .chars()
            .next_back()
            .filter(|c| matches!(c, '\'' | '"'))
        else {
            return false;
        };
        let before = before[..before.len() - 1].trim_end();
        let Some(after) = after.strip_prefix(quote) else {
            return false;
        };
        let is_left_of_in = after
            .trim_start()
            .strip_prefix("in")
            .or(after.trim_start().strip_prefix("not in"));
        is_left_of_in.is_some_and(|rest| rest.starts_with(char::is_whitespace))
            || SEARCHES.iter().any(|search| before.ends_with(search))
    })
}

/// A private-use character that occurs neither in `context` nor in `source`.
fn unused_character(context: &Context, source: &str) -> Option<char> {
    let mut used: Vec<char> = source.chars().filter(|c| is_candidate(*c)).collect();
    for (key, value) in context {
        used.extend(key.chars().filter(|c| is_candidate(*c)));
        collect_candidates(value, &mut used);
    }
    used.sort_unstable();
    used.dedup();
    let mut used = used.into_iter().peekable();
    let candidates = FIRST_CANDIDATES.chain(LAST_CANDIDATES);
    let mut free = candidates.filter(|c| used.next_if_eq(c).is_none());
    free.next()
}

/// The private-use characters of planes 15 and 16.
const FIRST_CANDIDATES: std::ops::RangeInclusive<char> = '\u{F0000}'..='\u{FFFFD}';
const LAST_CANDIDATES: std::ops::RangeInclusive<char> = '\u{100000}'..='\u{10FFFD}';

fn is_candidate(c: char) -> bool {
    FIRST_CANDIDATES.contains(&c) || LAST_CANDIDATES.contains(&c)
}

fn collect_candidates(value: &Value, used: &mut Vec<char>) {
    match value {
        Value::String(text) => used.extend(text.chars().filter(|c| is_candidate(*c))),
        Value::Array(items) => items.iter().for_each(|item| collect_candidates(item, used)),
        Value::Object(entries) => {
            for (key, value) in entries {
                used.extend(key.chars().filter(|c| is_candidate(*c)));
                collect_candidates(value, used);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
