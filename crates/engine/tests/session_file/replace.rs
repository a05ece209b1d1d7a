//! What saving does to the files around it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use minfer_engine::Engine;
use minfer_engine::session_file::{SessionFileError, read_host};
use minfer_graph::SequenceId;
use tempfile::{TempDir, tempdir};

use crate::support::{engine, sequence, text};

struct Saver {
    engine: Engine,
    sequence: SequenceId,
    folder: TempDir,
}

impl Saver {
    fn new() -> Self {
        let mut engine = engine();
        let sequence = sequence(&mut engine, &text(1, 0..10));
        let folder = tempdir().expect("a folder");
        Saver {
            engine,
            sequence,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn save(&mut self, host: &[u8], path: &Path) -> Result<u64, SessionFileError> {
        self.engine.save_sequence(self.sequence, host, path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<_> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn what_a_killed_writer_left_is_replaced() {
    let mut saver = Saver::new();
    let path = saver.path("chat");
    fs::write(saver.path(".chat.saving"), vec![0xaa; 1 << 20]).expect("a file");
    let bytes = saver.save(b"new", &path).expect("a save");
    assert_eq!(path.metadata().expect("a file").len(), bytes);
    assert_eq!(read_host(&path).expect("whole"), b"new");
    assert_eq!(saver.names(), ["chat"]);
}

#[test]
fn a_file_that_another_writer_is_saving_is_left_alone() {
    let mut saver = Saver::new();
    let path = saver.path("chat");
    saver.save(b"old", &path).expect("a save");
    let other = File::create(saver.path(".chat.saving")).expect("a file");
    other.lock().expect("a lock");
    let message = saver.save(b"new", &path).expect_err("busy").to_string();
    assert!(message.starts_with("another process is saving "));
    assert!(message.ends_with("chat"));
    assert_eq!(read_host(&path).expect("whole"), b"old");
    drop(other);
    saver.save(b"new", &path).expect("a save");
    assert_eq!(read_host(&path).expect("whole"), b"new");
}

#[test]
fn a_save_that_fails_leaves_the_old_file_and_no_other() {
    let mut saver = Saver::new();
    let path = saver.path("chat");
    saver.save(b"old", &path).expect("a save");
    let gone = saver.engine.create_sequence();
    saver.engine.release_sequence(gone).expect("it exists");
    let error = saver.engine.save_sequence(gone, b"new", &path);
    assert!(matches!(error, Err(SessionFileError::Arena(_))));
    assert_eq!(read_host(&path).expect("whole"), b"old");
    assert_eq!(saver.names(), ["chat"]);

    let nowhere = saver.path("no/such/folder/chat");
    let message = saver.save(b"new", &nowhere).expect_err("no folder");
    assert!(message.to_string().starts_with("cannot create "));
    let folder = saver.path("");
    assert!(saver.save(b"new", &folder).is_err(), "a folder");
    assert!(saver.save(b"new", Path::new("")).is_err(), "no name");
    assert_eq!(saver.names(), ["chat"]);
}

#[cfg(unix)]
mod permissions {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().expect("a file").permissions().mode() & 0o777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("our own file");
    }

    #[test]
    fn a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode() {
        let mut saver = Saver::new();
        let path = saver.path("chat");
        let leftover = saver.path(".chat.saving");
        fs::write(&leftover, "readable by all").expect("a file");
        set_mode(&leftover, 0o666);
        saver.save(b"1", &path).expect("a save");
        assert_eq!(mode(&path), 0o600);
        set_mode(&path, 0o640);
        saver.save(b"2", &path).expect("a save");
        assert_eq!(mode(&path), 0o640);
    }

    #[test]
    fn a_read_only_file_is_not_replaced() {
        let mut saver = Saver::new();
        let path = saver.path("chat");
        saver.save(b"old", &path).expect("a save");
        set_mode(&path, 0o400);
        let message = saver.save(b"new", &path).expect_err("read-only");
        assert!(message.to_string().ends_with(": it is read-only"));
        assert_eq!(read_host(&path).expect("whole"), b"old");
        assert_eq!(saver.names(), ["chat"]);
    }

    #[test]
    fn a_link_stays_and_leads_to_the_new_content() {
        let mut saver = Saver::new();
        let path = saver.path("chat");
        saver.save(b"old", &path).expect("a save");
        let link = saver.path("link");
        symlink(&path, &link).expect("a link");
        saver.save(b"new", &link).expect("a save");
        assert_eq!(read_host(&path).expect("whole"), b"new");
        assert!(link.is_symlink());
        assert_eq!(saver.names(), ["chat", "link"]);
    }
}
