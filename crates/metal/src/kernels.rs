//! The kernels' sources.

use crate::arguments;
use crate::device::{LibrarySource, SourceError, SourceFile};

macro_rules! kernel_file {
    ($name:literal) => {
        SourceFile {
            name: $name,
            text: include_str!(concat!("../kernels/", $name)),
        }
    };
}

/// Operations on corresponding elements.
pub const ELEMENTWISE: SourceFile<'static> = kernel_file!("elementwise.metal");

/// A kernel file with its headers in place.
pub fn library(file: SourceFile<'_>) -> Result<LibrarySource, SourceError> {
    LibrarySource::new(file, &[arguments::HEADER])
}
