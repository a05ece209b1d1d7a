//! Tokens of a Metal source, with their place in it.

use std::ops::Range;

use super::FrontError;

/// A token's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Literal,
    /// One character, or `[[`, `]]`, `::`.
    Mark,
}

/// A token and its bytes in the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }
}

/// The tokens of a source, and its preprocessor lines with those that continue them.
#[derive(Debug)]
pub(crate) struct Lexed<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) directives: Vec<Range<usize>>,
}

/// Splits a source into tokens. Comments are left out and preprocessor lines kept apart; a macro that declares
/// a kernel is an error, because the kernel would go unnoticed.
pub(crate) fn lex(source: &str) -> Result<Lexed<'_>, FrontError> {
    let mut lexer = Lexer {
        source,
        at: 0,
        line_start: true,
        open: Vec::new(),
        found: Lexed {
            tokens: Vec::new(),
            directives: Vec::new(),
        },
    };
    while lexer.at < source.len() {
        lexer.step()?;
    }
    Ok(lexer.found)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    line_start: bool,
    /// Per open square bracket, whether it is that of an attribute.
    open: Vec<bool>,
    found: Lexed<'a>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn step(&mut self) -> Result<(), FrontError> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else {
            return Ok(());
        };
        if c.is_whitespace() {
            self.line_start |= c == '\n';
            self.at += c.len_utf8();
        } else if rest.starts_with("//") {
            self.at += rest.find('\n').unwrap_or(rest.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment
                .find("*/")
                .ok_or_else(|| self.error("comment without an end"))?;
            self.at += end + 4;
        } else if c == '#' && self.line_start {
            self.directive()?;
        } else {
            self.line_start = false;
            let (kind, length) = self.token(c)?;
            self.found.tokens.push(Token {
                kind,
                text: &rest[..length],
                start: self.at,
            });
            self.at += length;
        }
        Ok(())
    }

    /// A preprocessor line, with those that continue it.
    fn directive(&mut self) -> Result<(), FrontError> {
        let rest = self.rest();
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            end += line.len();
            if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
                break;
            }
        }
        let line = &rest[..end];
        let words = line.split(|c: char| !is_word(c));
        if line[1..].trim_start().starts_with("define")
            && words.clone().any(|word| word == "kernel")
        {
            return Err(
                self.error("a macro that declares a kernel is not supported: write the kernel out")
            );
        }
        self.found.directives.push(self.at..self.at + end);
        self.at += end;
        Ok(())
    }

    fn token(&mut self, first: char) -> Result<(Kind, usize), FrontError> {
        let rest = self.rest();
        Ok(match first {
            '"' | '\'' => (Kind::Literal, self.quoted(first)?),
            c if c.is_ascii_digit() => {
                let is_part = |c: char| is_word(c) || c == '.' || c == '\'';
                (
                    Kind::Literal,
                    rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
                )
            }
            c if is_word(c) => (Kind::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            '[' => {
                let attribute = rest.starts_with("[[");
                self.open.push(attribute);
                (Kind::Mark, 1 + usize::from(attribute))
            }
            // `a[b[i]]` ends with two brackets of their own.
            ']' => {
                let attribute = self.open.pop() == Some(true) && rest.starts_with("]]");
                (Kind::Mark, 1 + usize::from(attribute))
            }
            _ if rest.starts_with("::") => (Kind::Mark, 2),
            c => (Kind::Mark, c.len_utf8()),
        })
    }

    fn quoted(&self, quote: char) -> Result<usize, FrontError> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => return Ok(at + 1),
                _ => {}
            }
        }
        Err(self.error("literal without an end"))
    }

    fn error(&self, message: &str) -> FrontError {
        FrontError::at(self.source, self.at, message)
    }
}

/// The first token of a name such as `metal::threadgroup_barrier`.
pub(crate) fn first_of_name(tokens: &[Token<'_>], mut at: usize) -> usize {
    while at >= 2 && tokens[at - 1].is("::") {
        at -= 2;
    }
    at
}

/// The `>` that belongs to the `<` at a token.
pub(crate) fn closing_angle(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let (mut angles, mut brackets) = (0, 0);
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            _ if token.kind == Kind::Literal => {}
            "(" | "[" | "{" => brackets += 1,
            ")" | "]" | "}" => brackets -= 1,
            ";" => return None,
            "<" if brackets == 0 => angles += 1,
            ">" if brackets == 0 => angles -= 1,
            _ => {}
        }
        if angles == 0 {
            return Some(at);
        }
        if brackets < 0 {
            return None;
        }
    }
    None
}

fn is_word(c: char) -> bool {
    // The compiler knows which of the others may stand in a name.
    c.is_alphanumeric() || c == '_' || !c.is_ascii()
}
