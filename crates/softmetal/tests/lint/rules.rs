//! Every rule with a source that breaks it, and its corrected twin.

mod declarations;
mod language;
mod parameters;
mod pointers;

use std::collections::HashSet;
use std::path::Path;

use minfer_softmetal::lint;

use crate::library;

/// A source, with `@` where the fault is.
pub struct Case {
    pub rule: &'static str,
    pub source: &'static str,
    /// What stands for `@`: in the broken source, and in the correct one.
    pub fault: [&'static str; 2],
    /// Line and column of the finding.
    pub place: (u32, u32),
    /// A part of its message.
    pub message: &'static str,
}

impl Case {
    fn text(&self, fault: &str) -> String {
        let source = self.source.replace('@', fault);
        format!(
            "#include <metal_stdlib>\nusing namespace metal;\n#line 1 \"case.metal\"\n{source}\n"
        )
    }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let tables = [
        declarations::CASES,
        language::CASES,
        parameters::CASES,
        pointers::CASES,
    ];
    tables.into_iter().flatten()
}

#[test]
fn every_breach_is_found_where_it_is_and_its_twin_is_silent() {
    let mut wrong = Vec::new();
    for case in cases() {
        let (line, column) = case.place;
        let expected = format!("case.metal:{line}:{column}: {}: ", case.rule);
        let broken = lint::rules(&library(&case.text(case.fault[0])));
        let broken: Vec<_> = broken.iter().map(ToString::to_string).collect();
        let is_expected =
            |found: &String| found.starts_with(&expected) && found.contains(case.message);
        if broken.len() != 1 || !is_expected(&broken[0]) {
            wrong.push(format!(
                "{}: expected {expected}{}, found {broken:#?}",
                case.source, case.message
            ));
        }
        let correct =
            lint::check(&library(&case.text(case.fault[1])), Path::new("clang-19")).unwrap();
        if !correct.is_empty() {
            wrong.push(format!(
                "{}: the twin is not silent: {correct:#?}",
                case.source
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    let covered: HashSet<_> = cases().map(|case| case.rule).collect();
    let rules: HashSet<_> = lint::RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(covered, rules);
}

#[test]
fn functions_that_call_each_other_are_found() {
    let text = |last: &str| {
        format!(
            "uint g(uint n);\nuint f(uint n) {{ return g(n); }}\nuint h(uint n) {{ return f(n); }}\n\
                 uint g(uint n) {{ return {last}(n); }}\nuint i(uint n) {{ return h(n); }}\n"
        )
    };
    let lines = |last: &str| -> Vec<_> {
        let found = lint::check(&library(&text(last)), Path::new("clang-19")).unwrap();
        found
            .iter()
            .map(|finding| (finding.rule, finding.place.line))
            .collect()
    };
    assert_eq!(
        lines("h"),
        [("recursion", 2), ("recursion", 3), ("recursion", 4)]
    );
    assert_eq!(lines("uint"), []);
}

#[test]
fn a_line_allows_a_rule_with_its_reason() {
    let text = |comment: &str| format!("constant int a = sizeof(double);{comment}\n");
    let found = |text: &str| {
        lint::check(&library(text), Path::new("clang-19"))
            .unwrap()
            .len()
    };
    let silent = found("constant int a = sizeof(float);\n");
    assert_eq!(silent, 0);
    let with_reason = found(&text(" // softmetal: allow(double): a size only"));
    let without = found(&text(" // softmetal: allow(double):"));
    let another = found(&text(" // softmetal: allow(goto): a size only"));
    assert_eq!(without - with_reason, 1);
    assert_eq!(another, without);
}
