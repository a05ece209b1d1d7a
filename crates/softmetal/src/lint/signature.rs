//! Signatures of kernels, as they are written.

use std::ops::Range;

use super::text::{Text, closing, is_at, is_space, split};
use crate::front::lexer::{Kind, Token};

/// A parameter of a kernel.
pub(super) struct Parameter<'a> {
    /// Byte of its first token.
    pub(super) start: usize,
    pub(super) name: &'a str,
    /// The tokens of its type and name.
    pub(super) declaration: Vec<Token<'a>>,
    pub(super) attributes: Vec<Attribute<'a>>,
}

/// An attribute of a parameter.
pub(super) struct Attribute<'a> {
    /// Byte of its name.
    pub(super) start: usize,
    pub(super) name: &'a str,
    /// The tokens in its brackets.
    pub(super) argument: Option<Vec<Token<'a>>>,
}

impl<'a> Parameter<'a> {
    /// The address space in its type.
    pub(super) fn space(&self) -> Option<&'a str> {
        self.declaration
            .iter()
            .find(|token| is_space(token))
            .map(|token| token.text)
    }

    pub(super) fn is_pointer(&self) -> bool {
        self.declaration
            .iter()
            .any(|token| token.is("*") || token.is("&"))
    }

    /// Its type without qualifiers, as written.
    pub(super) fn value_type(&self) -> String {
        let words = self.declaration.iter().filter(|token| {
            let is_qualifier = ["const", "volatile", "metal", "::"].contains(&token.text);
            !is_qualifier && token.text != self.name
        });
        words.map(|token| token.text).collect::<Vec<_>>().join(" ")
    }
}

/// The parameters in a range of tokens.
pub(super) fn parameters<'a>(text: &Text<'a>, range: Range<usize>) -> Vec<Parameter<'a>> {
    let parts = split(&text.tokens, range);
    parts
        .into_iter()
        .map(|part| parameter(&text.tokens, part))
        .collect()
}

fn parameter<'a>(tokens: &[Token<'a>], range: Range<usize>) -> Parameter<'a> {
    let mut declaration = Vec::new();
    let mut attributes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        if tokens[at].is("[[") {
            let close = closing(tokens, at);
            let parts = split(tokens, at + 1..close).into_iter();
            let found = parts.map(|part| attribute(tokens, part));
            // It says whether the parameter is there, not what it is bound to.
            attributes.extend(found.filter(|one| one.name != "function_constant"));
            at = close + 1;
        } else {
            declaration.push(tokens[at]);
            at += 1;
        }
    }
    // In `T (&name)[N]` too, the name is the last word outside of square brackets.
    let mut depth = 0;
    let mut name = "";
    for token in &declaration {
        match token.text {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ if token.kind == Kind::Word && depth == 0 => name = token.text,
            _ => {}
        }
    }
    Parameter {
        start: tokens[range.start].start,
        name,
        declaration,
        attributes,
    }
}

fn attribute<'a>(tokens: &[Token<'a>], range: Range<usize>) -> Attribute<'a> {
    let name = &tokens[range.start];
    let has_argument = is_at(tokens, Some(range.start + 1), "(");
    Attribute {
        start: name.start,
        name: name.text,
        argument: has_argument.then(|| {
            let close = closing(tokens, range.start + 1);
            tokens[range.start + 2..close.max(range.start + 2)].to_vec()
        }),
    }
}

/// The value of an index: numbers, and macros that stand for numbers, with `+` between.
pub(super) fn integer(text: &Text<'_>, tokens: &[Token<'_>]) -> Option<u64> {
    integer_within(text, tokens, 8)
}

fn integer_within(text: &Text<'_>, tokens: &[Token<'_>], depth: usize) -> Option<u64> {
    let depth = depth.checked_sub(1)?;
    if tokens.first()?.is("(") && closing(tokens, 0) + 1 == tokens.len() {
        return integer_within(text, &tokens[1..tokens.len() - 1], depth);
    }
    let mut sum = 0u64;
    for part in tokens.split(|token| token.is("+")) {
        let value = match part {
            [number] if number.kind == Kind::Literal => literal(number.text)?,
            [name] => {
                let known = text.macros.iter().find(|one| one.name == name.text)?;
                integer_within(text, &known.body, depth)?
            }
            _ => return None,
        };
        sum = sum.checked_add(value)?;
    }
    Some(sum)
}

fn literal(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
    {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => digits.parse().ok(),
    }
}
