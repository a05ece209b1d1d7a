//! Parameters of kernels.

use super::FrontError;
use super::attributes;
use super::declarations::{Parameter, Slot};
use super::emit::BUILTINS;
use super::lexer::{Kind, Token};
use super::scan::Scanner;

const ADDRESS_SPACES: [&str; 4] = ["device", "constant", "threadgroup", "thread"];

impl<'a> Scanner<'a> {
    /// The parameters up to and with the closing parenthesis.
    pub(super) fn parameters(&mut self) -> Result<Vec<Parameter<'a>>, FrontError> {
        let mut found = Vec::new();
        while !self.next_is(")") {
            found.push(self.parameter()?);
            if !self.next_is(")") {
                self.expect(",")?;
            }
        }
        self.at += 1;
        Ok(found)
    }

    fn parameter(&mut self) -> Result<Parameter<'a>, FrontError> {
        let first = self.at;
        let mut name = None;
        while !(self.next_is("[[") || self.next_is(",") || self.next_is(")")) {
            if self.next_is("<") {
                self.angles()?;
            } else if self.next_is("[") {
                self.bracketed()?;
            } else if self.next_is("(") {
                // `T (&name)[N]`
                let inner = self.bracketed()?;
                name = Some(inner.trim_start_matches(['&', '*', ' ']).trim());
            } else {
                let token = self.take()?;
                if token.kind == Kind::Word {
                    name = Some(token.text);
                }
            }
        }
        let name = name.ok_or_else(|| self.error("a kernel parameter needs a name"))?;
        let declaration = &self.tokens[first..self.at];
        let before = self.at;
        let attributes = self.attributes()?;
        self.blank(before);
        let (conditions, attributes): (Vec<_>, Vec<_>) = attributes
            .into_iter()
            .partition(|attribute| attribute.name == "function_constant");
        let condition = conditions.first().and_then(|attribute| attribute.argument);
        let [attribute] = attributes.as_slice() else {
            return Err(self.error(&format!(
                "parameter `{name}` needs one attribute, such as [[buffer(0)]]"
            )));
        };
        let (slot, spaces): (_, &[&str]) = match (attribute.name, attribute.argument) {
            ("buffer", Some(index)) => (Slot::Buffer(index), &["device", "constant"]),
            ("threadgroup", Some(index)) => (Slot::Threadgroup(index), &["threadgroup"]),
            (builtin, None) if BUILTINS.contains(&builtin) => (Slot::Builtin(builtin), &[]),
            (other, _) => {
                let message = attributes::known(other)
                    .err()
                    .unwrap_or_else(|| format!("[[{other}]] does not belong here"));
                return Err(self.error(&format!("parameter `{name}`: {message}")));
            }
        };
        check_space(declaration, spaces)
            .map_err(|message| self.error(&format!("parameter `{name}`: {message}")))?;
        Ok(Parameter {
            name,
            slot,
            condition,
        })
    }
}

/// C++ has one address space, Metal refuses a pointer without one: a buffer's is `device` or `constant`.
fn check_space(declaration: &[Token<'_>], allowed: &[&str]) -> Result<(), String> {
    let mut tokens = declaration.iter();
    let space = tokens.find(|token| ADDRESS_SPACES.iter().any(|space| token.is(space)));
    let space = space.map(|token| token.text);
    let is_pointer = declaration
        .iter()
        .any(|token| token.is("*") || token.is("&"));
    match (space, allowed) {
        (None, []) if !is_pointer => Ok(()),
        (Some(space), allowed) if is_pointer && allowed.contains(&space) => Ok(()),
        (_, []) => Err("this attribute needs a value, no pointer".into()),
        _ => Err(format!(
            "needs a pointer or reference to {}",
            allowed.join(" or ")
        )),
    }
}
