//! Overloads that differ in address spaces only.

use std::collections::HashMap;

use super::finding::LintFinding;
use super::signature::parameters;
use super::text::{Text, is_space};

/// They make two functions of one, of which a C++ build sees only one definition.
pub(super) fn check(text: &Text<'_>, found: &mut Vec<LintFinding>) {
    let mut seen: HashMap<(Option<&str>, &str, String), String> = HashMap::new();
    for (declaration, function) in text.functions() {
        if function.body.is_none() || function.name == "operator" {
            continue;
        }
        let parameters = parameters(text, function.parameters.clone());
        let types = |with_spaces: bool| {
            let each = parameters.iter().map(|parameter| {
                let named = parameter.declaration.len() > 1;
                let kept = parameter.declaration.iter().filter(|token| {
                    let is_name = named && token.text == parameter.name;
                    !is_name && (with_spaces || !is_space(token))
                });
                kept.map(|token| token.text).collect::<Vec<_>>().join(" ")
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let (written, bare) = (types(true), types(false));
        let key = (declaration.owner, function.name, bare);
        let other = seen.insert(key, written.clone());
        if other.is_some_and(|other| other != written) {
            found.push(text.finding(
                text.tokens[function.at].start,
                "overload",
                format!(
                    "another `{}` differs in address spaces only: name them apart",
                    function.name
                ),
            ));
        }
    }
}
