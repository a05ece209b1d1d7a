//! Translates a Metal source into C++ for clang.
//!
//! MSL is C++ with address spaces, attributes and a library. The library is the shim's; address spaces
//! are macros there. What is left for this module: entry points for kernels, function constants, and
//! threadgroup variables. Edits keep every line where it is, so that debug information and compiler
//! messages name the source as written.

mod attributes;
mod declarations;
mod edits;
mod emit;
pub(crate) mod lexer;
mod literals;
pub(crate) mod macros;
mod parameter;
mod scan;
mod strict;

use std::collections::HashMap;

use minfer_metal::device::LibrarySource;

use crate::module::SourcePlace;
use scan::Dialect;
pub(crate) use strict::Strict;

/// A source that the front end does not understand.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct FrontError {
    /// File as the source's `#line` directives name it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl FrontError {
    fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let place = place(source, offset);
        FrontError {
            file: place.file,
            line: place.line as usize,
            message: message.into(),
        }
    }
}

/// The place of a byte of a library's text, in the file that it came from.
pub(crate) fn place(source: &str, offset: usize) -> SourcePlace {
    let mut place = SourcePlace {
        file: String::new(),
        line: 0,
        column: 1,
    };
    let before = &source[..offset];
    for line in before.split('\n') {
        place.line += 1;
        if let Some((number, file)) = line_directive(line) {
            // The directive numbers the line after it.
            place.line = number as u32 - 1;
            file.clone_into(&mut place.file);
        }
    }
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    place.column += (offset - start) as u32;
    place
}

/// More lines than any source has: lists by line number stay small.
const MAX_LINE: usize = 1 << 20;

/// The number and file of a `#line` directive.
fn line_directive(line: &str) -> Option<(usize, &str)> {
    let (number, file) = line.strip_prefix("#line ")?.split_once(' ')?;
    let number: usize = number.parse().ok()?;
    let possible = (1..=MAX_LINE).contains(&number);
    possible.then(|| (number, file.trim().trim_matches('"')))
}

/// The C++ translation of a library, to be compiled with the shim's headers.
pub fn translate(source: &LibrarySource) -> Result<String, FrontError> {
    let text = source.text();
    let lexed = lexer::lex(text)?;
    let mut unit = scan::scan(text, &lexed.tokens, Dialect::Cpp)?;
    attributes::check(text, &lexed.tokens)?;
    unit.edits.extend(literals::edits(text, &lexed));
    Ok(emit::emit(text, &unit))
}

/// The lines of each file that a source was made of.
pub(crate) fn lines(source: &str) -> HashMap<String, Vec<String>> {
    let mut files: HashMap<String, Vec<String>> = HashMap::new();
    let (mut file, mut at) = (String::new(), 0);
    for line in source.lines() {
        if let Some((number, name)) = line_directive(line) {
            (file, at) = (name.to_owned(), number - 1);
            continue;
        }
        let lines = files.entry(file.clone()).or_default();
        lines.resize(lines.len().max(at + 1), String::new());
        line.clone_into(&mut lines[at]);
        at += 1;
    }
    files
}

#[cfg(test)]
mod tests;
