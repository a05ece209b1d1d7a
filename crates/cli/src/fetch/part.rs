//! A model file under way: grows in order, hashed as it is written, continued after a break.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::progress::Transfer;

const CHUNK: usize = 256 * 1024;

/// The file's bytes are not the ones that were asked for.
#[derive(Debug, Error)]
#[error("its SHA-256 is {found} instead of {expected}")]
pub struct ChecksumMismatch {
    expected: String,
    found: String,
}

/// Why bytes stopped arriving.
#[derive(Debug, Error)]
pub enum AppendError {
    /// The source broke off; what arrived is kept.
    #[error("the transfer broke off: {0}")]
    Source(io::Error),
    /// The source has more bytes than the file is said to have.
    #[error("the source is longer than the {0} bytes expected")]
    TooLong(u64),
    /// The part file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Target {
        /// The part file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The first [`PartFile::len`] bytes of a file that will have `size`.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    file: File,
    hasher: Sha256,
    len: u64,
    size: u64,
}

/// A state of a [`PartFile`].
#[derive(Debug, Clone)]
pub struct Mark {
    hasher: Sha256,
    len: u64,
}

impl PartFile {
    /// Opens or creates the part file and hashes what an earlier, broken download left there.
    ///
    /// # Errors
    /// The file cannot be created or read.
    pub fn open(path: PathBuf, size: u64) -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let mut part = Self {
            path,
            file,
            hasher: Sha256::new(),
            len: 0,
            size,
        };
        let present = part.file.metadata()?.len();
        if present > size {
            part.restart()?;
        } else {
            part.hash_present(present)?;
        }
        Ok(part)
    }

    /// Leaves the file's cursor at its end, where appending continues.
    fn hash_present(&mut self, present: u64) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        while self.len < present {
            let read = self
                .file
                .read(&mut buffer)
                .with_context(|| format!("cannot read {}", self.path.display()))?;
            ensure!(read > 0, "{} shrank while it was read", self.path.display());
            self.hasher.update(&buffer[..read]);
            self.len += read as u64;
        }
        Ok(())
    }

    /// Bytes present.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the whole file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The present end, to come back to with [`PartFile::rollback`].
    pub fn mark(&self) -> Mark {
        Mark {
            hasher: self.hasher.clone(),
            len: self.len,
        }
    }

    /// Forgets everything that was appended since `mark`.
    ///
    /// # Errors
    /// The file cannot be truncated.
    pub fn rollback(&mut self, mark: Mark) -> Result<()> {
        self.file
            .set_len(mark.len)
            .and_then(|()| self.file.seek(SeekFrom::Start(mark.len)))
            .with_context(|| format!("cannot truncate {}", self.path.display()))?;
        self.hasher = mark.hasher;
        self.len = mark.len;
        Ok(())
    }

    /// Forgets everything present.
    ///
    /// # Errors
    /// The file cannot be truncated.
    pub fn restart(&mut self) -> Result<()> {
        self.rollback(Mark {
            hasher: Sha256::new(),
            len: 0,
        })
    }

    /// Appends all of `source`, showing the position on `transfer`.
    ///
    /// # Errors
    /// See [`AppendError`]; bytes that arrived before it stay.
    pub fn append(
        &mut self,
        source: &mut dyn Read,
        transfer: &Transfer,
    ) -> Result<(), AppendError> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = match source.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(AppendError::Source(error)),
            };
            if self.len + read as u64 > self.size {
                return Err(AppendError::TooLong(self.size));
            }
            self.file
                .write_all(&buffer[..read])
                .map_err(|error| AppendError::Target {
                    path: self.path.clone(),
                    error,
                })?;
            self.hasher.update(&buffer[..read]);
            self.len += read as u64;
            transfer.set(self.len);
        }
    }

    /// Checks that the file is complete and, where `sha256` is known, that it is the right one.
    ///
    /// # Errors
    /// Bytes are missing, or [`ChecksumMismatch`].
    pub fn verify(&self, sha256: Option<&str>) -> Result<()> {
        ensure!(
            self.len == self.size,
            "only {} of {} bytes arrived",
            self.len,
            self.size
        );
        let found = hex(&self.hasher.clone().finalize());
        match sha256 {
            Some(expected) if expected != found => Err(ChecksumMismatch {
                expected: expected.to_owned(),
                found,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// Puts the file in place in one step, so that nobody ever sees half of it under its name.
    ///
    /// # Errors
    /// The file cannot be written out or moved.
    pub fn put_in_place(self, destination: &Path) -> Result<()> {
        self.file
            .sync_all()
            .and_then(|()| fs::rename(&self.path, destination))
            .with_context(|| {
                format!(
                    "cannot move {} to {}",
                    self.path.display(),
                    destination.display()
                )
            })
    }
}

/// The SHA-256 of a file, in lower-case hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn sha256_of(path: &Path) -> Result<String> {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hex(&hasher.finalize())),
                read => hasher.update(&buffer[..read]),
            }
        }
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // FIPS 180-2, appendix B.1: the digest of "abc".
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn part(path: &Path, size: u64) -> PartFile {
        PartFile::open(path.to_owned(), size).unwrap()
    }

    #[test]
    fn a_broken_download_continues_and_ends_with_the_digest_of_the_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (path, done) = (dir.path().join("x.part"), dir.path().join("x"));
        let mut first = part(&path, 3);
        first.append(&mut &b"ab"[..], &Transfer::hidden()).unwrap();
        assert!(
            first
                .verify(Some(ABC))
                .unwrap_err()
                .to_string()
                .contains("2 of 3 bytes")
        );
        drop(first);

        let mut second = part(&path, 3);
        assert_eq!(second.len(), 2);
        second.append(&mut &b"c"[..], &Transfer::hidden()).unwrap();
        second.verify(Some(ABC)).unwrap();
        second.put_in_place(&done).unwrap();
        assert_eq!(fs::read(&done).unwrap(), b"abc");
        assert_eq!(sha256_of(&done).unwrap(), ABC);
        assert!(!path.exists());
    }

    #[test]
    fn wrong_bytes_are_a_checksum_mismatch_and_can_be_restarted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.part");
        fs::write(&path, "xx").unwrap();
        let mut part = part(&path, 3);
        part.append(&mut &b"c"[..], &Transfer::hidden()).unwrap();
        assert!(part.verify(Some(ABC)).unwrap_err().is::<ChecksumMismatch>());
        part.restart().unwrap();
        part.append(&mut &b"abc"[..], &Transfer::hidden()).unwrap();
        part.verify(Some(ABC)).unwrap();
    }

    #[test]
    fn a_rollback_forgets_bytes_and_digest_alike() {
        let dir = tempfile::tempdir().unwrap();
        let (path, done) = (dir.path().join("x.part"), dir.path().join("x"));
        let mut part = part(&path, 3);
        part.append(&mut &b"ab"[..], &Transfer::hidden()).unwrap();
        let mark = part.mark();
        part.append(&mut &b"x"[..], &Transfer::hidden()).unwrap();
        part.rollback(mark).unwrap();
        part.append(&mut &b"c"[..], &Transfer::hidden()).unwrap();
        part.verify(Some(ABC)).unwrap();
        part.put_in_place(&done).unwrap();
        assert_eq!(fs::read(&done).unwrap(), b"abc");
    }

    #[test]
    fn a_source_longer_than_the_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.part");
        fs::write(&path, "far too long").unwrap();
        let mut part = part(&path, 3);
        assert_eq!(part.len(), 0, "an oversized leftover is dropped");
        let error = part.append(&mut &b"abcd"[..], &Transfer::hidden());
        assert!(matches!(error, Err(AppendError::TooLong(3))));
    }
}
