//! Names of types.

use std::collections::HashSet;

use super::text::{closing, is_at};
use crate::front::lexer::{Kind, Token};

/// Types of the language that are no element type of vectors.
const OTHERS: [&str; 26] = [
    "void",
    "auto",
    "bool",
    "unsigned",
    "signed",
    "size_t",
    "ptrdiff_t",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "int32_t",
    "uint32_t",
    "int64_t",
    "uint64_t",
    "vec",
    "packed_vec",
    "matrix",
    "array",
    "atomic",
    "atomic_int",
    "atomic_uint",
    "atomic_bool",
    "atomic_float",
    "atomic_ulong",
    "simdgroup_matrix",
];

const ELEMENTS: [&str; 12] = [
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float",
];

/// Words in a type that are no name.
pub(super) const QUALIFIERS: [&str; 2] = ["const", "volatile"];

/// Words that a type does not reach back over.
pub(super) const ENDS: [&str; 8] = [
    "return", "case", "else", "using", "typedef", "operator", "sizeof", "template",
];

/// The types that a source declares or takes as parameters of templates.
pub(super) fn declared<'a>(tokens: &[Token<'a>]) -> HashSet<&'a str> {
    let mut names: HashSet<&'a str> = OTHERS.into_iter().collect();
    // Only the words of the source matter.
    names.extend(
        tokens
            .iter()
            .map(|token| token.text)
            .filter(|text| is_built_in(text)),
    );
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).filter(|next| next.kind == Kind::Word);
        match token.text {
            "struct" | "class" | "union" | "enum" | "typename" => {
                let is_qualified = is_at(tokens, Some(at + 2), "::");
                names.extend(next.filter(|_| !is_qualified).map(|next| next.text));
            }
            "using" if is_at(tokens, Some(at + 2), "=") => names.extend(next.map(|next| next.text)),
            "typedef" => names.extend(alias(&tokens[at..])),
            _ => {}
        }
    }
    names.remove("class");
    names
}

/// The name that a `typedef` gives: the word in the first brackets, or the last one.
fn alias<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let mut at = 0;
    let mut last = None;
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" | "[" => return last,
            "(" if !is_at(tokens, at.checked_sub(1), "decltype") => {
                let inner = &tokens[at + 1..closing(tokens, at).max(at + 1)];
                return inner
                    .iter()
                    .find(|token| token.kind == Kind::Word)
                    .map(|token| token.text);
            }
            "(" | "{" => at = closing(tokens, at),
            _ if token.kind == Kind::Word => last = Some(token.text),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Whether a name is a type of the language, such as `float`, `packed_float3`, `float4x4`, `simdgroup_float8x8`.
pub(super) fn is_built_in(name: &str) -> bool {
    let rest = name
        .strip_prefix("packed_")
        .or_else(|| name.strip_prefix("simdgroup_"));
    let rest = rest.unwrap_or(name);
    let element = rest.trim_end_matches(|c: char| c.is_ascii_digit() || c == 'x');
    ELEMENTS.contains(&element) || OTHERS.contains(&name)
}
