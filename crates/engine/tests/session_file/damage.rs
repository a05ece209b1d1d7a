//! Damaged files are refused, whatever the damage.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use minfer_engine::session_file::{SessionFileError, host_of, read_host};
use minfer_engine::{Engine, Role};
use minfer_graph::KvFormat;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tempfile::{TempDir, tempdir};

use crate::support::{append, engine, load, options, refused, seal, sequence, text};

const HOST: &[u8] = b"host";
/// Where the rows of a file of three tokens begin: the host state before them is of use without them.
const ROWS: usize = 256 + 3 * 5 + 4 + 32;

/// Bytes of a file of three tokens.
fn small_file(engine: &mut Engine) -> Vec<u8> {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let id = sequence(engine, &text(1, 0..2));
    append(engine, id, &[9], Role::Generated);
    engine.save_sequence(id, HOST, &path).expect("a save");
    engine.release_sequence(id).expect("it exists");
    fs::read(path).expect("a file")
}

fn write(folder: &TempDir, bytes: &[u8]) -> std::path::PathBuf {
    let path = folder.path().join("session");
    // A file that is truncated and written again is flushed to the disk at once by some file systems.
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).expect("a file");
    path
}

fn is_refused(engine: &mut Engine, path: &Path, what: &str) {
    let error = refused(engine, &[], path);
    let by_the_reader = matches!(
        error,
        SessionFileError::NotASession
            | SessionFileError::Version { .. }
            | SessionFileError::Length { .. }
            | SessionFileError::Malformed { .. }
            | SessionFileError::Checksum { .. }
    );
    assert!(by_the_reader, "{what}: {error}");
}

#[test]
fn every_changed_byte_is_refused() {
    let mut engine = load("tiny-qwen2-f32", &options(KvFormat::Q8_0));
    let file = small_file(&mut engine);
    let folder = tempdir().expect("a folder");
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        let path = write(&folder, &changed);
        is_refused(&mut engine, &path, &format!("byte {at}"));
        assert_eq!(read_host(&path).ok(), (at >= ROWS).then(|| HOST.to_vec()));
    }
    println!("{} of {} changed bytes refused", file.len(), file.len());
    let path = write(&folder, &file);
    engine.restore_sequence(&path).expect("the file unchanged");
}

#[test]
fn every_other_length_is_refused() {
    let mut engine = load("tiny-qwen2-f32", &options(KvFormat::Q8_0));
    let file = small_file(&mut engine);
    let folder = tempdir().expect("a folder");
    for len in 0..file.len() {
        let path = write(&folder, &file[..len]);
        is_refused(&mut engine, &path, &format!("{len} bytes"));
        assert_eq!(read_host(&path).ok(), (len >= ROWS).then(|| HOST.to_vec()));
    }
    let longer = [&file[..], &[0]].concat();
    let path = write(&folder, &longer);
    assert_eq!(
        refused(&mut engine, &[], &path).to_string(),
        format!(
            "the session file has {} bytes instead of {}",
            longer.len(),
            file.len()
        )
    );
}

/// Nothing may panic, nor leave anything behind: bytes are changed, inserted and cut, and the checksum made
/// to fit, so that every field is reached.
#[test]
fn changed_files_with_a_checksum_never_panic() {
    let mut engine = engine();
    let file = small_file(&mut engine);
    let folder = tempdir().expect("a folder");
    let free = engine.free_cells();
    let mut random = Pcg64::seed_from_u64(20);
    let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
    let mut restored = 0;
    for _ in 0..10_000 {
        let mut changed = file.clone();
        for _ in 0..1 + below(3) {
            // Half of the changes are made to the header and to tokens and roles.
            let at = match below(2) {
                0 => below(changed.len().min(280)),
                _ => below(changed.len()),
            };
            match below(8) {
                0 => changed.insert(at, below(256) as u8),
                1 if changed.len() > 64 => drop(changed.remove(at)),
                2 if changed.len() > 64 => changed.truncate(at.max(64)),
                3 => changed[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
                _ => changed[at] = below(256) as u8,
            }
        }
        if below(2) == 0 && changed.len() >= 24 {
            let len = changed.len() as u64;
            changed[16..24].copy_from_slice(&len.to_le_bytes());
        }
        seal(&mut changed);
        let whole = host_of(Cursor::new(&changed)).is_ok();
        if let Ok((sequence, _)) = engine.restore_sequence(&write(&folder, &changed)) {
            assert!(whole);
            restored += 1;
            engine.release_sequence(sequence).expect("it exists");
        }
        assert_eq!(engine.free_cells(), free);
    }
    println!("{restored} of 10000 files differ in rows or host state only");
    assert!((1..9_000).contains(&restored));
}
