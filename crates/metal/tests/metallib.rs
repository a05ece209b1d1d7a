//! Kernels compiled in advance: how Apple's tools are called, and what is read in their place.

#![cfg(target_os = "linux")]

#[path = "../build/metallib.rs"]
mod build;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use build::Source;
use minfer_metal::device::{LibrarySource, SourceFile};
use minfer_metal::kernels::{self, MSL_VERSION, NORM, ROPE};
use minfer_metal::metallib::Metallib;

/// A stand-in for `xcrun`: writes its arguments down; a tool's result is its name before its input.
const XCRUN: &str = r#"#!/bin/sh
echo "$*" >>"$(dirname "$0")/calls"
tool=$3
case "$*" in *--version) exit 0 ;; esac
for argument; do
    [ "$previous" = -o ] && output=$argument
    case "$argument" in *.metal | *.air) [ "$previous" = -o ] || input=$argument ;; esac
    previous=$argument
done
if grep -q 'kernel void broken' "$input"; then
    echo "$input:3: no such thing" >&2
    exit 1
fi
{ echo "$tool"; cat "$input"; } >"$output"
"#;

fn xcrun(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("xcrun");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn shipped(file: SourceFile<'static>) -> LibrarySource {
    kernels::library(file).unwrap()
}

#[test]
fn every_file_is_compiled_from_the_text_that_devices_get() {
    let folder = tempfile::tempdir().unwrap();
    let xcrun = xcrun(folder.path(), XCRUN);
    let out = folder.path().join("out");
    let texts = [NORM, ROPE].map(shipped);
    let sources = texts.each_ref().map(|text| Source {
        name: text.name(),
        text: text.text(),
    });
    let libraries = build::compile(xcrun.as_os_str(), &out, &sources).unwrap();
    assert_eq!(
        libraries,
        [out.join("norm.metallib"), out.join("rope.metallib")]
    );
    for (library, text) in libraries.iter().zip(&texts) {
        let expected = format!("metallib\nmetal\n{}", text.text());
        assert_eq!(fs::read_to_string(library).unwrap(), expected);
    }
    let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
    let calls: Vec<_> = calls.lines().collect();
    assert_eq!(calls.len(), 5, "{calls:?}");
    let (major, minor) = MSL_VERSION;
    let at = out.display();
    assert_eq!(calls[0], "-sdk macosx metal --version");
    assert_eq!(
        calls[1],
        format!(
            "-sdk macosx metal -fno-fast-math -std=metal{major}.{minor} -mmacosx-version-min=14.0 \
             -c {at}/norm.metal -o {at}/norm.air"
        )
    );
    assert_eq!(
        calls[2],
        format!("-sdk macosx metallib {at}/norm.air -o {at}/norm.metallib")
    );
    let paths = ["norm.metal", "rope.metal"].into_iter().zip(&libraries);
    let table = build::table(paths.map(|(name, path)| (name, path.as_path())));
    let entry = format!("    (\"norm.metal\", include_bytes!(\"{at}/norm.metallib\").as_slice()),");
    assert_eq!(table.lines().nth(1), Some(entry.as_str()));
    assert_eq!(
        (build::table([].into_iter()).as_str(), table.lines().count()),
        ("&[\n]\n", 4)
    );
}

#[test]
fn missing_tools_and_broken_kernels_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let compile = |xcrun: &Path, text| {
        let source = Source {
            name: "broken.metal",
            text,
        };
        build::compile(xcrun.as_os_str(), &out, &[source]).unwrap_err()
    };
    let nowhere = folder.path().join("nowhere");
    let error = compile(&nowhere, "");
    assert!(
        error.contains("nowhere") && error.contains("No such file"),
        "{error}"
    );
    let broken = compile(&xcrun(folder.path(), XCRUN), "kernel void broken() {}");
    assert!(broken.contains("broken.metal:3: no such thing"), "{broken}");
    let without = "#!/bin/sh\necho 'missing Metal Toolchain' >&2; exit 1\n";
    let error = compile(&xcrun(folder.path(), without), "");
    assert!(error.ends_with("missing Metal Toolchain"), "{error}");
}

#[test]
fn a_library_from_elsewhere_is_read_or_named_and_is_for_shipped_kernels_only() {
    let folder = tempfile::tempdir().unwrap();
    let norm = shipped(NORM);
    let other = SourceFile {
        name: NORM.name,
        text: "kernel void rms_norm() {}\n",
    };
    let other = LibrarySource::new(other, &[]).unwrap();
    let file = folder.path().join("norm.metallib");
    fs::write(&file, b"MTLBnorm").unwrap();
    for metallib in [
        Metallib::File(file.clone()),
        Metallib::Folder(folder.path().to_owned()),
    ] {
        metallib.check().unwrap();
        let found = metallib.find(&norm).unwrap();
        assert_eq!(found.as_deref(), Some(b"MTLBnorm".as_slice()));
        assert_eq!(metallib.find(&other).unwrap(), None);
    }
    // Built without Apple's compiler.
    for metallib in [Metallib::Embedded, Metallib::Sources] {
        metallib.check().unwrap();
        assert_eq!(metallib.find(&norm).unwrap(), None);
    }

    let error = |metallib: &Metallib| metallib.find(&norm).unwrap_err().to_string();
    let missing = folder.path().join("missing");
    let name = missing.display();
    let expected =
        format!("library `{name}` cannot be used here: No such file or directory (os error 2)");
    assert_eq!(error(&Metallib::File(missing.clone())), expected);
    assert_eq!(
        Metallib::File(missing.clone())
            .check()
            .unwrap_err()
            .to_string(),
        expected
    );
    let expected = format!("library `{name}` cannot be used here: it is no folder");
    assert_eq!(
        Metallib::Folder(missing.clone())
            .check()
            .unwrap_err()
            .to_string(),
        expected
    );
    let rope = Metallib::Folder(folder.path().to_owned()).find(&shipped(ROPE));
    let rope = rope.unwrap_err().to_string();
    assert!(
        rope.contains("rope.metallib` cannot be used here: No such file"),
        "{rope}"
    );
    fs::write(&file, "text").unwrap();
    let text = error(&Metallib::File(file));
    assert!(text.ends_with("norm.metallib` cannot be used here: it is no compiled Metal library"));
}
