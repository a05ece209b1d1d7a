//! Functions that call themselves (Metal Shading Language specification, section 1.5.4).

use std::collections::{HashMap, HashSet};

use super::declarations::{Declaration, Function};
use super::finding::LintFinding;
use super::text::{Text, closing, is_at, is_operator, split};
use crate::front::lexer::{Kind, Token, closing_angle};

/// A function by the type it belongs to, its name and the count of its parameters. Functions that share all three
/// cannot be told apart here: calls of them are left out.
type Key<'a> = (Option<&'a str>, &'a str, usize);

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    let mut functions: HashMap<Key<'_>, Vec<&Function<'_>>> = HashMap::new();
    for (declaration, function) in text.functions() {
        if function.body.is_some() {
            functions
                .entry(key(text, declaration, function))
                .or_default()
                .push(function);
        }
    }
    functions.retain(|_, same| same.len() == 1);
    let called: HashMap<_, _> = functions
        .iter()
        .map(|(key, same)| (*key, calls(text, key.0, same[0], &functions)))
        .collect();
    for (key, same) in &functions {
        if let Some(path) = way_back(*key, &called) {
            let path: Vec<_> = path.iter().map(|key| format!("`{}`", key.1)).collect();
            found.push(text.finding(
                text.tokens[same[0].at].start,
                "recursion",
                format!("{} calls itself: Metal has no recursion", path.join(" by ")),
            ));
        }
    }
}

fn key<'a>(text: &Text<'a>, declaration: &Declaration<'a>, function: &Function<'a>) -> Key<'a> {
    let parameters = split(&text.tokens, function.parameters.clone()).len();
    (declaration.owner, function.name, parameters)
}

/// The functions that one calls.
fn calls<'a>(
    text: &Text<'a>,
    owner: Option<&'a str>,
    function: &Function<'a>,
    known: &HashMap<Key<'a>, Vec<&Function<'a>>>,
) -> HashSet<Key<'a>> {
    let body = function.body.clone().unwrap_or_default();
    let mut found = HashSet::new();
    let own = &text.tokens[..body.end];
    for at in body {
        found.extend(call(own, at, owner, known));
        let used = text.macros.iter().find(|one| own[at].is(one.name));
        let body = used.map_or(&[][..], |one| one.body.as_slice());
        found.extend((0..body.len()).filter_map(|at| call(body, at, owner, known)));
    }
    found
}

/// The function that a name followed by arguments calls.
fn call<'a>(
    tokens: &[Token<'a>],
    at: usize,
    owner: Option<&'a str>,
    known: &HashMap<Key<'a>, Vec<&Function<'a>>>,
) -> Option<Key<'a>> {
    let token = &tokens[at];
    if token.kind != Kind::Word {
        return None;
    }
    let mut open = at + 1;
    if is_at(tokens, Some(open), "<") {
        open = closing_angle(tokens, open)? + 1;
    }
    if !is_at(tokens, Some(open), "(") {
        return None;
    }
    let before = at.checked_sub(1);
    let arrow = at
        .checked_sub(2)
        .filter(|&arrow| is_operator(tokens, arrow, "->"));
    let is_this = arrow.is_some_and(|arrow| is_at(tokens, arrow.checked_sub(1), "this"));
    // What an object's type is, is not known.
    if is_at(tokens, before, ".") || arrow.is_some() && !is_this {
        return None;
    }
    let count = split(tokens, open + 1..closing(tokens, open)).len();
    if is_at(tokens, before, "::") {
        let scope = at.checked_sub(2).map(|scope| tokens[scope].text)?;
        let key = (Some(scope), token.text, count);
        return known.contains_key(&key).then_some(key);
    }
    let candidates = [(owner, token.text, count), (None, token.text, count)];
    candidates.into_iter().find(|key| known.contains_key(key))
}

/// A way from a function to itself.
fn way_back<'a>(
    from: Key<'a>,
    called: &HashMap<Key<'a>, HashSet<Key<'a>>>,
) -> Option<Vec<Key<'a>>> {
    let mut seen = HashSet::new();
    let mut paths = vec![vec![from]];
    while let Some(path) = paths.pop() {
        let mut next: Vec<_> = called.get(path.last()?)?.iter().collect();
        next.sort();
        for key in next {
            if *key == from {
                return Some(path);
            }
            if seen.insert(*key) {
                paths.push([path.as_slice(), &[*key]].concat());
            }
        }
    }
    None
}
