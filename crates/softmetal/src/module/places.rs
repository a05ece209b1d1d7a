//! From code addresses to places in the source.

use std::path::Path;
use std::sync::Mutex;

/// Resolves return addresses of one library.
pub(crate) struct Places {
    base: usize,
    loader: Mutex<addr2line::Loader>,
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SourcePlace {
    /// File as named when the library was made.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 when unknown.
    pub column: u32,
}

impl Places {
    pub(super) fn new(path: &Path, base: usize) -> Result<Self, String> {
        let loader = addr2line::Loader::new(path).map_err(|error| error.to_string())?;
        Ok(Places {
            base,
            loader: Mutex::new(loader),
        })
    }

    /// The place of the call that returns to `return_address`: the innermost one outside the shim.
    pub(crate) fn find(&self, return_address: usize) -> Option<SourcePlace> {
        let address = (return_address - 1).checked_sub(self.base)? as u64;
        let loader = self.loader.lock().ok()?;
        let mut frames = loader.find_frames(address).ok()?;
        while let Some(frame) = frames.next().ok()? {
            let Some(location) = frame.location else {
                continue;
            };
            let file = location.file.unwrap_or_default();
            // Names of the compilation's folder come first; the shim's headers are below `softmetal`.
            let is_shim = file.contains("/softmetal/") || file.starts_with("softmetal/");
            if !is_shim && location.line.is_some_and(|line| line > 0) {
                return Some(SourcePlace {
                    file: name_of(file),
                    line: location.line.unwrap_or(0),
                    column: location.column.unwrap_or(0),
                });
            }
        }
        None
    }
}

/// The compiler makes names absolute with the folder it ran in; a source's name has no folder.
fn name_of(file: &str) -> String {
    Path::new(file).file_name().map_or_else(
        || file.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}
