//! Writing a session file, front to back.

use std::io::{self, Write};
use std::path::Path;

use super::SessionFileError;
use super::error::failed;
use super::header::{Block, Header};
use crate::Role;

/// Everything of a session but its rows.
pub(super) struct Contents<'a> {
    pub header: Header,
    /// As many as the header says, as are the roles.
    pub tokens: &'a [u32],
    pub roles: &'a [Role],
    pub host: &'a [u8],
}

/// Writes a session file to `out`, asking `read_rows` for each block of rows, and returns its length.
/// `path` is for messages.
pub(super) fn write(
    out: impl Write,
    path: &Path,
    contents: &Contents<'_>,
    mut read_rows: impl FnMut(&Block, &mut [u8]) -> Result<(), SessionFileError>,
) -> Result<u64, SessionFileError> {
    let header = &contents.header;
    let mut out = Hashing {
        inner: out,
        hasher: blake3::Hasher::new(),
    };
    let mut start = header.encode()?;
    start.extend(contents.tokens.iter().flat_map(|token| token.to_le_bytes()));
    start.extend(contents.roles.iter().map(|&role| role_code(role)));
    out.write_all(&start)
        .and_then(|()| out.write_all(contents.host))
        .and_then(|()| out.write_checksum())
        .map_err(failed("write", path))?;
    let row_bytes = header.row_bytes()?;
    let mut buffer = vec![0; header.block_bytes()?];
    for block in header.blocks()? {
        let rows = &mut buffer[..block.positions.len() * row_bytes];
        read_rows(&block, rows)?;
        out.write_all(rows).map_err(failed("write", path))?;
    }
    out.write_checksum()
        .and_then(|()| out.flush())
        .map_err(failed("write", path))?;
    header.file_bytes()
}

/// Hashes what is written.
struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashing<W> {
    /// Writes the checksum of everything before.
    fn write_checksum(&mut self) -> io::Result<()> {
        let checksum = self.hasher.finalize();
        self.write_all(checksum.as_bytes())
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn role_code(role: Role) -> u8 {
    match role {
        Role::Prompt => 0,
        Role::Generated => 1,
    }
}

/// The role with this code.
pub(super) fn role(code: u8) -> Option<Role> {
    [Role::Prompt, Role::Generated]
        .into_iter()
        .find(|&role| role_code(role) == code)
}
