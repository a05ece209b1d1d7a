//! Where variables may be (Metal Shading Language specification, section 4).

use std::ops::Range;

use super::constants;
use super::finding::LintFinding;
use super::text::{Text, closing, is_at};
use crate::front::lexer::{Kind, Token, closing_angle};

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    for declaration in &text.declarations {
        let tokens = &text.tokens[declaration.range.clone()];
        let is_static = tokens.iter().any(|token| token.is("static"));
        let is_variable = declaration.function.is_none() && is_variable(tokens);
        let in_program = is_variable && (declaration.owner.is_none() || is_static);
        let is_constant = before_value(tokens)
            .iter()
            .any(|token| token.is("constant"));
        if in_program && !is_constant && !constants::is_one(tokens) {
            found.push(text.finding(
                text.tokens[declaration.range.start].start,
                "program-scope",
                "a variable at program scope or static in a type is in constant memory: say constant".into(),
            ));
        }
    }
    for (_, function) in text.functions() {
        if let Some(body) = function.body.clone() {
            local(text, body, function.is_kernel, found);
        }
    }
}

/// Whether a declaration that is no function makes a variable.
fn is_variable(tokens: &[Token<'_>]) -> bool {
    let words = [
        "using",
        "typedef",
        "static_assert",
        "friend",
        "extern",
        "enum",
        "namespace",
        "_Pragma",
    ];
    let Some(first) = tokens.first() else {
        return false;
    };
    let is_other = words.contains(&first.text);
    let skipped = match first.text {
        "template" if is_at(tokens, Some(1), "<") => {
            closing_angle(tokens, 1).map_or(0, |close| close + 1)
        }
        // An explicit instantiation.
        "template" => return false,
        _ => 0,
    };
    let rest = &tokens[skipped..];
    let is_forward = ["struct", "class", "union"]
        .iter()
        .any(|word| is_at(rest, Some(0), word))
        && rest.len() <= 2;
    let starts_other = rest
        .first()
        .is_some_and(|first| words.contains(&first.text));
    let words = rest.iter().filter(|token| token.kind == Kind::Word).count();
    !is_other && !starts_other && !is_forward && words >= 2
}

/// The tokens before a variable's initializer.
fn before_value<'r, 'a>(tokens: &'r [Token<'a>]) -> &'r [Token<'a>] {
    let end = tokens
        .iter()
        .position(|token| token.is("=") || token.is("{"));
    &tokens[..end.unwrap_or(tokens.len())]
}

/// Static and threadgroup variables in a function.
fn local(text: &Text<'_>, body: Range<usize>, is_kernel: bool, found: &mut Vec<LintFinding>) {
    let tokens = &text.tokens;
    for at in body {
        let before = at.checked_sub(1);
        let starts = [";", "{", "}", ")"]
            .iter()
            .any(|mark| is_at(tokens, before, mark));
        if tokens[at].is("static") {
            let end = tokens[at..]
                .iter()
                .position(|token| token.is(";") || token.is("="));
            let specifiers = &tokens[at..at + end.unwrap_or(0)];
            let constant = specifiers.iter().any(|token| token.is("constant"));
            if !constant && !is_at(tokens, before, "constant") {
                found.push(text.finding(
                    tokens[at].start,
                    "program-scope",
                    "a static variable is in constant memory: say constant".into(),
                ));
            }
        } else if tokens[at].is("threadgroup")
            && starts
            && !is_kernel
            && declares_variable(tokens, at)
        {
            found.push(text.finding(
                tokens[at].start,
                "threadgroup-variable",
                "threadgroup variables belong to kernels: declare it there and pass a threadgroup pointer".into(),
            ));
        }
    }
}

/// Whether what starts here is a variable in threadgroup memory, not a pointer into it.
fn declares_variable(tokens: &[Token<'_>], start: usize) -> bool {
    let mut at = start;
    while let Some(token) = tokens.get(at) {
        match token.text {
            "*" | "&" => return false,
            "[" | ";" | "," | "=" => return true,
            "<" => at = closing_angle(tokens, at).unwrap_or(at),
            "(" => {
                let is_declarator = ["*", "&"]
                    .iter()
                    .any(|mark| is_at(tokens, Some(at + 1), mark));
                if is_declarator {
                    return false;
                }
                at = closing(tokens, at);
            }
            _ => {}
        }
        at += 1;
    }
    false
}
