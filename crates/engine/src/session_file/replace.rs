//! Replacing a file so that its path leads to the old or the new content, whatever happens meanwhile.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::SessionFileError;
use super::error::failed;

/// How often another writer may rename its file between our opening and locking it.
const ATTEMPTS: usize = 16;

/// New content of a file, under a temporary name in the same folder until [`Replacement::commit`].
///
/// The temporary name follows from the file's, so what a killed writer left is overwritten by the next
/// one; a lock, which the system releases with the process, keeps two living writers apart.
pub(super) struct Replacement {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    /// Permissions of the file that is replaced.
    permissions: Option<Permissions>,
    committed: bool,
}

impl Replacement {
    /// Opens the temporary file. `path` may be a symbolic link to the file.
    pub fn begin(path: &Path) -> Result<Self, SessionFileError> {
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(failed("replace", path)(error)),
        };
        let permissions = replaceable(&target).map_err(failed("replace", path))?;
        let Some(name) = target.file_name() else {
            let reason = io::Error::new(io::ErrorKind::InvalidInput, "it is not a file's name");
            return Err(failed("create", path)(reason));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".saving");
        let temporary = target.with_file_name(hidden);
        for _ in 0..ATTEMPTS {
            let file = open_private(&temporary).map_err(failed("create", &temporary))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => break,
                Err(TryLockError::Error(error)) => return Err(failed("lock", &temporary)(error)),
            }
            // The writer that held the lock may have renamed this very file, which is the target now.
            if !is_at(&file, &temporary).map_err(failed("inspect", &temporary))? {
                continue;
            }
            make_private(&file)
                .and_then(|()| file.set_len(0))
                .map_err(failed("write", &temporary))?;
            return Ok(Replacement {
                target,
                temporary,
                file,
                permissions,
                committed: false,
            });
        }
        Err(SessionFileError::Busy { path: target })
    }

    /// Where the content goes, for messages.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Makes the content durable, then gives it the file's name.
    pub fn commit(mut self) -> Result<(), SessionFileError> {
        if let Some(permissions) = self.permissions.take() {
            self.file
                .set_permissions(permissions)
                .map_err(failed("keep the permissions of", &self.target))?;
        }
        self.file
            .sync_all()
            .map_err(failed("write", &self.temporary))?;
        fs::rename(&self.temporary, &self.target).map_err(failed("replace", &self.target))?;
        self.committed = true;
        sync_folder(&self.target)
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.committed {
            // The next writer would overwrite it.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Permissions of a file that may be replaced; `None` if there is none.
fn replaceable(target: &Path) -> io::Result<Option<Permissions>> {
    let metadata = match fs::metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        let reason = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let permissions = metadata.permissions();
    if permissions.readonly() {
        let reason = "it is read-only";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(Some(permissions))
}

/// Opens or creates a file that only its owner can read: it will hold a conversation.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Takes a file that was already there from everyone else. Fails for one that another user made.
fn make_private(file: &File) -> io::Result<()> {
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Whether `path` still leads to the open file, without a symbolic link.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (held.dev(), held.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Elsewhere files have no portable identity; a writer that comes between opening and locking goes unseen.
#[cfg(not(unix))]
fn is_at(_file: &File, _path: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Makes a rename durable.
fn sync_folder(file: &Path) -> Result<(), SessionFileError> {
    #[cfg(unix)]
    {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let opened = File::open(folder).and_then(|folder| folder.sync_all());
        opened.map_err(failed("synchronize", folder))?;
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}
