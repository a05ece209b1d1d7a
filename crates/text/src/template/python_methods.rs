//! Python's string methods that minijinja's compatibility layer lacks.

use minijinja::value::{Tuple, Value, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Calls a method of Python on `value`.
pub fn call(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => match string_method(text, method, args) {
            Err(e) if e.kind() == ErrorKind::UnknownMethod => {
                unknown_method_callback(state, value, method, args)
            }
            result => result,
        },
        None => unknown_method_callback(state, value, method, args),
    }
}

fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    match method {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(text.strip_prefix(prefix).unwrap_or(text).into())
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(text.strip_suffix(suffix).unwrap_or(text).into())
        }
        "partition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = text.split_once(separator);
            let (before, after) = parts.unwrap_or((text, ""));
            Ok(triple(
                before,
                if parts.is_some() { separator } else { "" },
                after,
            ))
        }
        "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let parts = text.rsplit_once(separator);
            let (before, after) = parts.unwrap_or(("", text));
            Ok(triple(
                before,
                if parts.is_some() { separator } else { "" },
                after,
            ))
        }
        "rsplit" => {
            let (separator, most): (Option<&str>, Option<i64>) = from_args(args)?;
            let limit = most.and_then(|most| usize::try_from(most).ok());
            Ok(rsplit(
                text,
                separator,
                limit.map_or(usize::MAX, |most| most.saturating_add(1)),
            ))
        }
        "index" => {
            let (sought,): (&str,) = from_args(args)?;
            let at = text.find(sought);
            at.map(|at| text[..at].chars().count().into())
                .ok_or_else(|| Error::new(ErrorKind::InvalidOperation, "substring not found"))
        }
        _ => Err(ErrorKind::UnknownMethod.into()),
    }
}

fn triple(before: &str, separator: &str, after: &str) -> Value {
    Tuple::from([before, separator, after].map(Value::from)).into()
}

/// At most `limit` parts, split from the right; at whitespace where there is no separator.
fn rsplit(text: &str, separator: Option<&str>, limit: usize) -> Value {
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(limit, separator).collect(),
        None => {
            let mut parts = Vec::new();
            let mut rest = text.trim_end();
            while !rest.is_empty() && parts.len() + 1 < limit {
                let start = rest.rfind(char::is_whitespace).map_or(0, |at| {
                    at + rest[at..].chars().next().map_or(1, char::len_utf8)
                });
                parts.push(&rest[start..]);
                rest = rest[..start].trim_end();
            }
            parts.extend((!rest.is_empty()).then_some(rest));
            parts
        }
    };
    parts.reverse();
    parts.into_iter().map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_as_python_gives_them() {
        let mut environment = minijinja::Environment::new();
        environment.set_unknown_method_callback(super::call);
        // Each right side was printed by Python 3.11.
        for (expression, expected) in [
            ("'a-b-c'.rsplit('-', 1)", "['a-b', 'c']"),
            ("'a-b-c'.rsplit('-')", "['a', 'b', 'c']"),
            ("' a  b c '.rsplit(none, 1)", "[' a  b', 'c']"),
            ("' a  b '.rsplit()", "['a', 'b']"),
            ("'k=v=w'.partition('=')", "('k', '=', 'v=w')"),
            ("'k'.partition('=')", "('k', '', '')"),
            ("'k=v=w'.rpartition('=')", "('k=v', '=', 'w')"),
            ("'k'.rpartition('=')", "('', '', 'k')"),
            ("'pre-x'.removeprefix('pre-')", "x"),
            ("'x.md'.removesuffix('.md') ~ 'x'.removesuffix('y')", "xx"),
            ("'éab'.index('b')", "2"),
            ("' x '.strip()", "x"),
        ] {
            let rendered = environment.render_str(&format!("{{{{ {expression} }}}}"), ());
            assert_eq!(rendered.unwrap(), expected, "{expression}");
        }
        assert!(environment.render_str("{{ 'a'.index('b') }}", ()).is_err());
        assert!(
            environment
                .render_str("{{ 'a'.frobnicate() }}", ())
                .is_err()
        );
    }
}
