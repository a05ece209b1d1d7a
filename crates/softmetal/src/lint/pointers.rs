//! Pointers and references (Metal Shading Language specification, section 4): each names its address space, and
//! none is to a function or member.

use std::collections::HashSet;

use super::finding::LintFinding;
use super::text::{Text, closing, is_at, is_space};
use super::types;
use crate::front::lexer::{Kind, Token, closing_angle};

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    let types = types::declared(&text.tokens);
    for (tokens, parameters) in text.sequences() {
        let mut reader = Reader {
            tokens,
            parameters,
            types: &types,
            declarators: HashSet::new(),
        };
        for (at, token) in tokens.iter().enumerate() {
            if let Some((rule, message)) = reader.at_token(at) {
                found.push(text.finding(token.start, rule, message));
            }
        }
    }
}

struct Reader<'r, 'a> {
    tokens: &'r [Token<'a>],
    /// Of the macro that it is, any of which may stand for an address space.
    parameters: &'r [&'a str],
    types: &'r HashSet<&'a str>,
    /// The `*` and `&` that declare.
    declarators: HashSet<usize>,
}

impl Reader<'_, '_> {
    fn at_token(&mut self, at: usize) -> Option<(&'static str, String)> {
        let token = &self.tokens[at];
        let before = at.checked_sub(1)?;
        if token.is("*") && is_at(self.tokens, Some(before), "::") {
            return Some((
                "member-pointer",
                "Metal has no pointers to members".to_owned(),
            ));
        }
        if token.is("(") {
            return self.bracketed(at);
        }
        // The second mark of `&&` says no more than the first.
        let is_second = token.is("&") && is_at(self.tokens, Some(before), "&");
        if !token.is("*") && !token.is("&") || is_second {
            return None;
        }
        let start = self.type_before(at)?;
        self.declarators.insert(at);
        let is_named = self.has_space(start, at);
        (!is_named).then(|| no_space(token.text, &self.tokens[start..at]))
    }

    fn has_space(&self, start: usize, end: usize) -> bool {
        let mut ty = self.tokens[start..end].iter();
        ty.any(|token| is_space(token) || self.parameters.contains(&token.text))
    }

    /// A bracket after a type: `float (&name)[4]`, `void (*name)(...)`.
    fn bracketed(&mut self, open: usize) -> Option<(&'static str, String)> {
        let tokens = self.tokens;
        let mark = tokens.get(open + 1)?;
        if !mark.is("*") && !mark.is("&") {
            return None;
        }
        let start = self.type_before(open)?;
        let close = closing(tokens, open);
        // What a declarator holds is no more than a name.
        let is_name = |token: &Token<'_>| token.kind == Kind::Word || token.is("&");
        if close > open + 4 || !tokens[open + 2..close].iter().all(is_name) {
            return None;
        }
        if is_at(tokens, Some(close + 1), "(") {
            return Some((
                "function-pointer",
                "kernels have no function pointers: make it a struct with a function, and that a parameter of the \
                 template"
                    .to_owned(),
            ));
        }
        let is_array = is_at(tokens, Some(close + 1), "[");
        let starts_statement = start
            .checked_sub(1)
            .is_none_or(|before| [";", "{", "}"].iter().any(|mark| tokens[before].is(mark)));
        let declares = mark.is("&") || starts_statement || open > start + 1;
        let is_named = self.has_space(start, open);
        (is_array && declares && !is_named).then(|| no_space(mark.text, &tokens[start..open]))
    }

    /// Where the type that ends before a token starts, with its qualifiers.
    fn type_before(&self, end: usize) -> Option<usize> {
        let tokens = self.tokens;
        let mut at = end;
        let mut is_type = false;
        while let Some(before) = at.checked_sub(1) {
            let token = &tokens[before];
            if token.is(">") {
                let mut opens = (0..before)
                    .rev()
                    .take_while(|&open| !tokens[open].is(";"))
                    .filter(|&open| tokens[open].is("<"));
                let open = opens.find(|&open| closing_angle(tokens, open) == Some(before));
                at = open.filter(|&open| open > 0 && tokens[open - 1].kind == Kind::Word)?;
                continue;
            }
            if token.is(")") {
                let mut opens = (1..before)
                    .rev()
                    .take_while(|&open| !tokens[open].is(";"))
                    .filter(|&open| tokens[open].is("("));
                let open = opens.find(|&open| closing(tokens, open) == before);
                let open = open.filter(|&open| tokens[open - 1].is("decltype"));
                let Some(open) = open else {
                    break;
                };
                (at, is_type) = (open - 1, true);
                continue;
            }
            if self.declarators.contains(&before) {
                is_type = true;
                break;
            }
            if token.is("::") {
                at = before;
                continue;
            }
            if token.kind != Kind::Word || types::ENDS.contains(&token.text) {
                break;
            }
            // `a.b * c`, and a value that a type holds.
            let is_member = is_at(tokens, before.checked_sub(1), ".");
            let is_last = at == end
                || tokens[at].is("<")
                    && closing_angle(tokens, at).is_some_and(|close| close + 1 == end);
            let is_qualified = is_at(tokens, before.checked_sub(1), "::");
            if is_member {
                return None;
            }
            let is_name = self.types.contains(token.text) || types::is_built_in(token.text);
            is_type |= is_name && is_last
                || types::QUALIFIERS.contains(&token.text)
                || token.is("typename");
            if is_last && !is_type && !is_qualified && !is_space(token) {
                return None;
            }
            at = before;
        }
        is_type.then_some(at)
    }
}

fn no_space(mark: &str, ty: &[Token<'_>]) -> (&'static str, String) {
    let kind = if mark == "*" { "pointer" } else { "reference" };
    let ty: Vec<_> = ty.iter().map(|token| token.text).collect();
    let message = format!(
        "{kind} to `{}` without an address space: say device, threadgroup, constant or thread",
        ty.join(" ")
            .replace(" :: ", "::")
            .replace(" < ", "<")
            .replace(" >", ">")
    );
    ("address-space", message)
}
