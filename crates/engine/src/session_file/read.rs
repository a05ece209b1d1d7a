//! Reading a session file: all of it is verified before the first row is handed out.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::SessionFileError;
use super::error::failed;
use super::header::{Block, CHECKSUM_BYTES, HEADER_BYTES, Header};
use super::write::role;
use crate::Role;

/// The rows are hashed in pieces of this many bytes.
const PIECE: usize = 256 * 1024;

/// What precedes the rows, verified by a checksum of its own: it is of use without them.
pub(super) struct Front {
    pub header: Header,
    /// As many as the header says, as are the roles; each below its vocabulary size.
    pub tokens: Vec<u32>,
    pub roles: Vec<Role>,
    pub host: Vec<u8>,
    /// The state of the checksum before the first row.
    hasher: blake3::Hasher,
    /// Bytes of the file, which may not be what the header says.
    file_bytes: u64,
}

/// A file whose checksums hold and whose fields agree with each other. Its rows are read, and hashed, again
/// when they are used: the file may have been written to since.
pub(super) struct Verified<R> {
    pub front: Front,
    source: R,
    path: PathBuf,
    checksum: [u8; CHECKSUM_BYTES],
}

impl Front {
    /// Reads and verifies what precedes the rows of `source`, which starts at the start of a file, and leaves it
    /// at the first row. `path` is for messages.
    pub fn read(source: &mut (impl Read + Seek), path: &Path) -> Result<Self, SessionFileError> {
        let failed = || failed("read", path);
        let file_bytes = source.seek(SeekFrom::End(0)).map_err(failed())?;
        source.seek(SeekFrom::Start(0)).map_err(failed())?;
        let mut start = Vec::with_capacity(HEADER_BYTES);
        let mut head = source.take(HEADER_BYTES as u64);
        head.read_to_end(&mut start).map_err(failed())?;
        let header = Header::decode(&start, file_bytes)?;
        if file_bytes < header.rows_start() {
            return Err(SessionFileError::Length {
                expected: header.file_bytes()?,
                found: file_bytes,
            });
        }
        // No more bytes than the file has.
        let mut tokens = vec![0; 4 * header.tokens];
        let mut roles = vec![0; header.tokens];
        let mut host = vec![0; header.host_bytes];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&start);
        for section in [&mut tokens, &mut roles, &mut host] {
            source.read_exact(section).map_err(failed())?;
            hasher.update(section);
        }
        let checksum = read_checksum(source, &hasher, path)?;
        hasher.update(&checksum);
        Ok(Front {
            tokens: decode_tokens(&tokens, header.shape.n_vocab)?,
            roles: decode_roles(&roles)?,
            header,
            host,
            hasher,
            file_bytes,
        })
    }
}

impl<R: Read + Seek> Verified<R> {
    /// Reads and verifies all of `source`, as [`Front::read`] its beginning.
    pub fn read(mut source: R, path: &Path) -> Result<Self, SessionFileError> {
        let front = Front::read(&mut source, path)?;
        let (expected, found) = (front.header.file_bytes()?, front.file_bytes);
        if found != expected {
            return Err(SessionFileError::Length { expected, found });
        }
        let mut hasher = front.hasher.clone();
        let mut rest = expected - front.header.rows_start() - CHECKSUM_BYTES as u64;
        let mut piece = vec![0; PIECE];
        while rest > 0 {
            let read = (PIECE as u64).min(rest);
            let piece = &mut piece[..read as usize];
            source.read_exact(piece).map_err(failed("read", path))?;
            hasher.update(piece);
            rest -= read;
        }
        let checksum = read_checksum(&mut source, &hasher, path)?;
        Ok(Verified {
            front,
            source,
            path: path.to_owned(),
            checksum,
        })
    }

    /// Hands all rows to `apply`, block by block.
    ///
    /// # Errors
    /// Those of `apply`, or that the file changed since it was verified: what was applied is to be undone
    /// then.
    pub fn rows(
        &mut self,
        mut apply: impl FnMut(&Block, &[u8]) -> Result<(), SessionFileError>,
    ) -> Result<(), SessionFileError> {
        let header = &self.front.header;
        let row_bytes = header.row_bytes()?;
        let mut buffer = vec![0; header.block_bytes()?];
        let mut hasher = self.front.hasher.clone();
        self.source
            .seek(SeekFrom::Start(header.rows_start()))
            .map_err(failed("read", &self.path))?;
        for block in header.blocks()? {
            let rows = &mut buffer[..block.positions.len() * row_bytes];
            self.source
                .read_exact(rows)
                .map_err(failed("read", &self.path))?;
            hasher.update(rows);
            apply(&block, rows)?;
        }
        match hasher.finalize() == self.checksum {
            true => Ok(()),
            false => Err(SessionFileError::Changed),
        }
    }
}

/// Reads the checksum of everything before, which is what `hasher` has seen.
fn read_checksum(
    source: &mut impl Read,
    hasher: &blake3::Hasher,
    path: &Path,
) -> Result<[u8; CHECKSUM_BYTES], SessionFileError> {
    let mut checksum = [0; CHECKSUM_BYTES];
    source
        .read_exact(&mut checksum)
        .map_err(failed("read", path))?;
    let found = hasher.finalize();
    match found == checksum {
        true => Ok(checksum),
        false => Err(SessionFileError::Checksum {
            expected: leading(&checksum),
            found: leading(found.as_bytes()),
        }),
    }
}

fn leading(checksum: &[u8; CHECKSUM_BYTES]) -> u64 {
    u64::from_be_bytes(checksum.first_chunk().copied().unwrap_or_default())
}

fn decode_tokens(bytes: &[u8], n_vocab: u32) -> Result<Vec<u32>, SessionFileError> {
    let (tokens, _) = bytes.as_chunks();
    let tokens: Vec<u32> = tokens.iter().map(|&id| u32::from_le_bytes(id)).collect();
    match tokens.iter().position(|&token| token >= n_vocab) {
        Some(index) => Err(SessionFileError::UnknownToken {
            token: tokens[index],
            index,
            n_vocab: n_vocab as usize,
        }),
        None => Ok(tokens),
    }
}

fn decode_roles(codes: &[u8]) -> Result<Vec<Role>, SessionFileError> {
    let roles = codes.iter().map(|&code| {
        role(code).ok_or(SessionFileError::Malformed {
            field: "role of a token",
            value: code.into(),
            expected: "0 or 1",
        })
    });
    roles.collect()
}
