//! Finds kernels, function constants and threadgroup variables among the tokens of a source.

use super::FrontError;
use super::declarations::{Constant, Derived, Edit, Instance, Kernel, Unit};
use super::lexer::{Kind, Token};

/// What a source is translated to.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Dialect {
    /// C++, to be run.
    Cpp,
    /// C++ for OpenCL, to be parsed with its address spaces.
    OpenCl,
}

/// Reads a whole source.
pub(super) fn scan<'a>(
    source: &'a str,
    tokens: &'a [Token<'a>],
    dialect: Dialect,
) -> Result<Unit<'a>, FrontError> {
    let mut scanner = Scanner {
        source,
        dialect,
        tokens,
        at: 0,
        unit: Unit::default(),
    };
    while scanner.at < tokens.len() {
        scanner.statement()?;
    }
    Ok(scanner.unit)
}

pub(super) struct Scanner<'a> {
    source: &'a str,
    dialect: Dialect,
    pub(super) tokens: &'a [Token<'a>],
    pub(super) at: usize,
    unit: Unit<'a>,
}

/// An attribute in `[[...]]`, for example `buffer` with argument `0`.
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) argument: Option<&'a str>,
}

impl<'a> Scanner<'a> {
    fn peek(&self, ahead: usize) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at + ahead)
    }

    pub(super) fn next_is(&self, text: &str) -> bool {
        self.peek(0).is_some_and(|token| token.is(text))
    }

    pub(super) fn take(&mut self) -> Result<&'a Token<'a>, FrontError> {
        let token = self
            .peek(0)
            .ok_or_else(|| self.error("the source ends too early"))?;
        self.at += 1;
        Ok(token)
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<&'a Token<'a>, FrontError> {
        if self.next_is(text) {
            return self.take();
        }
        let found = self.peek(0).map_or("the end", |token| token.text);
        Err(self.error(&format!("expected `{text}`, found `{found}`")))
    }

    fn word(&mut self) -> Result<&'a str, FrontError> {
        let token = self.take()?;
        if token.kind == Kind::Word {
            return Ok(token.text);
        }
        self.at -= 1;
        Err(self.error(&format!("expected a name, found `{}`", token.text)))
    }

    pub(super) fn error(&self, message: &str) -> FrontError {
        let offset = self.peek(0).map_or(self.source.len(), |token| token.start);
        FrontError::at(self.source, offset, message)
    }

    /// Reads what starts here if it is of interest, else passes one token.
    fn statement(&mut self) -> Result<(), FrontError> {
        let start = self.at;
        let template = self.template_header()?;
        let mut attributes = self.attributes()?;
        let qualified = self.next_is("kernel");
        if qualified {
            self.at += 1;
            attributes.extend(self.attributes()?);
        }
        if qualified
            || attributes
                .iter()
                .any(|attribute| attribute.name == "kernel")
        {
            return match template {
                Template::Instance => self.instance(start, &attributes),
                _ => self.kernel(template == Template::Definition, &attributes),
            };
        }
        if self.at == start {
            if self.next_is("constant") && self.starts_statement() {
                return self.constant();
            }
            if self.next_is("threadgroup") && self.starts_statement() {
                return self.threadgroup();
            }
            self.at += 1;
        }
        Ok(())
    }

    fn starts_statement(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_none_or(|token| [";", "{", "}", ")", "]]"].iter().any(|mark| token.is(mark)))
    }

    fn template_header(&mut self) -> Result<Template, FrontError> {
        if !self.next_is("template") {
            return Ok(Template::None);
        }
        self.at += 1;
        if !self.next_is("<") {
            return Ok(Template::Instance);
        }
        self.angles()?;
        Ok(Template::Definition)
    }

    /// The text between the `<` here and its `>`.
    pub(super) fn angles(&mut self) -> Result<&'a str, FrontError> {
        let start = self.expect("<")?.end();
        let (mut angles, mut brackets) = (1, 0);
        loop {
            let token = self.take()?;
            match token.text {
                "(" | "[" | "{" => brackets += 1,
                ")" | "]" | "}" => brackets -= 1,
                "<" if brackets == 0 => angles += 1,
                ">" if brackets == 0 => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                return Ok(self.source[start..token.start].trim());
            }
        }
    }

    /// The text between the bracket here and its partner.
    pub(super) fn bracketed(&mut self) -> Result<&'a str, FrontError> {
        let start = self.take()?.end();
        let mut depth = 1;
        loop {
            let token = self.take()?;
            match token.text {
                _ if token.kind == Kind::Literal => {}
                "(" | "[" | "{" | "[[" => depth += 1,
                ")" | "]" | "}" | "]]" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(&self.source[start..token.start]);
            }
        }
    }

    pub(super) fn attributes(&mut self) -> Result<Vec<Attribute<'a>>, FrontError> {
        let mut found = Vec::new();
        while self.next_is("[[") {
            self.at += 1;
            while !self.next_is("]]") {
                let mut name = self.word()?;
                while self.next_is("::") {
                    self.at += 1;
                    name = self.word()?;
                }
                let argument = if self.next_is("(") {
                    Some(self.bracketed()?.trim())
                } else {
                    None
                };
                found.push(Attribute { name, argument });
                if self.next_is(",") {
                    self.at += 1;
                }
            }
            self.at += 1;
        }
        Ok(found)
    }

    /// `void name(parameters)` and the rest of a kernel's definition up to its body.
    fn kernel(
        &mut self,
        is_template: bool,
        attributes: &[Attribute<'a>],
    ) -> Result<(), FrontError> {
        self.expect("void")?;
        let name = self.word()?;
        self.expect("(")?;
        let parameters = self.parameters()?;
        if self.next_is(";") {
            return Ok(());
        }
        if !self.next_is("{") {
            return Err(self.error(&format!("expected the body of kernel `{name}`")));
        }
        self.unit.kernels.push(Kernel {
            name,
            is_template,
            host_name: argument(attributes, "host_name"),
            max_threads: argument(attributes, "max_total_threads_per_threadgroup"),
            parameters,
        });
        Ok(())
    }

    /// An explicit instantiation, `kernel type name<arguments>(...)`; it leaves the source, or loses what C++ does
    /// not know.
    fn instance(&mut self, first: usize, attributes: &[Attribute<'a>]) -> Result<(), FrontError> {
        let host_name = argument(attributes, "host_name")
            .ok_or_else(|| self.error("an instantiated kernel needs [[host_name(\"...\")]]"))?;
        let qualifiers = self.tokens[first].end()..self.tokens[self.at - 1].end();
        if self.word()? == "decltype" {
            self.bracketed()?;
        }
        let template = self.word()?;
        let arguments = self.angles()?;
        while !self.next_is(";") {
            self.at += 1;
            if self.peek(0).is_none() {
                return Err(self.error("an instantiation ends with `;`"));
            }
        }
        let end = self.take()?.end();
        match self.dialect {
            Dialect::Cpp => self.edit(self.tokens[first].start..end, ""),
            Dialect::OpenCl => self.edit(qualifiers, ""),
        }
        self.unit.instances.push(Instance {
            template,
            arguments,
            host_name,
        });
        Ok(())
    }

    /// A value at program scope: a function constant, one computed from such, or neither.
    fn constant(&mut self) -> Result<(), FrontError> {
        let first = self.take()?;
        let mut name = "";
        let mut end = first.end();
        while let Some(token) = self.peek(0) {
            match token.text {
                "[[" | "=" | ";" => break,
                // An array, a pointer or a parameter: not a constant that functions specialize on.
                "[" | "*" | "&" | "(" | "{" => return Ok(()),
                "<" => {
                    self.angles()?;
                    continue;
                }
                text if token.kind == Kind::Word => name = text,
                _ => {}
            }
            end = token.end();
            self.at += 1;
        }
        let attributes = self.attributes()?;
        if let Some(index) = argument(&attributes, "function_constant") {
            let close = self.expect(";")?;
            if self.dialect == Dialect::Cpp {
                self.edit(first.start..first.end(), "static thread_local");
                let defined = format!("; static thread_local bool softmetal_defined_{name};");
                self.edit(end..close.end(), &defined);
            } else {
                self.edit(end..close.end(), " = {};");
            }
            let asks = |window: &[Token<'_>]| {
                window[0].is("is_function_constant_defined") && window[2].is(name)
            };
            self.unit.constants.push(Constant {
                name,
                index,
                optional: self.tokens.windows(3).any(asks),
            });
        } else if self.next_is("=") {
            let equals = self.take()?;
            self.derived(first, name, equals)?;
        }
        Ok(())
    }

    fn derived(
        &mut self,
        first: &Token<'a>,
        name: &'a str,
        equals: &Token<'a>,
    ) -> Result<(), FrontError> {
        let mut depends_on = Vec::new();
        while !self.next_is(";") {
            let token = self.take()?;
            let constants = self.unit.constants.iter().map(|constant| constant.name);
            let mut names = constants.chain(self.unit.derived.iter().map(|derived| derived.name));
            if token.kind == Kind::Word {
                depends_on.extend(names.find(|name| *name == token.text));
            }
        }
        let end = self.take()?.start;
        if !depends_on.is_empty() && self.dialect == Dialect::Cpp {
            self.edit(first.start..first.end(), "static thread_local");
            self.edit(equals.start..end, "");
            let value = &self.source[equals.end()..end];
            self.unit.derived.push(Derived {
                name,
                value,
                depends_on,
            });
        }
        Ok(())
    }

    /// A variable in threadgroup memory, or the start of a declaration that points to some.
    fn threadgroup(&mut self) -> Result<(), FrontError> {
        let first = self.take()?;
        let mut name: Option<&Token<'a>> = None;
        while let Some(token) = self.peek(0) {
            match token.text {
                "*" | "&" | "(" => return Ok(()),
                "[" | ";" | "," | "=" => break,
                "<" => {
                    self.angles()?;
                    continue;
                }
                _ if token.kind == Kind::Word => name = Some(token),
                _ => {}
            }
            self.at += 1;
        }
        let name = name.ok_or_else(|| self.error("expected a threadgroup variable"))?;
        let ty = self.source[first.end()..name.start].trim();
        self.edit(first.start..name.start, "");
        let mut start = name.start;
        let mut name = name.text;
        loop {
            let dimensions = self.at;
            while self.next_is("[") {
                self.bracketed()?;
            }
            let end = self.peek(0).map_or(self.source.len(), |token| token.start);
            let dimensions = self
                .tokens
                .get(dimensions)
                .map_or("", |token| &self.source[token.start..end]);
            self.edit(start..end, &variable(self.dialect, ty, name, dimensions));
            if self.next_is(";") {
                return Ok(());
            }
            if !self.next_is(",") {
                return Err(self.error(&format!(
                    "threadgroup variable `{name}` cannot be initialized"
                )));
            }
            let comma = self.take()?;
            self.edit(comma.start..comma.end(), ";");
            start = self.peek(0).map_or(self.source.len(), |token| token.start);
            name = self.word()?;
        }
    }

    /// Puts spaces in place of the tokens from `first` to here, so that columns stay as they are.
    pub(super) fn blank(&mut self, first: usize) {
        let tokens = &self.tokens[first..self.at];
        if let (Some(start), Some(end)) = (tokens.first(), tokens.last()) {
            self.edit(start.start..end.end(), &" ".repeat(end.end() - start.start));
        }
    }

    fn edit(&mut self, range: std::ops::Range<usize>, text: &str) {
        self.unit.edits.push(Edit {
            range,
            text: text.to_owned(),
        });
    }
}

/// The declaration of a threadgroup variable as a reference to memory of the runtime.
pub(super) fn variable(dialect: Dialect, ty: &str, name: &str, dimensions: &str) -> String {
    if dialect == Dialect::OpenCl {
        return format!(
            "threadgroup {ty} (&{name}){dimensions} = \
             softmetal::threadgroup_variable<threadgroup {ty}{dimensions}>()"
        );
    }
    // Each dimension has a type with a name, by which the runtime knows whose index is out of range.
    let mut types = String::new();
    let mut element = ty.to_owned();
    let dimensions = brackets(dimensions);
    for (row, dimension) in dimensions.iter().enumerate().skip(1).rev() {
        let array = format!("softmetal_row{row}_{name}");
        types += &format!("typedef {element} {array} {dimension}; ");
        element = array;
    }
    let outermost = dimensions.first().copied().unwrap_or_default();
    format!(
        "{types}typedef {element} softmetal_type_{name} {outermost}; static const char softmetal_key_{name} = 0; \
         softmetal_type_{name}& {name} = *static_cast<softmetal_type_{name}*>(\
         softmetal::softmetal_threadgroup_variable(&softmetal_key_{name}, sizeof(softmetal_type_{name}), \
         alignof(softmetal_type_{name}), \"{name}\"))"
    )
}

/// The bracketed parts of `[a][b]`, with their brackets.
fn brackets(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            ']' => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&text[start..=at]);
                }
            }
            _ => {}
        }
    }
    parts
}

fn argument<'a>(attributes: &[Attribute<'a>], name: &str) -> Option<&'a str> {
    let attribute = attributes.iter().find(|attribute| attribute.name == name)?;
    attribute.argument
}

#[derive(Clone, Copy, PartialEq)]
enum Template {
    None,
    Definition,
    Instance,
}
