//! Adapts the source of a template to minijinja where it has no setting for what jinja2 does.
//!
//! * A `for` over none is an error in jinja2 and an empty loop in minijinja: the expression is wrapped in a
//!   call of [`ITERABLE`], which checks it.
//! * `{% generation %}`, which the transformers library adds to mark what the assistant says, becomes a
//!   condition that always holds.
//!
//! Lines stay where they are.

/// Name of the function that returns its argument if Python could iterate over it.
pub const ITERABLE: &str = "__iterable";

/// Rewrites `source`. What is not well-formed is left as it is: compiling explains it better.
pub fn adapt(source: &str) -> String {
    let mut adapted = String::with_capacity(source.len() + 256);
    let mut rest = source;
    while let Some((start, kind)) = next_tag(rest) {
        let (text, tag) = rest.split_at(start);
        adapted.push_str(text);
        let end = match kind {
            Kind::Comment => tag.find("#}").map(|at| at + 2),
            Kind::Expression => tag_end(tag, "}}"),
            Kind::Block => tag_end(tag, "%}"),
        };
        let Some(end) = end else {
            rest = tag;
            break;
        };
        let (tag, tail) = tag.split_at(end);
        rest = tail;
        if kind != Kind::Block {
            adapted.push_str(tag);
            continue;
        }
        push_block(tag, &mut adapted);
        if Words::of_block(tag)
            .next()
            .is_some_and(|word| word.is("raw"))
        {
            let verbatim = raw_len(rest);
            adapted.push_str(&rest[..verbatim]);
            rest = &rest[verbatim..];
        }
    }
    adapted.push_str(rest);
    adapted
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Comment,
    Expression,
    Block,
}

/// Where the next tag starts.
fn next_tag(text: &str) -> Option<(usize, Kind)> {
    let braces = text.match_indices('{');
    let tags = braces.filter_map(|(at, _)| match text.as_bytes().get(at + 1)? {
        b'#' => Some((at, Kind::Comment)),
        b'{' => Some((at, Kind::Expression)),
        b'%' => Some((at, Kind::Block)),
        _ => None,
    });
    { tags }.next()
}

/// Where a tag ends: after the first `close` outside of strings and brackets.
fn tag_end(tag: &str, close: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 2;
    while let Some(&byte) = tag.as_bytes().get(at) {
        if depth == 0 && tag.as_bytes()[at..].starts_with(close.as_bytes()) {
            return Some(at + 2);
        }
        match byte {
            b'\'' | b'"' => {
                at = string_end(tag, at)?;
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The end of the string literal that starts at `start`.
fn string_end(text: &str, start: usize) -> Option<usize> {
    let quote = *text.as_bytes().get(start)?;
    let mut escaped = false;
    for (at, &byte) in text.as_bytes().iter().enumerate().skip(start + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Length of the text before the tag that ends a raw block.
fn raw_len(text: &str) -> usize {
    let tags = text.match_indices("{%");
    let is_end = |tag: &str| {
        Words::of_block(tag)
            .next()
            .is_some_and(|word| word.is("endraw"))
    };
    let mut ends = tags.map(|(at, _)| at).filter(|&at| is_end(&text[at..]));
    ends.next().unwrap_or(text.len())
}

fn push_block(tag: &str, adapted: &mut String) {
    let mut words = Words::of_block(tag);
    match words.next() {
        Some(word) if word.is("for") => match iterated(tag, words) {
            Some((start, end)) => {
                adapted.push_str(&tag[..start]);
                adapted.push_str(ITERABLE);
                adapted.push('(');
                adapted.push_str(&tag[start..end]);
                adapted.push(')');
                adapted.push_str(&tag[end..]);
            }
            None => adapted.push_str(tag),
        },
        Some(word) if word.is("generation") => word.replace_with("if true", tag, adapted),
        Some(word) if word.is("endgeneration") => word.replace_with("endif", tag, adapted),
        _ => adapted.push_str(tag),
    }
}

/// The expression a `for` block loops over: from `in` to a filter `if`, `recursive` or the end.
fn iterated(tag: &str, words: Words) -> Option<(usize, usize)> {
    let mut words = words.filter(|word| word.depth == 0);
    let start = words.find(|word| word.is("in"))?.end();
    let stop = words.find(|word| word.is("if") || word.is("recursive"));
    let close = tag.len() - 2;
    let close = if tag[..close].ends_with(['-', '+']) {
        close - 1
    } else {
        close
    };
    let end = stop.map_or(close, |word| word.start);
    let leading = tag[start..end].len() - tag[start..end].trim_start().len();
    let expression = tag[start..end].trim();
    (!expression.is_empty()).then(|| (start + leading, start + leading + expression.len()))
}

/// A name in a tag, outside of strings.
struct Word<'a> {
    text: &'a str,
    start: usize,
    /// Brackets around it.
    depth: usize,
}

impl Word<'_> {
    fn is(&self, name: &str) -> bool {
        self.text == name && self.depth == 0
    }

    fn end(&self) -> usize {
        self.start + self.text.len()
    }

    fn replace_with(&self, name: &str, tag: &str, adapted: &mut String) {
        adapted.push_str(&tag[..self.start]);
        adapted.push_str(name);
        adapted.push_str(&tag[self.end()..]);
    }
}

/// The names in a tag.
struct Words<'a> {
    tag: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Words<'a> {
    /// The names in a block tag, which starts with `{%`.
    fn of_block(tag: &'a str) -> Self {
        Words {
            tag,
            at: 2,
            depth: 0,
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        loop {
            let c = self.tag.get(self.at..)?.chars().next()?;
            match c {
                '\'' | '"' => {
                    self.at = string_end(self.tag, self.at)?;
                    continue;
                }
                '(' | '[' | '{' => self.depth += 1,
                ')' | ']' | '}' => self.depth = self.depth.saturating_sub(1),
                _ if c.is_alphanumeric() || c == '_' => {
                    let start = self.at;
                    let rest = &self.tag[start..];
                    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
                    self.at = start + end.unwrap_or(rest.len());
                    return Some(Word {
                        text: &self.tag[start..self.at],
                        start,
                        depth: self.depth,
                    });
                }
                _ => {}
            }
            self.at += c.len_utf8();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_check_what_they_iterate_over() {
        for (source, adapted) in [
            ("{% for x in xs %}", "{% for x in __iterable(xs) %}"),
            (
                "{%- for k, v in d.items() -%}",
                "{%- for k, v in __iterable(d.items()) -%}",
            ),
            (
                "{% for x in xs if x.a -%}",
                "{% for x in __iterable(xs) if x.a -%}",
            ),
            (
                "{%for x in [1, 2][::-1]%}",
                "{%for x in __iterable([1, 2][::-1])%}",
            ),
            (
                "{% for x in (a if b else c) recursive %}",
                "{% for x in __iterable((a if b else c)) recursive %}",
            ),
            (
                "{% for x in ' in %} if '|list %}",
                "{% for x in __iterable(' in %} if '|list) %}",
            ),
        ] {
            assert_eq!(adapt(source), adapted);
        }
    }

    #[test]
    fn generation_blocks_become_conditions() {
        assert_eq!(
            adapt("{%- generation -%}\n{{ x }}{% endgeneration %}"),
            "{%- if true -%}\n{{ x }}{% endif %}"
        );
    }

    #[test]
    fn everything_else_stays() {
        for source in [
            "",
            "{",
            "{% for x in",
            "{% for x in %}",
            "{# for {% for x in xs %} #}{{ '{% for x in xs %}' }}",
            "{% raw %}{% for x in xs %}{{ '{% endraw %}",
            "{{ {'a': {'b': 1}} }}{% set x = 'for y in z' %}",
            "{% if 'in' in for_x %}é{% endif %}",
        ] {
            assert_eq!(adapt(source), source);
        }
    }
}
