//! What Metal leaves out of C++ (Metal Shading Language specification, section 1.5.4), and what it does not have.
//!
//! Version 3.1, the first with `bfloat`, is taken as the measure.

use super::finding::LintFinding;
use super::text::{Text, closing, is_at};
use crate::front::lexer::{Kind, Token};

/// Words with the rule that they break, and why.
const WORDS: [(&str, &str, &str); 19] = [
    ("double", "double", "Metal has no double: use float"),
    ("goto", "goto", "Metal has no goto"),
    ("virtual", "virtual", "Metal has no virtual functions"),
    ("new", "allocation", "kernels cannot allocate memory"),
    ("delete", "allocation", "kernels cannot free memory"),
    ("try", "exceptions", "Metal has no exceptions"),
    ("catch", "exceptions", "Metal has no exceptions"),
    ("throw", "exceptions", "Metal has no exceptions"),
    (
        "dynamic_cast",
        "type-identification",
        "Metal has no dynamic_cast",
    ),
    ("typeid", "type-identification", "Metal has no typeid"),
    (
        "thread_local",
        "storage",
        "Metal has no thread_local storage",
    ),
    ("register", "storage", "Metal has no register storage"),
    ("asm", "assembly", "Metal has no inline assembly"),
    ("__asm", "assembly", "Metal has no inline assembly"),
    ("__asm__", "assembly", "Metal has no inline assembly"),
    ("malloc", "allocation", "kernels cannot allocate memory"),
    ("free", "allocation", "kernels cannot free memory"),
    (
        "setjmp",
        "exceptions",
        "Metal has no jumps out of functions",
    ),
    (
        "longjmp",
        "exceptions",
        "Metal has no jumps out of functions",
    ),
];

/// Base types that say something about a type and hold nothing.
const TRAITS: [&str; 4] = [
    "true_type",
    "false_type",
    "bool_constant",
    "integral_constant",
];

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    for (tokens, _) in text.sequences() {
        for at in 0..tokens.len() {
            if let Some((rule, message)) = at_token(tokens, at) {
                found.push(text.finding(tokens[at].start, rule, message));
            }
        }
    }
}

fn at_token(tokens: &[Token<'_>], at: usize) -> Option<(&'static str, String)> {
    let token = &tokens[at];
    match token.kind {
        Kind::Literal => literal(token.text),
        Kind::Mark if token.text == "[" && is_lambda(tokens, at) => Some((
            "lambda",
            "Metal 3.1 has no lambda expressions: use a struct with a function".into(),
        )),
        Kind::Mark => None,
        Kind::Word => word(tokens, at),
    }
}

fn word(tokens: &[Token<'_>], at: usize) -> Option<(&'static str, String)> {
    let text = tokens[at].text;
    let before = at.checked_sub(1);
    let after = Some(at + 1);
    let is_member = is_at(tokens, before, ".") || is_at(tokens, before, "::");
    let is_deleted = text == "delete" && is_at(tokens, before, "=");
    if let Some((_, rule, why)) = WORDS.iter().find(|(word, ..)| *word == text) {
        let is_call = ["malloc", "free", "setjmp", "longjmp"].contains(&text);
        let allowed = is_deleted || is_call && (is_member || !is_at(tokens, after, "("));
        return (!allowed).then(|| (*rule, (*why).to_owned()));
    }
    match text {
        "long" if is_at(tokens, after, "long") => Some((
            "long-long",
            "Metal has no long long: long has 64 bits".into(),
        )),
        "noexcept" if is_at(tokens, after, "(") => {
            Some(("noexcept", "Metal has no operator noexcept".into()))
        }
        "std" if is_at(tokens, after, "::") => Some((
            "standard-library",
            "Metal has no C++ standard library: what there is of it is in namespace metal".into(),
        )),
        "struct" | "class" => derived(tokens, at),
        _ if text.starts_with("__builtin_")
            || text.starts_with("__metal_")
            || text.starts_with("air_") =>
        {
            Some((
                "private-built-in",
                format!("`{text}` belongs to a compiler, not to Metal: it may change or go"),
            ))
        }
        _ => None,
    }
}

fn literal(text: &str) -> Option<(&'static str, String)> {
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let suffix = text.trim_end_matches(['u', 'U']).to_ascii_lowercase();
    (is_number && suffix.ends_with("ll")).then(|| {
        (
            "long-long",
            format!("`{text}`: Metal has no long long, long has 64 bits"),
        )
    })
}

/// A class with bases, other than traits.
fn derived(tokens: &[Token<'_>], at: usize) -> Option<(&'static str, String)> {
    if is_at(tokens, at.checked_sub(1), "enum") {
        return None;
    }
    let rest = &tokens[at + 1..];
    let end = rest
        .iter()
        .position(|token| ["{", ";", ")", "=", ","].iter().any(|mark| token.is(mark)))?;
    let colon = rest[..end].iter().position(|token| token.is(":"))?;
    let is_trait = rest[colon..end]
        .iter()
        .any(|token| TRAITS.contains(&token.text));
    (rest[end].is("{") && !is_trait).then(|| {
        (
            "derived-class",
            "Metal 3.1 has no derived classes: make the base a member".to_owned(),
        )
    })
}

/// Whether a square bracket starts a lambda expression: it follows no value, and a body or parameters follow.
fn is_lambda(tokens: &[Token<'_>], at: usize) -> bool {
    let follows_value = at.checked_sub(1).is_some_and(|before| {
        let before = &tokens[before];
        match before.kind {
            Kind::Word => !["return", "case", "else"].contains(&before.text),
            Kind::Literal => true,
            Kind::Mark => [")", "]", ">", "&", "*"].contains(&before.text),
        }
    });
    let close = closing(tokens, at);
    let has_body = ["(", "{"]
        .iter()
        .any(|mark| is_at(tokens, Some(close + 1), mark));
    !follows_value && has_body
}
