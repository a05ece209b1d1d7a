//! Malformed files: each is refused with the error that names the defect, none panics.

mod counts;
mod metadata;
mod raw;
mod split;
mod start;
mod tensors;
mod truncation;

use std::path::Path;

use minfer_gguf::{ErrorKind, Gguf};

use raw::RawFile;

/// A defect and the error it must give.
pub struct Case {
    what: String,
    bytes: Vec<u8>,
    expected: fn(&ErrorKind) -> bool,
    /// The key, tensor or value that the message must name.
    named: String,
}

/// Pushes a [`Case`]: the defect, the file, the pattern of the error, what the message names.
macro_rules! case {
    ($cases:expr, $what:expr, $file:expr, $named:expr, $pattern:pat) => {
        $cases.push($crate::Case {
            what: $what.to_string(),
            bytes: $file,
            expected: |kind| matches!(kind, $pattern),
            named: $named.to_string(),
        })
    };
}
pub(crate) use case;

#[test]
fn the_file_without_a_defect_opens() {
    let file = Gguf::parse_bytes("valid.gguf", RawFile::valid().bytes()).unwrap();
    assert_eq!(file.metadata().len(), 25);
    assert_eq!(file.tensors().len(), 4);
    let mut version_2 = RawFile::valid();
    version_2.version = 2;
    let file = Gguf::parse_bytes("valid.gguf", version_2.bytes()).unwrap();
    assert_eq!(file.version(), 2);
}

#[test]
fn every_defect_gives_its_error() {
    let groups = [
        ("start", start::cases()),
        ("counts", counts::cases()),
        ("metadata", metadata::cases()),
        ("tensors", tensors::cases()),
        ("truncation", truncation::cases()),
    ];
    let mut count = 0;
    for (group, cases) in groups {
        println!("{group}: {} files", cases.len());
        count += cases.len();
        for case in cases {
            check(case);
        }
    }
    println!("{count} malformed files");
    assert!(count >= 200, "{count}");
}

fn check(case: Case) {
    let what = case.what;
    let error = match Gguf::parse_bytes("broken.gguf", case.bytes) {
        Ok(_) => panic!("{what}: accepted"),
        Err(error) => error,
    };
    assert!((case.expected)(&error.kind), "{what}: {error:?}");
    assert_eq!(error.file, Path::new("broken.gguf"), "{what}");
    let message = error.to_string();
    assert!(message.starts_with("broken.gguf: "), "{what}: {message}");
    assert!(message.contains(&case.named), "{what}: {message}");
}
