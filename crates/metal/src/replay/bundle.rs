//! Reads a bundle.

use std::fs;
use std::path::{Component, Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::ReplayError;
use super::format::{Binding, Description, FORMAT, Index, Memory, Role};
use super::writer::INDEX;

/// A replay bundle whose files are there and fit together.
///
/// Kernels of a bundle run as they are: replay only bundles that you trust.
#[derive(Clone, Debug)]
pub struct Bundle {
    folder: PathBuf,
    index: Index,
    descriptions: Vec<Description>,
}

impl Bundle {
    /// Reads and checks a bundle, all but the contents of its memory.
    pub fn open(folder: &Path) -> Result<Self, ReplayError> {
        let path = folder.join(INDEX);
        // The version first: another one may have other fields.
        let version: Version = read_json(&path)?;
        if version.format != FORMAT {
            let found = version.format;
            return Err(ReplayError::Format { path, found });
        }
        let mut bundle = Bundle {
            folder: folder.to_owned(),
            index: read_json(&path)?,
            descriptions: Vec::new(),
        };
        for file in &bundle.index.dispatches {
            let path = bundle.path(&path, file)?;
            let description: Description = read_json(&path)?;
            bundle.check(&path, &description)?;
            bundle.descriptions.push(description);
        }
        Ok(bundle)
    }

    /// Name of the device that was recorded.
    pub fn device(&self) -> &str {
        &self.index.device
    }

    /// The dispatches with the files that describe them.
    pub fn dispatches(&self) -> impl ExactSizeIterator<Item = (&str, &Description)> {
        let files = self.index.dispatches.iter().map(String::as_str);
        files.zip(&self.descriptions)
    }

    /// Bytes of a file that a checked description names.
    pub(super) fn read(&self, file: &str) -> Result<Vec<u8>, ReplayError> {
        let path = self.folder.join(file);
        fs::read(&path).map_err(ReplayError::file("read", path))
    }

    /// Text of a source that a checked description names.
    pub(super) fn read_text(&self, file: &str) -> Result<String, ReplayError> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).map_err(ReplayError::file("read", path))
    }

    /// Path of a file that the file at `by` names.
    fn path(&self, by: &Path, name: &str) -> Result<PathBuf, ReplayError> {
        let mut components = Path::new(name).components();
        let inside = components.all(|part| matches!(part, Component::Normal(_)));
        if inside && !name.is_empty() && !name.contains('\\') {
            return Ok(self.folder.join(name));
        }
        Err(ReplayError::Name {
            path: by.to_owned(),
            name: name.to_owned(),
        })
    }

    fn check(&self, path: &Path, description: &Description) -> Result<(), ReplayError> {
        let launch = &description.launch;
        self.check_length(path, &launch.source, None)?;
        for memory in &description.memory {
            let bytes = Some(memory.bytes as u64);
            self.check_length(path, &memory.before, bytes)?;
            if let Some(after) = &memory.after {
                self.check_length(path, after, bytes)?;
            }
        }
        let contradiction = contradiction(description);
        contradiction.map_or(Ok(()), |reason| {
            let path = path.to_owned();
            Err(ReplayError::Invalid { path, reason })
        })
    }

    /// The file is there, and as long as it is said to be.
    fn check_length(
        &self,
        by: &Path,
        name: &str,
        expected: Option<u64>,
    ) -> Result<(), ReplayError> {
        let path = self.path(by, name)?;
        let found = fs::metadata(&path).map_err(ReplayError::file("read", &path))?;
        let found = found.len();
        match expected.filter(|&expected| expected != found) {
            None => Ok(()),
            Some(expected) => Err(ReplayError::Length {
                path,
                found,
                expected,
            }),
        }
    }
}

/// The field that every version has.
#[derive(serde::Deserialize)]
struct Version {
    format: u32,
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, ReplayError> {
    let text = fs::read(path).map_err(ReplayError::file("read", path))?;
    serde_json::from_slice(&text).map_err(|source| ReplayError::Json {
        path: path.to_owned(),
        source,
    })
}

/// Why a description cannot be launched, if so.
fn contradiction(description: &Description) -> Option<String> {
    let launch = &description.launch;
    let constants = launch.constants.iter();
    let constants = constants.filter(|constant| constant.value().is_none());
    let constants = constants.map(|constant| {
        let (index, ty, bytes) = (constant.index, constant.ty, constant.bytes.0.len());
        format!("function constant {index}: {bytes} bytes are no {ty:?}")
    });
    let bindings = launch.buffers.iter();
    let bindings = bindings.filter_map(|binding| unbindable(binding, &description.memory));
    constants.chain(bindings).next()
}

fn unbindable(binding: &Binding, memory: &[Memory]) -> Option<String> {
    let Binding {
        index,
        memory: at,
        offset,
        bytes,
        role,
    } = *binding;
    let Some(memory) = memory.get(at) else {
        let count = memory.len();
        return Some(format!("buffer {index}: memory {at} of {count}"));
    };
    let end = offset.checked_add(bytes);
    if end.is_none_or(|end| end > memory.bytes) {
        let size = memory.bytes;
        return Some(format!(
            "buffer {index}: {bytes} bytes at {offset} of {size} bytes"
        ));
    }
    let unwritten = role == Role::Write && memory.after.is_none();
    unwritten.then(|| format!("buffer {index} is written, but memory {at} has no contents after"))
}
