//! What is said of sources without running them.

#![cfg(target_os = "linux")]

mod address_spaces;
mod barriers;
mod rules;
mod sources;

use minfer_metal::device::{LibrarySource, SourceFile};

/// A library of one file, `test.metal`.
pub fn library(text: &str) -> LibrarySource {
    let file = SourceFile {
        name: "test.metal",
        text,
    };
    LibrarySource::new(file, &[]).unwrap()
}
