//! From code addresses to places in the source.

use std::path::Path;
use std::sync::Mutex;

/// Where the compiler is told to run, so that its products do not depend on the machine's folders.
const FOLDER: &str = "/kernel/";

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
            let file = file.strip_prefix(FOLDER).unwrap_or(file);
            let is_shim = file.trim_start_matches("./").starts_with("softmetal/");
            if !is_shim && location.line.is_some_and(|line| line > 0) {
                return Some(SourcePlace {
                    file: file.to_owned(),
                    line: location.line.unwrap_or(0),
                    column: location.column.unwrap_or(0),
                });
            }
        }
        None
    }
}
