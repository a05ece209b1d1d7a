//! A source as tokens, with its macros and declarations.

use std::collections::HashSet;
use std::ops::Range;

use minfer_metal::device::LibrarySource;

use super::declarations::{self, Declaration, Function};
use super::finding::LintFinding;
use crate::front::lexer::{self, Kind, Token};
use crate::front::macros::{Macro, macros};
use crate::front::{self, FrontError};
use crate::module::SourcePlace;

/// A source to be looked at.
pub(super) struct Text<'a> {
    source: &'a str,
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) macros: Vec<Macro<'a>>,
    /// Preprocessor lines, with those that continue them.
    pub(super) directives: Vec<Range<usize>>,
    pub(super) declarations: Vec<Declaration<'a>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(source: &'a LibrarySource) -> Result<Self, FrontError> {
        let source = source.text();
        let lexed = lexer::lex(source)?;
        let macros = macros(source, &lexed.directives);
        let names: HashSet<_> = macros.iter().map(|one| one.name).collect();
        Ok(Text {
            source,
            declarations: declarations::read(&lexed.tokens, &names),
            tokens: lexed.tokens,
            macros,
            directives: lexed.directives,
        })
    }

    /// Where a byte is, in the file that it came from.
    pub(super) fn place(&self, offset: usize) -> SourcePlace {
        front::place(self.source, offset)
    }

    /// The whole line that a byte is in.
    pub(super) fn line(&self, offset: usize) -> &'a str {
        let start = self.source[..offset].rfind('\n').map_or(0, |end| end + 1);
        let rest = &self.source[start..];
        rest.split_once('\n').map_or(rest, |(line, _)| line)
    }

    /// The bytes of a range.
    pub(super) fn slice(&self, range: Range<usize>) -> &'a str {
        &self.source[range]
    }

    pub(super) fn finding(
        &self,
        offset: usize,
        rule: &'static str,
        message: String,
    ) -> LintFinding {
        LintFinding {
            place: self.place(offset),
            rule,
            message,
        }
    }

    /// Functions, with the declarations that they are.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&Declaration<'a>, &Function<'a>)> {
        let with_function = |one: &'_ Declaration<'a>| one.function.is_some();
        let found = self
            .declarations
            .iter()
            .filter(move |one| with_function(one));
        found.filter_map(|one| Some((one, one.function.as_ref()?)))
    }

    /// The text's tokens, and those of each macro with the names of its parameters.
    pub(super) fn sequences(&self) -> impl Iterator<Item = (&[Token<'a>], &[&'a str])> {
        let bodies = self
            .macros
            .iter()
            .map(|one| (one.body.as_slice(), one.parameters.as_slice()));
        std::iter::once((self.tokens.as_slice(), &[][..])).chain(bodies)
    }
}

/// Whether there is a token at `at` that is `text`.
pub(super) fn is_at(tokens: &[Token<'_>], at: Option<usize>, text: &str) -> bool {
    at.and_then(|at| tokens.get(at))
        .is_some_and(|token| token.is(text))
}

/// Whether tokens follow each other without a space, as those of one operator do.
pub(super) fn is_operator(tokens: &[Token<'_>], at: usize, operator: &str) -> bool {
    let mut end = None;
    operator.char_indices().all(|(i, c)| {
        let token = tokens.get(at + i);
        let fits = token.is_some_and(|token| {
            token.kind == Kind::Mark
                && token.text.starts_with(c)
                && token.text.len() == 1
                && end.is_none_or(|end| end == token.start)
        });
        end = token.map(Token::end);
        fits
    })
}

/// The bracket that belongs to the one at `open`, or the last token.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            _ if token.kind == Kind::Literal => {}
            "(" | "[" | "{" | "[[" => depth += 1,
            ")" | "]" | "}" | "]]" => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return at;
        }
    }
    tokens.len().saturating_sub(1)
}

/// The parts of a range between commas that are in no bracket or angle.
pub(super) fn split(tokens: &[Token<'_>], range: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (range.start, range.start);
    while at < range.end {
        let token = &tokens[at];
        at = match token.text {
            "(" | "[" | "{" | "[[" if token.kind == Kind::Mark => closing(tokens, at) + 1,
            "<" if token.kind == Kind::Mark => {
                lexer::closing_angle(tokens, at).map_or(at, |close| close) + 1
            }
            "," if token.kind == Kind::Mark => {
                parts.push(start..at);
                start = at + 1;
                start
            }
            _ => at + 1,
        };
    }
    if start < range.end {
        parts.push(start..range.end);
    }
    parts
}

/// The names of the address spaces.
pub(super) const SPACES: [&str; 7] = [
    "device",
    "constant",
    "threadgroup",
    "thread",
    "threadgroup_imageblock",
    "ray_data",
    "object_data",
];

/// Whether a token names an address space.
pub(super) fn is_space(token: &Token<'_>) -> bool {
    token.kind == Kind::Word && SPACES.contains(&token.text)
}
