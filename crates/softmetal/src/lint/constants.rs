//! Function constants (Metal Shading Language specification, section 5.8).

use super::finding::LintFinding;
use super::signature::integer;
use super::text::{Text, closing, is_at};
use crate::front::lexer::{Kind, Token};

const RULE: &str = "function-constant";
const INDICES: u64 = 65536;

const SCALARS: [&str; 13] = [
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float", "unsigned",
];

pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    let mut seen: Vec<(u64, &str)> = Vec::new();
    let tokens = &text.tokens;
    for at in 0..tokens.len() {
        if !tokens[at].is("function_constant") || !is_at(tokens, Some(at + 1), "(") {
            continue;
        }
        let start = tokens[at].start;
        let declaration = text.declarations.iter().find(|one| one.range.contains(&at));
        // As an attribute of a parameter, it names one.
        if declaration.is_some_and(|one| one.function.is_some()) {
            continue;
        }
        let Some(declaration) = declaration.filter(|one| one.owner.is_none()) else {
            found.push(text.finding(
                start,
                RULE,
                "a function constant is a variable at program scope".into(),
            ));
            continue;
        };
        let close = closing(tokens, at + 1);
        let (ty, name) = type_and_name(&tokens[declaration.range.start..at]);
        let mut add = |message| found.push(text.finding(start, RULE, message));
        if !is_scalar_or_vector(&ty) {
            add(format!(
                "`{name}` is a `{ty}`: a function constant is a scalar or vector"
            ));
        }
        if tokens[close..declaration.range.end]
            .iter()
            .any(|token| token.is("="))
        {
            add(format!(
                "`{name}`: a function constant gets its value from the pipeline"
            ));
        }
        let Some(index) = integer(text, &tokens[at + 2..close]) else {
            continue;
        };
        if index >= INDICES {
            add(format!("`{name}`: index {index} is not below {INDICES}"));
        }
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == index) {
            add(format!(
                "`{name}` has index {index}, which `{other}` has already"
            ));
        }
        seen.push((index, name));
    }
}

/// The type of a variable without qualifiers, and its name.
fn type_and_name<'a>(declaration: &[Token<'a>]) -> (String, &'a str) {
    let qualifiers = [
        "constant",
        "static",
        "const",
        "constexpr",
        "[[",
        "metal",
        "::",
    ];
    let words: Vec<_> = declaration
        .iter()
        .map(|token| token.text)
        .filter(|text| !qualifiers.contains(text))
        .collect();
    match words.split_last() {
        Some((name, ty)) => (ty.join(" "), name),
        None => (String::new(), ""),
    }
}

fn is_scalar_or_vector(ty: &str) -> bool {
    let is_fixed = [
        "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t",
    ];
    let element = match ty.strip_prefix("vec < ") {
        Some(vector) => vector.split(' ').next().unwrap_or_default(),
        None => ty.trim_end_matches(['2', '3', '4']),
    };
    is_fixed.contains(&ty) || SCALARS.contains(&element) || ty.starts_with("unsigned ")
}

/// Whether a declaration is of a function constant.
pub(super) fn is_one(declaration: &[Token<'_>]) -> bool {
    declaration
        .iter()
        .any(|token| token.kind == Kind::Word && token.text == "function_constant")
}
