//! Split models whose parts are missing or disagree.

use std::fs;

use minfer_gguf::{Error, ErrorKind, Gguf, OpenOptions};

use crate::raw::{ARRAY, RawEntry, RawFile, U32, entry, string, tensor};

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

fn number(key: &str, value: u32) -> RawEntry {
    entry(key, U32, value.to_le_bytes())
}

/// Part `index` of three, with one tensor.
fn part(index: u32) -> RawFile {
    let mut file = RawFile::valid();
    file.entries = vec![number(NO, index), number(COUNT, 3), number(TENSORS, 3)];
    file.tensors = vec![tensor(&format!("tensor.{index}"), &[8], 0, 0)];
    file.data_len = 32;
    file
}

fn name(index: usize) -> String {
    format!("model-{:05}-of-00003.gguf", index + 1)
}

/// Opens part `named` of the three in a folder of their own.
fn open(parts: &[RawFile; 3], named: usize) -> Result<Gguf, Error> {
    let folder = tempfile::tempdir().unwrap();
    for (i, part) in parts.iter().enumerate() {
        fs::write(folder.path().join(name(i)), part.bytes()).unwrap();
    }
    Gguf::open(folder.path().join(name(named)), OpenOptions::default())
}

/// The error when part `changed` of three is `file`.
fn error_with(changed: usize, file: RawFile) -> Error {
    let mut parts = [part(0), part(1), part(2)];
    parts[changed] = file;
    let error = open(&parts, 1).unwrap_err();
    assert_eq!(error.file.file_name(), Some(name(changed).as_ref()));
    error
}

/// A part with another value of one key, or without the key.
fn with_key(index: u32, key: &str, value: Option<RawEntry>) -> RawFile {
    let mut file = part(index);
    file.entries.retain(|entry| entry.key != key.as_bytes());
    file.entries.extend(value);
    file
}

#[test]
fn parts_without_a_defect_open_whichever_is_named() {
    for named in 0..3 {
        let file = open(&[part(0), part(1), part(2)], named).unwrap();
        let names: Vec<_> = file.tensors().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["tensor.0", "tensor.1", "tensor.2"]);
        assert_eq!(file.paths().len(), 3);
    }
}

#[test]
fn all_missing_parts_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name(1));
    fs::write(&path, part(1).bytes()).unwrap();
    let error = Gguf::open(&path, OpenOptions::default()).unwrap_err();
    let ErrorKind::MissingParts { count: 3, missing } = &error.kind else {
        panic!("{error:?}");
    };
    assert_eq!(missing, &[name(0), name(2)]);
    assert!(
        error.to_string().contains("2 of 3 parts are missing"),
        "{error}"
    );
}

#[test]
fn a_wrong_or_absent_count_is_refused() {
    for index in 0..3 {
        for value in [None, Some(0), Some(1), Some(2), Some(4), Some(u32::MAX)] {
            let found = value.map(u64::from);
            let value = value.map(|count| number(COUNT, count));
            let error = error_with(index as usize, with_key(index, COUNT, value));
            let ErrorKind::SplitCount {
                expected: 3,
                found: actual,
            } = error.kind
            else {
                panic!("{error:?}");
            };
            assert_eq!(actual, found);
        }
    }
    let text = entry(COUNT, ARRAY, crate::raw::array(8, 1, &string(b"3")));
    let error = error_with(1, with_key(1, COUNT, Some(text)));
    assert!(
        matches!(error.kind, ErrorKind::WrongType { .. }),
        "{error:?}"
    );
}

#[test]
fn a_wrong_or_absent_index_is_refused() {
    for index in 0..3 {
        for value in [None, Some((index + 1) % 3), Some(3)] {
            let value = value.map(|index| number(NO, index));
            let error = error_with(index as usize, with_key(index, NO, value));
            assert!(
                matches!(error.kind, ErrorKind::SplitIndex { .. }),
                "{error:?}"
            );
        }
    }
}

#[test]
fn the_number_of_all_tensors_is_checked() {
    for count in [0, 2, 4] {
        let mut parts = [part(0), part(1), part(2)];
        parts[0] = with_key(0, TENSORS, Some(number(TENSORS, count)));
        let error = open(&parts, 0).unwrap_err();
        let ErrorKind::SplitTensors { expected, found: 3 } = error.kind else {
            panic!("{error:?}");
        };
        assert_eq!(expected, u64::from(count));
    }
}

#[test]
fn a_tensor_name_in_two_parts_is_refused() {
    let mut file = part(2);
    file.tensors[0].name = b"tensor.0".to_vec();
    let error = error_with(2, file);
    let ErrorKind::DuplicateTensor { tensor } = error.kind else {
        panic!("{error:?}");
    };
    assert_eq!(tensor, "tensor.0");
}

#[test]
fn a_defect_names_the_part_that_has_it() {
    let mut file = part(1);
    file.tensors[0].offset = 1;
    let error = error_with(1, file);
    assert!(
        matches!(error.kind, ErrorKind::Unaligned { .. }),
        "{error:?}"
    );
}

#[test]
fn a_part_with_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "model.gguf",
        "model-1-of-3.gguf",
        "model-00004-of-00003.gguf",
    ] {
        let path = folder.path().join(name);
        fs::write(&path, part(0).bytes()).unwrap();
        let error = Gguf::open(&path, OpenOptions::default()).unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::SplitName { count: 3 }),
            "{error:?}"
        );
    }
}

#[test]
fn files_that_cannot_be_read_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    for mmap in [true, false] {
        for path in [folder.path(), &folder.path().join("absent.gguf")] {
            let error = Gguf::open(path, OpenOptions { mmap }).unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Io { .. }), "{error:?}");
            assert_eq!(error.file, path);
        }
    }
}

#[test]
fn an_empty_file_is_not_a_gguf_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for mmap in [true, false] {
        let error = Gguf::open(file.path(), OpenOptions { mmap }).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::NotGguf { .. }), "{error:?}");
    }
}
