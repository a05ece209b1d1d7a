//! A source as tokens, with the macros that it defines.

use std::ops::Range;

use minfer_metal::device::LibrarySource;

use crate::front::lexer::{self, Token};
use crate::front::{self, FrontError};
use crate::module::SourcePlace;

/// A source to be looked at.
pub(super) struct Text<'a> {
    pub(super) source: &'a str,
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) macros: Vec<Macro<'a>>,
}

/// A macro that the source defines.
pub(super) struct Macro<'a> {
    pub(super) name: &'a str,
    /// What stands in its place.
    pub(super) body: Vec<Token<'a>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(source: &'a LibrarySource) -> Result<Self, FrontError> {
        let source = source.text();
        let lexed = lexer::lex(source)?;
        let define = |range: &Range<usize>| definition(range.start, &source[range.clone()]);
        Ok(Text {
            source,
            tokens: lexed.tokens,
            macros: lexed.directives.iter().filter_map(define).collect(),
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
}

/// The macro that a preprocessor line at `start` defines. A body that is no whole literals is C++'s business.
fn definition(start: usize, line: &str) -> Option<Macro<'_>> {
    let rest = line.strip_prefix('#')?.trim_start();
    let rest = rest.strip_prefix("define")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (name, mut body) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
    if let Some(parameters) = body.strip_prefix('(') {
        body = parameters.split_once(')')?.1;
    }
    let start = start + line.len() - body.len();
    let mut body = lexer::lex(body).ok()?.tokens;
    body.retain(|token| token.text != "\\");
    for token in &mut body {
        token.start += start;
    }
    Some(Macro { name, body })
}
