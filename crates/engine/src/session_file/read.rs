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

/// A file whose checksum holds and whose fields agree with each other. Its rows are read, and hashed, again
/// when they are used: the file may have been written to since.
pub(super) struct Verified<R> {
    pub header: Header,
    /// As many as the header says, as are the roles; each below its vocabulary size.
    pub tokens: Vec<u32>,
    pub roles: Vec<Role>,
    pub host: Vec<u8>,
    source: R,
    path: PathBuf,
    /// The state of the checksum before the first row.
    before_rows: blake3::Hasher,
    checksum: [u8; CHECKSUM_BYTES],
}

impl<R: Read + Seek> Verified<R> {
    /// Reads and verifies all of `source`, which starts at the start of a file. `path` is for messages.
    pub fn read(mut source: R, path: &Path) -> Result<Self, SessionFileError> {
        let failed = || failed("read", path);
        let file_bytes = source
            .seek(SeekFrom::End(0))
            .and_then(|end| source.seek(SeekFrom::Start(0)).map(|_| end))
            .map_err(failed())?;
        let mut start = Vec::with_capacity(HEADER_BYTES);
        let mut head = (&mut source).take(HEADER_BYTES as u64);
        head.read_to_end(&mut start).map_err(failed())?;
        let header = Header::decode(&start, file_bytes)?;

        // The header's lengths add up to the file's, so that these are no longer than the file.
        let mut tokens = vec![0; 4 * header.tokens];
        let mut roles = vec![0; header.tokens];
        let mut host = vec![0; header.host_bytes];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&start);
        for section in [&mut tokens, &mut roles, &mut host] {
            source.read_exact(section).map_err(failed())?;
            hasher.update(section);
        }
        let before_rows = hasher.clone();
        let mut rest = file_bytes - header.rows_start() - CHECKSUM_BYTES as u64;
        let mut piece = vec![0; PIECE];
        while rest > 0 {
            let read = (PIECE as u64).min(rest);
            let piece = &mut piece[..read as usize];
            source.read_exact(piece).map_err(failed())?;
            hasher.update(piece);
            rest -= read;
        }
        let mut checksum = [0; CHECKSUM_BYTES];
        source.read_exact(&mut checksum).map_err(failed())?;
        let found = hasher.finalize();
        if found != checksum {
            return Err(SessionFileError::Checksum {
                expected: leading(&checksum),
                found: leading(found.as_bytes()),
            });
        }
        Ok(Verified {
            tokens: decode_tokens(&tokens, header.shape.n_vocab)?,
            roles: decode_roles(&roles)?,
            header,
            host,
            source,
            path: path.to_owned(),
            before_rows,
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
        let row_bytes = self.header.row_bytes()?;
        let mut buffer = vec![0; self.header.block_bytes()?];
        let mut hasher = self.before_rows.clone();
        self.source
            .seek(SeekFrom::Start(self.header.rows_start()))
            .map_err(failed("read", &self.path))?;
        for block in self.header.blocks()? {
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
