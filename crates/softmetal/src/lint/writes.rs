//! Writes to constant memory.

use std::ops::Range;

use super::finding::LintFinding;
use super::text::{Text, closing, is_at, is_operator, split};
use crate::front::lexer::{Kind, Token};

/// A pointer or reference to constant memory.
struct Constant<'a> {
    name: &'a str,
    /// The byte where it is declared.
    start: usize,
    is_pointer: bool,
}

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    for (_, function) in text.functions() {
        let Some(body) = function.body.clone() else {
            continue;
        };
        let parameters = split(&text.tokens, function.parameters.clone());
        let parameters = parameters
            .into_iter()
            .filter_map(|part| constant(&text.tokens, part));
        let known: Vec<_> = parameters
            .chain(locals(&text.tokens, body.clone()))
            .collect();
        for at in body {
            let token = &text.tokens[at];
            let constant = known
                .iter()
                .find(|constant| token.is(constant.name) && token.start != constant.start);
            let is_own = ![".", "::"]
                .iter()
                .any(|mark| is_at(&text.tokens, at.checked_sub(1), mark))
                && !is_arrow(&text.tokens, at);
            if constant.is_some_and(|constant| is_own && is_written(&text.tokens, at, constant)) {
                found.push(text.finding(
                    token.start,
                    "constant-write",
                    format!(
                        "`{}` is in constant memory, which kernels only read",
                        token.text
                    ),
                ));
            }
        }
    }
}

/// Whether an arrow stands before a token.
fn is_arrow(tokens: &[Token<'_>], at: usize) -> bool {
    at.checked_sub(2)
        .is_some_and(|arrow| is_operator(tokens, arrow, "->"))
}

/// What a parameter or local declares, if it is `constant T* name` or `constant T& name`.
fn constant<'a>(tokens: &[Token<'a>], range: Range<usize>) -> Option<Constant<'a>> {
    let part = &tokens[range];
    let space = part.iter().position(|token| token.is("constant"))?;
    let mark = part
        .iter()
        .rposition(|token| token.is("*") || token.is("&"))?;
    let name = part.get(mark + 1..)?.iter().find(|token| {
        token.kind == Kind::Word && !["const", "constant", "thread", "device"].contains(&token.text)
    })?;
    (space < mark).then_some(Constant {
        name: name.text,
        start: name.start,
        is_pointer: part[mark].is("*"),
    })
}

fn locals<'a>(tokens: &[Token<'a>], body: Range<usize>) -> Vec<Constant<'a>> {
    let statements = tokens[body.clone()]
        .iter()
        .enumerate()
        .filter(|(_, token)| token.is("constant"))
        .filter_map(|(at, _)| {
            let start = body.start + at;
            let end = tokens[start..body.end]
                .iter()
                .position(|token| ["=", ";", ",", ")", "{"].iter().any(|mark| token.is(mark)))?;
            // A cast has no name.
            constant(tokens, start..start + end)
        });
    statements.collect()
}

/// Whether an object reached from the name at `at` is assigned to.
fn is_written(tokens: &[Token<'_>], at: usize, constant: &Constant<'_>) -> bool {
    let mut end = at + 1;
    loop {
        if is_at(tokens, Some(end), "[") {
            end = closing(tokens, end) + 1;
        } else if is_at(tokens, Some(end), ".") {
            end += 2;
        } else if is_operator(tokens, end, "->") {
            end += 3;
        } else {
            break;
        }
    }
    let before = |count: usize| at.checked_sub(count);
    let steps = |mark: &str| is_at(tokens, before(1), mark) && is_at(tokens, before(2), mark);
    let dereferenced = is_at(tokens, before(1), "*")
        && before(2).is_some_and(|before| {
            let before = &tokens[before];
            [";", "{", "}", "(", ")"].iter().any(|mark| before.is(mark))
        });
    // A pointer itself is the thread's.
    let is_object = !constant.is_pointer || end > at + 1 || dereferenced;
    is_object && (is_assignment(tokens, end) || steps("+") || steps("-"))
}

/// Whether an operator that changes its left side is here.
fn is_assignment(tokens: &[Token<'_>], at: usize) -> bool {
    let is_plain = is_operator(tokens, at, "=") && !is_operator(tokens, at, "==");
    let others = [
        "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--",
    ];
    is_plain
        || others
            .iter()
            .any(|operator| is_operator(tokens, at, operator))
}
