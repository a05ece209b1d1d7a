//! Bundles that are none.

use std::path::Path;

use minfer_metal::replay::Bundle;
use serde_json::{Value, json};

use crate::scene;

const FIRST: &str = "dispatches/0000-turn.json";

/// The error of a bundle with a changed file.
fn refusal(file: &str, change: impl FnOnce(&mut Value)) -> String {
    let folder = scene::recorded();
    scene::edit(&folder.path().join(file), change);
    error(folder.path())
}

fn error(folder: &Path) -> String {
    let error = Bundle::open(folder).unwrap_err().to_string();
    let folder = folder.to_str().unwrap();
    assert!(error.contains(folder), "{error} does not name its file");
    error.replace(folder, "BUNDLE")
}

#[test]
fn the_unchanged_bundle_is_one() {
    let folder = scene::recorded();
    scene::edit(&folder.path().join(FIRST), |_| {});
    let bundle = Bundle::open(folder.path()).unwrap();
    assert_eq!(bundle.dispatches().len(), 3);
    assert_eq!(bundle.device(), "software device (Apple M1)");
}

#[test]
fn names_that_lead_out_of_the_folder_are_refused() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), [0; 64]).unwrap();
    let absolute = outside.path().to_str().unwrap();
    for name in [
        "../bundle.json",
        absolute,
        "data/../../x",
        ".",
        "",
        "data\\x",
    ] {
        let message = format!("`{name}` is no path below the bundle's folder");
        let source = refusal(FIRST, |value| value["launch"]["source"] = name.into());
        assert_eq!(source, format!("BUNDLE/{FIRST}: {message}"));
        let before = refusal(FIRST, |value| value["memory"][0]["before"] = name.into());
        assert_eq!(before, format!("BUNDLE/{FIRST}: {message}"));
        let after = refusal(FIRST, |value| value["memory"][0]["after"] = name.into());
        assert_eq!(after, format!("BUNDLE/{FIRST}: {message}"));
        let dispatch = refusal("bundle.json", |value| value["dispatches"][1] = name.into());
        assert_eq!(dispatch, format!("BUNDLE/bundle.json: {message}"));
    }
}

#[test]
fn files_that_are_missing_or_of_another_size_are_named() {
    let folder = scene::recorded();
    let first = scene::json(&folder.path().join(FIRST));
    let after = first["memory"][0]["after"].as_str().unwrap();
    let path = folder.path().join(after);
    std::fs::write(&path, [0; 63]).unwrap();
    let expected = format!("BUNDLE/{after} has 63 bytes, its description says 64");
    assert_eq!(error(folder.path()), expected);
    std::fs::remove_file(&path).unwrap();
    let missing = error(folder.path());
    assert!(
        missing.starts_with(&format!("cannot read BUNDLE/{after}: ")),
        "{missing}"
    );
    std::fs::remove_file(folder.path().join("bundle.json")).unwrap();
    let no_index = error(folder.path());
    assert!(
        no_index.starts_with("cannot read BUNDLE/bundle.json: "),
        "{no_index}"
    );
}

#[test]
fn another_version_is_refused_by_its_number() {
    let refused = refusal("bundle.json", |value| {
        *value = json!({"format": 2, "cases": []});
    });
    assert_eq!(refused, "BUNDLE/bundle.json: format 2, but only 1 is known");
}

#[test]
fn descriptions_that_contradict_themselves_are_refused() {
    let buffer = |field: &str, value: Value| {
        let field = field.to_owned();
        refusal(FIRST, move |description| {
            description["launch"]["buffers"][0][field] = value;
        })
    };
    let message = |text: &str| format!("BUNDLE/{FIRST}: {text}");
    assert_eq!(
        buffer("memory", json!(3)),
        message("buffer 1: memory 3 of 3")
    );
    let outside = message("buffer 1: 65 bytes at 0 of 64 bytes");
    assert_eq!(buffer("bytes", json!(65)), outside);
    let overflow = message("buffer 1: 64 bytes at 18446744073709551615 of 64 bytes");
    assert_eq!(buffer("offset", json!(u64::MAX)), overflow);
    let constant = refusal(FIRST, |value| {
        value["launch"]["constants"][0]["bytes"] = "02".into();
    });
    let expected = "function constant 2: 1 bytes are no Bool";
    assert_eq!(constant, message(expected));
    let unwritten = refusal(FIRST, |value| value["memory"][0]["after"] = Value::Null);
    let expected = "buffer 1 is written, but memory 0 has no contents after";
    assert_eq!(unwritten, message(expected));
    let unknown = refusal(FIRST, |value| value["launch"]["gird"] = json!([1, 1, 1]));
    assert!(unknown.contains("gird"), "{unknown}");
    let digits = refusal(FIRST, |value| {
        value["launch"]["values"][0]["bytes"] = "0x".into();
    });
    assert!(digits.contains("`0x` is not hexadecimal"), "{digits}");
}
