//! Why a sequence cannot be saved to or restored from a file.

use std::io;
use std::path::{Path, PathBuf};

use minfer_graph::{ArenaError, GraphError};

/// A session file that cannot be written or used. The engine and an existing file are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionFileError {
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process is writing this file.
    #[error("another process is saving {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The host state is longer than a file may hold.
    #[error("the host state has {bytes} bytes, more than the {most} a session file holds")]
    HostState {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// The sequence was not computed whole.
    #[error("the sequence has rows for {rows} of its {tokens} tokens")]
    MissingRows {
        /// Tokens of the sequence.
        tokens: usize,
        /// Rows of each layer.
        rows: usize,
    },
    /// The file starts with other bytes than a session file.
    #[error("this is not a session file")]
    NotASession,
    /// A format that this program does not know.
    #[error("the session file has format version {found}, this program reads version {supported}")]
    Version {
        /// Version of the file.
        found: u32,
        /// The only version that is read.
        supported: u32,
    },
    /// The file was cut short, or something was appended to it.
    #[error("the session file has {found} bytes instead of {expected}")]
    Length {
        /// Bytes that its header promises.
        expected: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// Some byte of the file is not the one that was written. The numbers are the first of 32 bytes.
    #[error("the session file is damaged: its checksum is {found:016x} instead of {expected:016x}")]
    Checksum {
        /// Checksum that the file ends with.
        expected: u64,
        /// Checksum of its bytes.
        found: u64,
    },
    /// A field holds what no session has.
    #[error("the session file is malformed: its {field} is {value}, but must be {expected}")]
    Malformed {
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        expected: &'static str,
    },
    /// The file was written to while it was read.
    #[error("the session file changed while it was read")]
    Changed,
    /// Another model computed the session.
    #[error("the session was saved with the model {saved}, this engine runs {engine}")]
    Model {
        /// Name and fingerprint of the model in the file.
        saved: String,
        /// Name and fingerprint of the engine's.
        engine: String,
    },
    /// The model's shape differs, although its fingerprint does not.
    #[error("the session was saved with {saved} {dimension}, this engine has {engine}")]
    Shape {
        /// The dimension.
        dimension: &'static str,
        /// Its size in the file.
        saved: u32,
        /// Its size here.
        engine: u32,
    },
    /// Keys and values are kept in another format.
    #[error("the session was saved with {saved} keys and values, this engine uses {engine}")]
    KvFormat {
        /// Format in the file.
        saved: &'static str,
        /// The engine's.
        engine: &'static str,
    },
    /// Another backend computed the session.
    #[error("the session was computed by the backend {saved}, this engine runs on {engine}")]
    Backend {
        /// Backend named in the file.
        saved: String,
        /// The engine's.
        engine: String,
    },
    /// The same backend computed the session with kernels that round differently.
    #[error("the session was computed with {saved}, this engine computes with {engine}")]
    Arithmetic {
        /// Instruction set, and precision of prompt rows where it leaves a choice; a device's name, and its kernels
        /// where they are not the fastest.
        saved: String,
        /// The engine's.
        engine: String,
    },
    /// Another version of this program computed the session: its kernels may round differently.
    #[error("the session was computed by version {saved}, this is version {engine}")]
    Program {
        /// Version named in the file.
        saved: String,
        /// This version.
        engine: String,
    },
    /// The context of this engine is shorter than the session.
    #[error("the session has {tokens} tokens, but this engine's context holds {n_ctx}")]
    ContextTooShort {
        /// Tokens in the file.
        tokens: usize,
        /// Most tokens of a sequence.
        n_ctx: usize,
    },
    /// Other sequences hold the cells that the session needs.
    #[error("the session has {tokens} tokens, but only {free} of {cells} KV cells are free")]
    NoCells {
        /// Tokens in the file.
        tokens: usize,
        /// Cells without an owner.
        free: usize,
        /// All cells.
        cells: usize,
    },
    /// A token that the model does not have.
    #[error(
        "token {token} at index {index} of the session is not below the vocabulary size {n_vocab}"
    )]
    UnknownToken {
        /// The id.
        token: u32,
        /// Its index in the sequence.
        index: usize,
        /// Tokens in the vocabulary.
        n_vocab: usize,
    },
    /// The sequence is unknown.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// A backend could not give or take rows.
    #[error(transparent)]
    Rows(Box<GraphError>),
}

impl From<GraphError> for SessionFileError {
    fn from(error: GraphError) -> Self {
        SessionFileError::Rows(Box::new(error))
    }
}

/// Adds to an I/O error what was attempted on which file. One that ended early changed after its length
/// was taken.
pub(super) fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> SessionFileError {
    move |source| match source.kind() {
        io::ErrorKind::UnexpectedEof => SessionFileError::Changed,
        _ => SessionFileError::Io {
            action,
            path: path.to_owned(),
            source,
        },
    }
}
