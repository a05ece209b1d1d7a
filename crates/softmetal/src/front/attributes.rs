//! Attributes that a source may have. An unknown one could change what a kernel means.

use super::FrontError;
use super::emit::BUILTINS;
use super::lexer::{Kind, Token};

/// Attributes of kernels and their parameters, and those of C++ that change no meaning.
const KNOWN: [&str; 13] = [
    "kernel",
    "host_name",
    "max_total_threads_per_threadgroup",
    "function_constant",
    "buffer",
    "threadgroup",
    "deprecated",
    "fallthrough",
    "likely",
    "maybe_unused",
    "nodiscard",
    "noreturn",
    "unlikely",
];

/// Attributes of what this device does not have.
const ABSENT: [(&str, &str); 10] = [
    ("id", "argument buffers"),
    ("texture", "textures"),
    ("sampler", "samplers"),
    ("stage_in", "stage-in data"),
    ("grid_origin", "stage-in data"),
    ("grid_size", "stage-in data"),
    ("visible", "visible functions"),
    ("stitchable", "visible functions"),
    ("intersection", "ray tracing"),
    ("payload", "ray tracing"),
];

/// Refuses the first attribute that is not known.
pub(super) fn check(source: &str, tokens: &[Token<'_>]) -> Result<(), FrontError> {
    let mut tokens = tokens.iter();
    while let Some(token) = tokens.next() {
        if !token.is("[[") {
            continue;
        }
        let mut depth = 0;
        let mut expected = true;
        for token in tokens.by_ref() {
            match token.text {
                "]]" if depth == 0 => break,
                "(" => depth += 1,
                ")" => depth -= 1,
                "," if depth == 0 => expected = true,
                // `[[clang::always_inline]]` is the compiler's business.
                _ if expected && token.kind == Kind::Word => {
                    expected = false;
                    if !matches!(token.text, "clang" | "gnu") {
                        known(token.text)
                            .map_err(|message| FrontError::at(source, token.start, message))?;
                    }
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether an attribute is known; if not, why.
pub(super) fn known(name: &str) -> Result<(), String> {
    if KNOWN.contains(&name) || BUILTINS.contains(&name) {
        return Ok(());
    }
    match ABSENT.iter().find(|(absent, _)| *absent == name) {
        Some((_, what)) => Err(format!("[[{name}]]: the software device has no {what}")),
        None => Err(format!("unknown attribute `{name}`")),
    }
}
