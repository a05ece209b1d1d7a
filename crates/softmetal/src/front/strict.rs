//! Writes a translation to C++ for OpenCL, which knows address spaces. It is only parsed.

use std::collections::HashSet;
use std::ops::Range;

use minfer_metal::device::LibrarySource;

use super::declarations::Edit;
use super::edits::Edited;
use super::lexer::{self, Kind, Token, closing_angle, first_of_name};
use super::macros::macros;
use super::scan::{self, Dialect};
use super::{FrontError, place};
use crate::module::SourcePlace;
use crate::shim;

/// A translation, and the way back from its lines.
pub(crate) struct Strict<'a> {
    source: &'a str,
    edited: Edited,
    /// The whole text for the compiler.
    pub(crate) unit: String,
}

/// Element types of vectors.
const ELEMENTS: [&str; 11] = [
    "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat", "float",
];

impl<'a> Strict<'a> {
    pub(crate) fn new(source: &'a LibrarySource) -> Result<Self, FrontError> {
        let source = source.text();
        let lexed = lexer::lex(source)?;
        let mut edits = scan::scan(source, &lexed.tokens, Dialect::OpenCl)?.edits;
        let names = names(&lexed.tokens);
        values(&lexed.tokens, &names, &mut edits);
        for one in macros(source, &lexed.directives) {
            values(&one.body, &names, &mut edits);
        }
        // Includes are the prelude's, and lines are counted in this text.
        let dropped = lexed.directives.into_iter().filter(|range| {
            let line = source[range.start + 1..range.end].trim_start();
            line.starts_with("include") || line.starts_with("line")
        });
        edits.extend(dropped.map(|range| Edit {
            range,
            text: String::new(),
        }));
        let edited = Edited::new(source, &edits);
        let unit = shim::STRICT.concat() + &edited.text;
        Ok(Strict {
            source,
            edited,
            unit,
        })
    }

    /// Where in the source a line and column, from 1, of the unit are; `None` in the prelude.
    pub(crate) fn place(&self, line: usize, column: usize) -> Option<SourcePlace> {
        let prelude: usize = shim::STRICT
            .iter()
            .map(|text| text.matches('\n').count())
            .sum();
        let before = line.checked_sub(prelude + 1)?;
        let lines = self.edited.text.split_inclusive('\n').take(before);
        let start: usize = lines.map(str::len).sum();
        let offset = (start + column.saturating_sub(1)).min(self.edited.text.len());
        Some(place(self.source, self.edited.origin(offset)))
    }
}

/// Names that may stand for a vector, besides those of the language: those that the source gives to types, and
/// parameters of templates.
fn names<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    let mut names = HashSet::new();
    for (at, window) in tokens.windows(3).enumerate() {
        let [first, second, third] = window else {
            continue;
        };
        let is_parameter = first.is("<") || first.is(",");
        if is_parameter && (second.is("typename") || second.is("class")) {
            names.insert(third.text);
        } else if first.is("using") && third.is("=") {
            names.insert(second.text);
        } else if first.is("typedef") {
            let end = tokens[at..].iter().position(|token| token.is(";"));
            names.extend(end.map(|end| tokens[at + end - 1].text));
        }
    }
    names
}

fn is_vector(name: &str) -> bool {
    let name = name.strip_prefix("packed_").unwrap_or(name);
    let element = name.trim_end_matches(['2', '3', '4']);
    // Metal also converts halves and bfloats to each other.
    let is_scalar = element.len() == name.len() && ["half", "bfloat"].contains(&name);
    is_scalar || element.len() + 1 == name.len() && ELEMENTS.contains(&element)
}

/// The last token of the vector type whose name is here.
fn type_end(tokens: &[Token<'_>], at: usize, names: &HashSet<&str>) -> Option<usize> {
    let name = &tokens[at];
    let known = is_vector(name.text)
        || ["vec", "packed_vec"].contains(&name.text)
        || names.contains(name.text);
    if name.kind != Kind::Word || !known {
        return None;
    }
    if !tokens.get(at + 1)?.is("<") {
        return Some(at);
    }
    closing_angle(tokens, at + 1)
}

/// Makes constructors and casts of vectors calls: the compiler's own have other rules.
fn values(tokens: &[Token<'_>], names: &HashSet<&str>, edits: &mut Vec<Edit>) {
    let mut replace = |range: Range<usize>, text: &str| {
        edits.push(Edit {
            range,
            text: text.to_owned(),
        });
    };
    let is = |at: Option<usize>, text: &str| {
        at.and_then(|at| tokens.get(at))
            .is_some_and(|token| token.is(text))
    };
    for (at, token) in tokens.iter().enumerate() {
        if let Some(suffix) = suffix_of_bfloat(tokens, at) {
            let digits = token.end() - "bf".len();
            replace(digits..token.end(), suffix);
        }
        let Some(last) = type_end(tokens, at, names) else {
            continue;
        };
        let first = first_of_name(tokens, at);
        let (before, after) = (first.checked_sub(1), Some(last + 1));
        if is(after, "(") && !is(Some(last + 2), "&") && !is(before, "operator") {
            replace(tokens[first].start..tokens[first].start, "softmetal::make<");
            replace(tokens[last].end()..tokens[last].end(), ">");
        } else if is(before, "<") && is(after, ">") && is(first.checked_sub(2), "static_cast") {
            let cast = &tokens[first - 2];
            replace(cast.start..cast.end(), "softmetal::make");
        } else if is(before, "(") && is(after, ")") && is_cast(tokens, first - 1, last + 1) {
            replace(
                tokens[first - 1].start..tokens[first - 1].end(),
                "softmetal::cast<",
            );
            replace(tokens[last + 1].start..tokens[last + 1].end(), ">() ->* ");
        }
    }
}

/// What to put for the suffix of a literal such as `1.5bf`, which the compiler does not know: that of a float, which
/// becomes a bfloat where one is asked for.
fn suffix_of_bfloat(tokens: &[Token<'_>], at: usize) -> Option<&'static str> {
    let text = tokens[at].text.to_ascii_lowercase();
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    // Without an exponent, `bf` are digits of a hexadecimal number.
    let may_end = !text.starts_with("0x") || text.contains('p');
    if tokens[at].kind != Kind::Literal || !is_number || !may_end || !text.ends_with("bf") {
        return None;
    }
    // A sign in an exponent starts another token.
    let exponent = at
        .checked_sub(2)
        .map(|before| &tokens[before])
        .filter(|before| before.kind == Kind::Literal && before.end() + 1 == tokens[at].start);
    let is_fraction = text.contains(['.', 'e', 'p']) || exponent.is_some();
    Some(if is_fraction { "f" } else { ".f" })
}

/// Whether a type in the brackets between two tokens is a cast of what follows.
fn is_cast(tokens: &[Token<'_>], open: usize, close: usize) -> bool {
    let is_operand = tokens.get(close + 1).is_some_and(|next| {
        let is_mark = ["(", "-", "+", "!", "~", "*", "&"].contains(&next.text);
        next.kind != Kind::Mark && !["const", "override", "final"].contains(&next.text) || is_mark
    });
    let follows = open.checked_sub(1).map(|at| &tokens[at]);
    let calls = follows.is_some_and(|before| match before.kind {
        Kind::Word => !["return", "case", "else", "do"].contains(&before.text),
        Kind::Literal => true,
        Kind::Mark => [")", "]", ">"].contains(&before.text),
    });
    is_operand && !calls
}
