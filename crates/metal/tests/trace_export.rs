//! `scripts/export_trace.sh`, with a recording that is made up from the documented format.

#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/trace");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts");

/// A stand-in for `xcrun`: gives the contents of a recording, or the table that a path names.
const XCRUN: &str = r#"#!/bin/sh
[ "$1 $2 $3 $4" = "xctrace export --input made-up.trace" ] || { echo "unexpected: $*" >&2; exit 9; }
case "$5 $6" in
"--toc ") cat "$FIXTURES/toc.xml" ;;
'--xpath /trace-toc/run[@number="2"]/data/table[@schema="metal-shader-profiler-intervals"]')
    cat "$FIXTURES/metal-shader-profiler-intervals.xml" ;;
*) echo "unexpected: $*" >&2; exit 9 ;;
esac
"#;

fn export(folder: &Path, process: Option<&str>) -> Output {
    let xcrun = folder.join("xcrun");
    fs::write(&xcrun, XCRUN).unwrap();
    fs::set_permissions(&xcrun, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let path = [folder.to_owned()].into_iter().chain(folders);
    let mut command = Command::new(format!("{SCRIPTS}/export_trace.sh"));
    command
        .args(["made-up.trace", "2"])
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("FIXTURES", FIXTURES)
        .env_remove("TRACE_PROCESS");
    if let Some(process) = process {
        command.env("TRACE_PROCESS", process);
    }
    command.output().unwrap()
}

fn text(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn durations_are_summed_by_kernel_across_references() {
    let folder = tempfile::tempdir().unwrap();
    let expected = "\
metal-shader-profiler-intervals
   calls    total ms   mean us    max us  name
       1       1.500    1500.0    1500.0  blur
       1       1.500    1500.0    1500.0  gemm_q4_k
       3       0.010       3.3       4.0  rms_norm
";
    assert_eq!(text(&export(folder.path(), None)), expected);
    let own = text(&export(folder.path(), Some("minfer")));
    assert_eq!(
        own,
        expected.replace("       1       1.500    1500.0    1500.0  blur\n", "")
    );
}

#[test]
fn what_is_no_table_of_durations_is_an_error_that_lists_its_columns() {
    let parse = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.xml");
        fs::write(&file, text).unwrap();
        let mut command = Command::new("python3");
        let output = command
            .arg(format!("{SCRIPTS}/trace_durations.py"))
            .arg(&file);
        let output = output.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    };
    let row = |columns: &str, values: &str| {
        format!("<r><node><schema>{columns}</schema><row>{values}</row></node></r>")
    };
    let time = "<col><mnemonic>time</mnemonic></col>";
    assert_eq!(
        parse(&row(time, "<start-time id=\"1\">5</start-time>")),
        "trace_durations: no durations with names, columns are: time"
    );
    assert_eq!(
        parse(&row(time, "<start-time ref=\"8\"/>")),
        "trace_durations: column time refers to id 8, which is nowhere"
    );
    let error = parse("<r><node>");
    assert!(
        error.starts_with("trace_durations: no element found"),
        "{error}"
    );
}
