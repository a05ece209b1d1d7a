//! The kernels keep the rules that Apple's compiler enforces, and their pointers their address spaces.

#![cfg(target_os = "linux")]

use std::path::Path;

use minfer_metal::kernels;
use minfer_softmetal::lint;

#[test]
fn kernels_have_no_findings() {
    let mut found = Vec::new();
    for file in kernels::ALL {
        let source = kernels::library(*file).unwrap();
        found.extend(lint::check(&source, Path::new("clang-19")).unwrap());
    }
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
