//! Why a bundle cannot be written or read.

use std::io;
use std::path::PathBuf;

use super::format::FORMAT;

/// An error of a replay bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A bundle is to be written where something is already.
    #[error("{} is not an empty folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A file that cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `make`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A description that is none.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its line.
        source: serde_json::Error,
    },
    /// A bundle of another version.
    #[error("{}: format {found}, but only {FORMAT} is known", path.display())]
    Format {
        /// The index.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// A file name that could lead out of the bundle.
    #[error("{}: `{name}` is no path below the bundle's folder", path.display())]
    Name {
        /// The file that names it.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A file of contents whose size is not what its description says.
    #[error("{} has {found} bytes, its description says {expected}", path.display())]
    Length {
        /// The file of contents.
        path: PathBuf,
        /// Its size.
        found: u64,
        /// Its size by the description.
        expected: u64,
    },
    /// A description that contradicts itself.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The description.
        path: PathBuf,
        /// The rule and the values that break it.
        reason: String,
    },
}

impl ReplayError {
    /// For `map_err`: adds what was being done to which file.
    pub(super) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| ReplayError::File {
            action,
            path,
            source,
        }
    }
}
