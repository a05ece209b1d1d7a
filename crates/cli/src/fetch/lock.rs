//! One process at a time fetches a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use anyhow::{Context, Result};

/// Held while a file is fetched; the system releases it when the process ends, however it ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock, waiting for another process that has it.
    ///
    /// # Errors
    /// The lock file cannot be created, or the file system has no locks.
    pub fn acquire(path: &Path, waiting: impl FnOnce()) -> Result<Self> {
        let context = || format!("cannot lock {}", path.display());
        // Lock files stay: removing one would let a third process lock a new file of that name.
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(context)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().with_context(context)?;
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(context),
        }
        Ok(Self { _file: file })
    }
}
