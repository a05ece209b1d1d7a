//! The declarations of a source, outside of functions: what is where, as far as rules ask.

use std::collections::HashSet;
use std::ops::Range;

use super::text::{closing, is_at};
use crate::front::lexer::{Kind, Token, closing_angle};

/// A declaration at program scope or in a type.
#[derive(Debug)]
pub(super) struct Declaration<'a> {
    /// Its tokens, without body and end.
    pub(super) range: Range<usize>,
    /// The type that it is a member of.
    pub(super) owner: Option<&'a str>,
    pub(super) function: Option<Function<'a>>,
}

/// A function.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// The token of its name.
    pub(super) at: usize,
    /// Tokens between the brackets of its parameters.
    pub(super) parameters: Range<usize>,
    /// Tokens between the braces of its body.
    pub(super) body: Option<Range<usize>>,
    pub(super) is_kernel: bool,
}

/// Reads the declarations; `macros` are no functions.
pub(super) fn read<'a>(tokens: &[Token<'a>], macros: &HashSet<&str>) -> Vec<Declaration<'a>> {
    let mut reader = Reader {
        tokens,
        macros,
        found: Vec::new(),
    };
    reader.level(0..tokens.len(), None);
    reader.found
}

struct Reader<'r, 'a> {
    tokens: &'r [Token<'a>],
    macros: &'r HashSet<&'r str>,
    found: Vec<Declaration<'a>>,
}

/// What has been seen of a declaration.
#[derive(Default)]
struct Header {
    name: Option<usize>,
    /// A function's name, and its parameters.
    parameters: Option<(usize, Range<usize>)>,
    is_kernel: bool,
    is_namespace: bool,
    is_enum: bool,
    /// The token after `struct`, `class` or `union`.
    ty: Option<usize>,
    /// The token after a type's body.
    after_type: Option<usize>,
}

/// Words that brackets follow in a declaration without making it a function.
const NOT_FUNCTIONS: [&str; 8] = [
    "decltype",
    "alignas",
    "__attribute__",
    "noexcept",
    "static_assert",
    "sizeof",
    "explicit",
    "_Pragma",
];

impl<'a> Reader<'_, 'a> {
    fn level(&mut self, range: Range<usize>, owner: Option<&'a str>) {
        let mut at = range.start;
        while at < range.end {
            at = self.declaration(at, range.end, owner).max(at + 1);
        }
    }

    /// Reads one declaration; where the next one starts.
    fn declaration(&mut self, start: usize, end: usize, owner: Option<&'a str>) -> usize {
        let first = &self.tokens[start];
        if ["public", "private", "protected"].contains(&first.text) {
            return start + 2;
        }
        if self.macros.contains(first.text) {
            let called = is_at(self.tokens, Some(start + 1), "(");
            return 1 + if called {
                closing(self.tokens, start + 1)
            } else {
                start
            };
        }
        let mut header = Header::default();
        let mut at = start;
        while at < end {
            let token = &self.tokens[at];
            if token.kind == Kind::Word {
                self.word(&mut header, at);
                at += 1;
                continue;
            }
            at = match token.text {
                ";" => {
                    if header.after_type != Some(at) {
                        self.push(start..at, owner, &header, None);
                    }
                    return at + 1;
                }
                "}" => return at + 1,
                "{" => match self.brace(start, at, owner, &mut header) {
                    Next::Declaration(next) => return next,
                    Next::Token(next) => next,
                },
                "(" => self.bracket(&mut header, at),
                "[[" => {
                    let close = closing(self.tokens, at);
                    header.is_kernel |= self.tokens[at..close]
                        .iter()
                        .any(|token| token.is("kernel"));
                    close + 1
                }
                "[" => closing(self.tokens, at) + 1,
                "<" => closing_angle(self.tokens, at).unwrap_or(at) + 1,
                "=" if !is_at(self.tokens, at.checked_sub(1), "operator") => {
                    self.initializer(at, end)
                }
                ":" if header.parameters.is_some() => self.initializers(at + 1, end),
                _ => at + 1,
            };
        }
        end
    }

    fn word(&self, header: &mut Header, at: usize) {
        let after_enum = is_at(self.tokens, at.checked_sub(1), "enum");
        match self.tokens[at].text {
            "kernel" => header.is_kernel = true,
            "namespace" => header.is_namespace = true,
            "extern"
                if self
                    .tokens
                    .get(at + 1)
                    .is_some_and(|next| next.kind == Kind::Literal) =>
            {
                header.is_namespace = true;
            }
            "enum" => header.is_enum = true,
            "struct" | "class" | "union" if !after_enum => header.ty = Some(at + 1),
            _ => {}
        }
        header.name = Some(at);
    }

    /// Passes brackets, which are those of a function's parameters if they are the first after a name.
    fn bracket(&self, header: &mut Header, open: usize) -> usize {
        let close = closing(self.tokens, open);
        let declarator = ["&", "*"]
            .iter()
            .any(|mark| is_at(self.tokens, Some(open + 1), mark));
        let name = header
            .name
            .filter(|_| header.parameters.is_none() && !declarator);
        if let Some(at) = name.filter(|&at| !NOT_FUNCTIONS.contains(&self.tokens[at].text)) {
            // `operator()` is named by its first brackets.
            if self.tokens[at].is("operator") && is_at(self.tokens, Some(close + 1), "(") {
                return close + 1;
            }
            header.parameters = Some((at, open + 1..close));
        }
        close + 1
    }

    fn brace(
        &mut self,
        start: usize,
        open: usize,
        owner: Option<&'a str>,
        header: &mut Header,
    ) -> Next {
        let close = closing(self.tokens, open);
        if header.is_namespace {
            self.level(open + 1..close, owner);
            return Next::Declaration(close + 1);
        }
        if header.parameters.is_some() {
            self.push(start..open, owner, header, Some(open + 1..close));
            return Next::Declaration(close + 1);
        }
        if let Some(name) = header.ty.filter(|_| header.after_type.is_none()) {
            let token = self
                .tokens
                .get(name)
                .filter(|token| token.kind == Kind::Word);
            self.level(open + 1..close, Some(token.map_or("", |token| token.text)));
            header.after_type = Some(close + 1);
        } else if header.is_enum {
            header.after_type = Some(close + 1);
        }
        Next::Token(close + 1)
    }

    /// The end of an initializer.
    fn initializer(&self, at: usize, end: usize) -> usize {
        let mut at = at + 1;
        while at < end && !self.tokens[at].is(";") {
            let opens = ["(", "[", "{"].iter().any(|mark| self.tokens[at].is(mark));
            at = 1 + if opens { closing(self.tokens, at) } else { at };
        }
        at
    }

    /// The end of a constructor's initializers, which is the brace of its body.
    fn initializers(&self, mut at: usize, end: usize) -> usize {
        loop {
            while at < end && !self.tokens[at].is("(") && !self.tokens[at].is("{") {
                at += 1;
            }
            if at >= end {
                return end;
            }
            at = closing(self.tokens, at) + 1;
            if !is_at(self.tokens, Some(at), ",") {
                return at;
            }
        }
    }

    fn push(
        &mut self,
        range: Range<usize>,
        owner: Option<&'a str>,
        header: &Header,
        body: Option<Range<usize>>,
    ) {
        let function = header.parameters.clone().map(|(at, parameters)| Function {
            name: self.tokens[at].text,
            at,
            parameters,
            body,
            is_kernel: header.is_kernel,
        });
        self.found.push(Declaration {
            range,
            owner,
            function,
        });
    }
}

enum Next {
    Token(usize),
    Declaration(usize),
}
