//! Macros that a source defines.

use std::ops::Range;

use super::lexer::{self, Token};

/// A macro.
pub(crate) struct Macro<'a> {
    pub(crate) name: &'a str,
    pub(crate) parameters: Vec<&'a str>,
    /// What stands in its place.
    pub(crate) body: Vec<Token<'a>>,
}

/// The macros that preprocessor lines of a source define.
pub(crate) fn macros<'a>(source: &'a str, directives: &[Range<usize>]) -> Vec<Macro<'a>> {
    let define = |range: &Range<usize>| definition(range.start, &source[range.clone()]);
    directives.iter().filter_map(define).collect()
}

/// The macro that a preprocessor line at `start` defines. A body that is no whole literals is C++'s business.
fn definition(start: usize, line: &str) -> Option<Macro<'_>> {
    let rest = line.strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("define")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (name, mut body) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
    let mut parameters = Vec::new();
    if let Some(rest) = body.strip_prefix('(') {
        let (list, rest) = rest.split_once(')')?;
        parameters = list.split(',').map(str::trim).collect();
        body = rest;
    }
    let start = start + line.len() - body.len();
    let mut body = lexer::lex(body).ok()?.tokens;
    body.retain(|token| token.text != "\\");
    for token in &mut body {
        token.start += start;
    }
    Some(Macro {
        name,
        parameters,
        body,
    })
}
