//! What can be wrong with a GGUF file.

use std::path::{Path, PathBuf};

use crate::{TensorInfo, TensorType};

/// A file, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", file.display())]
pub struct Error {
    /// The file (for a split model, the part).
    pub file: PathBuf,
    /// The defect.
    pub kind: ErrorKind,
}

impl Error {
    pub(crate) fn new(file: &Path, kind: ErrorKind) -> Self {
        Error {
            file: file.to_owned(),
            kind,
        }
    }

    pub(crate) fn duplicate_tensor(file: &Path, second: &TensorInfo) -> Self {
        let tensor = second.name.clone();
        Error::new(file, ErrorKind::DuplicateTensor { tensor })
    }
}

/// A defect of a GGUF file, naming the metadata key or the tensor it concerns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read, map or write the file.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file does not start with the GGUF magic.
    #[error("not a GGUF file: {}", beginning(start))]
    NotGguf {
        /// The first bytes, at most four.
        start: Vec<u8>,
    },
    /// The file is meant for big-endian machines.
    #[error("a big-endian GGUF file; only little-endian files can be read")]
    BigEndian,
    /// The format version is neither 2 nor 3.
    #[error("GGUF version {version} cannot be read; versions 2 and 3 can")]
    Version {
        /// The version in the header.
        version: u32,
    },
    /// The file ends inside a header field.
    #[error(
        "the file ends inside {place}: {needed} bytes needed at offset {offset}, {left} are left"
    )]
    Truncated {
        /// The field.
        place: String,
        /// Where the field starts.
        offset: usize,
        /// Bytes of the field.
        needed: usize,
        /// Bytes between `offset` and the end of the file.
        left: usize,
    },
    /// A count is larger than the rest of the file could hold.
    #[error("{place} is {count}, but the rest of the file has room for {most} at most")]
    Count {
        /// The count's field.
        place: String,
        /// The count in the file.
        count: u64,
        /// The largest count that the remaining bytes could hold.
        most: usize,
    },
    /// A string is longer than the rest of the file.
    #[error("{place} is a string of {len} bytes, but only {left} bytes of the file are left")]
    StringLength {
        /// The string's field.
        place: String,
        /// The length in the file.
        len: u64,
        /// Bytes left after the length.
        left: usize,
    },
    /// A string is not valid UTF-8.
    #[error("{place} is not valid UTF-8")]
    Utf8 {
        /// The string's field.
        place: String,
    },
    /// A metadata value has a type code that the format does not define.
    #[error("the value of key `{key}` has the unknown type {code}")]
    ValueType {
        /// The metadata key.
        key: String,
        /// The unknown code.
        code: u32,
    },
    /// A metadata array has an element type code that the format does not define.
    #[error("the array of key `{key}` has the unknown element type {code}")]
    ElementType {
        /// The metadata key.
        key: String,
        /// The unknown code.
        code: u32,
    },
    /// Arrays are nested too deeply.
    #[error("the arrays of key `{key}` are nested more than {most} deep")]
    ArrayDepth {
        /// The metadata key.
        key: String,
        /// The deepest nesting that is read.
        most: usize,
    },
    /// A boolean is stored as something else than 0 or 1.
    #[error("the value of key `{key}` is the boolean {found}, which is neither 0 nor 1")]
    Bool {
        /// The metadata key.
        key: String,
        /// The byte in the file.
        found: u8,
    },
    /// Two metadata entries have the same key.
    #[error("the key `{key}` appears twice")]
    DuplicateKey {
        /// The metadata key.
        key: String,
    },
    /// The alignment of tensor data is not a power of two.
    #[error("the value of key `general.alignment` is {found}, which is not a power of two")]
    Alignment {
        /// The alignment in the file.
        found: u32,
    },
    /// A tensor has no dimension, or more than the format allows.
    #[error("tensor `{tensor}` has {found} dimensions; 1 to {most} are possible")]
    DimensionCount {
        /// The tensor.
        tensor: String,
        /// The number of dimensions in the file.
        found: u32,
        /// The most that the format allows.
        most: usize,
    },
    /// A dimension of a tensor is zero.
    #[error("tensor `{tensor}` has the shape {shape:?}, with a dimension of zero")]
    ZeroDimension {
        /// The tensor.
        tensor: String,
        /// Its dimensions, innermost first.
        shape: Vec<u64>,
    },
    /// A tensor has an element type code that this version does not know.
    #[error("tensor `{tensor}` has the unknown element type {code}")]
    TensorType {
        /// The tensor.
        tensor: String,
        /// The unknown code.
        code: u32,
    },
    /// The innermost dimension is not a whole number of blocks.
    #[error(
        "tensor `{tensor}` has rows of {len} elements, not a multiple of the {} of a {ty} block",
        ty.block_len()
    )]
    RowLength {
        /// The tensor.
        tensor: String,
        /// Its element type.
        ty: TensorType,
        /// Elements per row.
        len: u64,
    },
    /// The size of a tensor, or its end in the file, overflows.
    #[error("the size of tensor `{tensor}` with shape {shape:?} at offset {offset} overflows")]
    SizeOverflow {
        /// The tensor.
        tensor: String,
        /// Its dimensions, innermost first.
        shape: Vec<u64>,
        /// Its offset in the data section.
        offset: u64,
    },
    /// A tensor's offset is not a multiple of the alignment.
    #[error("tensor `{tensor}` is at offset {offset}, not a multiple of the alignment {alignment}")]
    Unaligned {
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// The alignment of the file.
        alignment: u64,
    },
    /// A tensor ends after the end of the file.
    #[error(
        "tensor `{tensor}` needs {len} bytes at offset {offset} of the data, which has {available}"
    )]
    OutsideFile {
        /// The tensor.
        tensor: String,
        /// Its offset in the data section.
        offset: u64,
        /// Its bytes.
        len: u64,
        /// Bytes of the data section in the file.
        available: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    Overlap {
        /// The tensor that starts first.
        first: String,
        /// The other one.
        second: String,
    },
    /// Two tensors of the model have the same name.
    #[error("the tensor name `{tensor}` appears twice")]
    DuplicateTensor {
        /// The name.
        tensor: String,
    },
    /// Parts of a split model are not beside the part that was named.
    #[error("{} of {count} parts are missing: {}", missing.len(), missing.join(", "))]
    MissingParts {
        /// Parts of the whole model.
        count: usize,
        /// File names of all missing parts.
        missing: Vec<String>,
    },
    /// A part of a split model whose file name does not say which part.
    #[error(
        "one of {count} parts of a split model, but the file name does not end in \
         `-00001-of-{count:05}.gguf`, so the other parts cannot be found"
    )]
    SplitName {
        /// The value of `split.count`.
        count: u64,
    },
    /// `split.count` disagrees with the file name.
    #[error("the file name says {expected} parts, the key `split.count` says {}", or_nothing(*found))]
    SplitCount {
        /// Parts according to the file name.
        expected: usize,
        /// Parts according to the metadata.
        found: Option<u64>,
    },
    /// `split.no` disagrees with the file name.
    #[error("the file name says part {expected} (from 0), the key `split.no` says {}", or_nothing(*found))]
    SplitIndex {
        /// Index of the part according to the file name, from 0.
        expected: usize,
        /// Index according to the metadata, from 0.
        found: Option<u64>,
    },
    /// `split.tensors.count` disagrees with the parts.
    #[error("the key `split.tensors.count` says {expected} tensors, the parts hold {found}")]
    SplitTensors {
        /// Tensors according to the metadata of the first part.
        expected: u64,
        /// Tensors in all parts.
        found: usize,
    },
    /// A required metadata key is absent.
    #[error("the key `{key}` is missing")]
    MissingKey {
        /// The metadata key.
        key: String,
    },
    /// A metadata value has another type than asked for.
    #[error("the value of key `{key}` has the type {found}, expected {expected}")]
    WrongType {
        /// The metadata key.
        key: String,
        /// What was asked for.
        expected: &'static str,
        /// What the file has: a scalar type, or the element type of an array.
        found: String,
    },
    /// An integer does not fit the type asked for.
    #[error("the value {found} of key `{key}` does not fit {expected}")]
    OutOfRange {
        /// The metadata key.
        key: String,
        /// What was asked for.
        expected: &'static str,
        /// The value in the file.
        found: i128,
    },
    /// A tensor to be written has other bytes than its type and shape need.
    #[error("tensor `{tensor}` has {found} bytes; {ty} with shape {shape:?} needs {expected}")]
    TensorBytes {
        /// The tensor.
        tensor: String,
        /// Its element type.
        ty: TensorType,
        /// Its dimensions, innermost first.
        shape: Vec<usize>,
        /// Bytes needed.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
}

fn beginning(start: &[u8]) -> String {
    if start.is_empty() {
        "it is empty".to_owned()
    } else {
        format!(
            "it starts with \"{}\" instead of \"GGUF\"",
            start.escape_ascii()
        )
    }
}

fn or_nothing(value: Option<u64>) -> String {
    value.map_or("nothing".to_owned(), |v| v.to_string())
}
