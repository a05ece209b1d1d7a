//! Kernels that were compiled in advance.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use crate::device::{DeviceError, LibrarySource};
use crate::kernels;

/// Libraries by name of their kernel file, compiled with this crate; none where Apple's compiler was missing.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/metallibs.rs"));

/// First bytes of a compiled library.
const MAGIC: &[u8] = b"MTLB";

/// Where an Apple device has minfer's kernels from. Other sources are compiled when they are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Metallib {
    /// Compiled with this crate, where Apple's compiler was there then; else compiled when first used.
    #[default]
    Embedded,
    /// Compiled when first used.
    Sources,
    /// One library with the kernels of all files.
    File(PathBuf),
    /// A folder with a library for each kernel file: `norm.metallib` for `norm.metal`.
    Folder(PathBuf),
}

impl Metallib {
    /// An error that names the path unless there is something to read.
    pub fn check(&self) -> Result<(), DeviceError> {
        match self {
            Metallib::Embedded | Metallib::Sources => Ok(()),
            Metallib::File(file) => read(file).map(|_| ()),
            Metallib::Folder(folder) if folder.is_dir() => Ok(()),
            Metallib::Folder(folder) => Err(unusable(folder, "it is no folder".to_owned())),
        }
    }

    /// The compiled library that has a source's kernels; `None` if the source is to be compiled.
    ///
    /// # Errors
    /// A file that cannot be read, or is no compiled library.
    pub fn find(&self, source: &LibrarySource) -> Result<Option<Cow<'static, [u8]>>, DeviceError> {
        if !is_shipped(source) {
            return Ok(None);
        }
        let name = source.name();
        match self {
            Metallib::Sources => Ok(None),
            Metallib::Embedded => {
                let mut embedded = EMBEDDED.iter();
                let library = embedded.find(|(file, _)| *file == name);
                Ok(library.map(|(_, bytes)| Cow::Borrowed(*bytes)))
            }
            Metallib::File(file) => read(file).map(Some),
            Metallib::Folder(folder) => {
                read(&folder.join(Path::new(name).with_extension("metallib"))).map(Some)
            }
        }
    }
}

/// Whether a source is one of minfer's, to the last letter.
fn is_shipped(source: &LibrarySource) -> bool {
    let mut files = kernels::ALL.iter();
    let file = files.find(|file| file.name == source.name());
    file.is_some_and(|&file| kernels::library(file).as_ref() == Ok(source))
}

fn read(path: &Path) -> Result<Cow<'static, [u8]>, DeviceError> {
    let bytes = fs::read(path).map_err(|error| unusable(path, error.to_string()))?;
    match bytes.starts_with(MAGIC) {
        true => Ok(Cow::Owned(bytes)),
        false => Err(unusable(path, "it is no compiled Metal library".to_owned())),
    }
}

fn unusable(path: &Path, message: String) -> DeviceError {
    DeviceError::Library {
        library: path.display().to_string(),
        message,
    }
}
