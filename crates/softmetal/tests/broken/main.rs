//! Broken kernels, each of which the checker must catch, and their corrected twins, which must pass.
//!
//! A twin is another instantiation of the same template: the two differ in the property under test only.

#![cfg(target_os = "linux")]

mod bindings;
mod case;
mod dispatches;
mod faults;
mod limits;
mod table;
mod tracking;

use case::Outcome;

/// What the checker says of a case's broken kernel, and that it says nothing of the correct one.
#[test]
fn every_broken_kernel_is_caught_and_its_twin_is_silent() {
    let mut wrong = Vec::new();
    for case in table::CASES {
        let broken = case.run("broken");
        let correct = case.run("correct");
        println!("{:<36} {}", case.kernel, broken.headlines().join(" | "));
        if !broken.reports.iter().any(|report| case.is_expected(report)) {
            wrong.push(format!(
                "{}: expected `{}`, found {:#?}",
                case.kernel,
                case.message,
                broken.headlines()
            ));
        }
        let fails = case.severity == "error";
        if broken.completed == fails {
            wrong.push(format!("{}: completed {}", case.kernel, broken.completed));
        }
        if !correct.reports.is_empty() || !correct.completed {
            wrong.push(format!(
                "{}: the twin is not silent: {:#?}",
                case.kernel,
                correct.headlines()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_run_gives_the_same_reports_again() {
    for case in table::CASES {
        let Outcome { reports, .. } = case.run("broken");
        assert_eq!(reports, case.run("broken").reports, "{}", case.kernel);
    }
}
