//! A source as tokens, with the macros that it defines.

use minfer_metal::device::LibrarySource;

use crate::front::lexer::{self, Token};
use crate::front::macros::{Macro, macros};
use crate::front::{self, FrontError};
use crate::module::SourcePlace;

/// A source to be looked at.
pub(super) struct Text<'a> {
    pub(super) source: &'a str,
    pub(super) tokens: Vec<Token<'a>>,
    pub(super) macros: Vec<Macro<'a>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(source: &'a LibrarySource) -> Result<Self, FrontError> {
        let source = source.text();
        let lexed = lexer::lex(source)?;
        Ok(Text {
            source,
            tokens: lexed.tokens,
            macros: macros(source, &lexed.directives),
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
