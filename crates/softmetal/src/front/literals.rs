//! Literals of half and bfloat whose suffixes C++ does not allow: `bf` becomes `_b`, as the shim defines it, and
//! `H` becomes `h`. Columns stay as they are.

use super::declarations::Edit;
use super::lexer::{self, Kind, Lexed};

/// The edits of a source, also inside its macros.
pub(super) fn edits(source: &str, lexed: &Lexed<'_>) -> Vec<Edit> {
    let mut edits = Vec::new();
    for token in &lexed.tokens {
        if token.kind == Kind::Literal {
            edits.extend(edit(token.text, token.start));
        }
    }
    for directive in &lexed.directives {
        let start = directive.start + 1;
        // What is no sequence of tokens is no macro with a literal.
        let Ok(body) = lexer::lex(&source[start..directive.end]) else {
            continue;
        };
        for token in body.tokens {
            if token.kind == Kind::Literal {
                edits.extend(edit(token.text, start + token.start));
            }
        }
    }
    edits
}

fn edit(literal: &str, start: usize) -> Option<Edit> {
    let is_hexadecimal = literal.starts_with("0x") || literal.starts_with("0X");
    // Without an exponent, `bf` are digits.
    if !literal.starts_with(|c: char| c.is_ascii_digit())
        || (is_hexadecimal && !literal.contains(['p', 'P']))
    {
        return None;
    }
    let (number, suffix) = if let Some(number) = literal
        .strip_suffix("bf")
        .or_else(|| literal.strip_suffix("BF"))
    {
        (number, "_b")
    } else {
        (literal.strip_suffix('H')?, "h")
    };
    let start = start + number.len();
    Some(Edit {
        range: start..start + suffix.len(),
        text: suffix.to_owned(),
    })
}
