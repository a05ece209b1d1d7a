//! JSON as Python's `json.dumps` writes it, which is what models were trained on.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Arrays and objects nested deeper than this are an error.
const MAX_DEPTH: usize = 128;

/// Layout of the output.
struct Style {
    /// Only ASCII, other characters as `\uXXXX`.
    ascii: bool,
    /// What one level of nesting adds before each item; `None` writes everything on one line.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The `tojson` filter of the transformers library: `json.dumps` with `ensure_ascii=False` unless asked for.
pub fn tojson(value: &Value, ensure_ascii: Option<bool>, options: Kwargs) -> Result<String, Error> {
    let ascii = match ensure_ascii {
        Some(ascii) => ascii,
        None => options
            .get::<Option<bool>>("ensure_ascii")?
            .unwrap_or(false),
    };
    let indent = indentation(options.get("indent")?)?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let (item_separator, key_separator) = match separators.as_deref() {
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(invalid("separators must be two strings")),
    };
    let style = Style {
        ascii,
        indent,
        item_separator,
        key_separator,
        sort_keys,
    };
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(out)
}

/// A number of spaces or the text itself.
fn indentation(indent: Option<Value>) -> Result<Option<String>, Error> {
    match indent {
        Some(indent) if indent.is_none() || indent.is_undefined() => Ok(None),
        None => Ok(None),
        Some(indent) => match (indent.as_str(), indent.as_i64()) {
            (Some(text), _) => Ok(Some(text.to_owned())),
            (None, Some(n)) if n <= 64 => Ok(Some(" ".repeat(n.max(0) as usize))),
            _ => Err(invalid("indent must be a string or a number up to 64")),
        },
    }
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

impl Style {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(invalid("value is nested too deeply for JSON"));
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)?),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq => {
                let items = value.try_iter()?;
                self.write_items('[', ']', items, depth, out, |item, out| {
                    self.write(&item, depth + 1, out)
                })?;
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_items('{', '}', keys.into_iter(), depth, out, |key, out| {
                    self.write_key(&key, out)?;
                    out.push_str(&self.key_separator);
                    self.write(&value.get_item(&key)?, depth + 1, out)
                })?;
            }
            kind => return Err(invalid(format!("{kind} is not JSON serializable"))),
        }
        Ok(())
    }

    fn write_items(
        &self,
        open: char,
        close: char,
        items: impl Iterator<Item = Value>,
        depth: usize,
        out: &mut String,
        mut write: impl FnMut(Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        out.push(open);
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                out.push_str(&self.item_separator);
            }
            self.break_line(depth + 1, out);
            write(item, out)?;
            is_empty = false;
        }
        if !is_empty {
            self.break_line(depth, out);
        }
        out.push(close);
        Ok(())
    }

    fn break_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(indent.as_str(), depth));
        }
    }

    /// Keys that are not strings are written as the text of their JSON.
    fn write_key(&self, key: &Value, out: &mut String) -> Result<(), Error> {
        match key.as_str() {
            Some(text) => self.write_string(text, out),
            None => {
                let mut text = String::new();
                self.write(key, MAX_DEPTH, &mut text)?;
                self.write_string(&text, out);
            }
        }
        Ok(())
    }

    fn write_string(&self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' || (self.ascii && !c.is_ascii()) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        // Writing to a string cannot fail.
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        Ok(value.to_string())
    } else {
        Ok(float(f64::try_from(value.clone())?))
    }
}

/// Python's `repr` of a float: the shortest digits that read back the same, in scientific notation below
/// 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    match scientific
        .split_once('e')
        .map(|(digits, e)| (digits, e.parse::<i32>()))
    {
        Some((digits, Ok(exponent))) if value != 0.0 && !(-4..16).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dumps(json: &str, expression: &str) -> String {
        let mut environment = minijinja::Environment::new();
        environment.add_filter("tojson", tojson);
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        let context = minijinja::context! { x => Value::from(minijinja::value::Serde(value)) };
        environment
            .render_str(&format!("{{{{ {expression} }}}}"), context)
            .unwrap()
    }

    #[test]
    fn values_as_python_writes_them() {
        // Each right side was printed by Python 3.11: json.dumps(x, ensure_ascii=False).
        for (json, expected) in [
            (
                r#"{"b": 1, "a": [true, null, "é"]}"#,
                r#"{"b": 1, "a": [true, null, "é"]}"#,
            ),
            (r#"[[], {}, ""]"#, r#"[[], {}, ""]"#),
            (
                r#""<b>&'\"\\\n\u0001\u007f/""#,
                "\"<b>&'\\\"\\\\\\n\\u0001\u{7f}/\"",
            ),
            (
                "[1.0, 0.1, 1e16, 1e15, 1e-5, 0.0001, -0.0]",
                "[1.0, 0.1, 1e+16, 1000000000000000.0, 1e-05, 0.0001, -0.0]",
            ),
            (
                "[1.5e300, 18446744073709551615, -3]",
                "[1.5e+300, 18446744073709551615, -3]",
            ),
        ] {
            assert_eq!(dumps(json, "x|tojson"), expected);
        }
    }

    #[test]
    fn options_as_python_understands_them() {
        let json = r#"{"b": [1, 2], "a": {}, "é😀": "x"}"#;
        assert_eq!(
            dumps(json, "x|tojson(indent=2)"),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {},\n  \"é😀\": \"x\"\n}"
        );
        assert_eq!(
            dumps(
                json,
                "x|tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true)"
            ),
            "{\"a\":{},\"b\":[1,2],\"\\u00e9\\ud83d\\ude00\":\"x\"}"
        );
        assert_eq!(dumps(json, "x.b|tojson(indent='--')"), "[\n--1,\n--2\n]");
    }
}
