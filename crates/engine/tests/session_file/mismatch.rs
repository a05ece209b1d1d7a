//! Files that belong to another engine are refused, with both values, and change nothing.

use std::fs;
use std::path::{Path, PathBuf};

use minfer_cpu::Isa;
use minfer_engine::session_file::{SessionFileError, read_host};
use minfer_engine::{Engine, EngineOptions};
use minfer_graph::{KvFormat, SequenceId};
use tempfile::{TempDir, tempdir};

use crate::support::{MODEL, decode, engine, load, options, refused, seal, sequence, text};

const TOKENS: u32 = 20;

/// A session of 20 tokens, saved with these options.
fn saved(model: &str, options: &EngineOptions) -> (TempDir, PathBuf) {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let mut engine = load(model, options);
    let id = sequence(&mut engine, &text(1, 0..TOKENS));
    engine
        .save_sequence(id, b"history", &path)
        .unwrap_or_else(|e| panic!("{e}"));
    (folder, path)
}

/// An engine with a sequence that must not notice anything.
struct Busy {
    engine: Engine,
    sequence: SequenceId,
}

impl Busy {
    fn new(model: &str, options: &EngineOptions) -> Self {
        let mut engine = load(model, options);
        let sequence = sequence(&mut engine, &text(2, 0..15));
        Busy { engine, sequence }
    }

    /// The error of restoring a file whose host state can be read all the same.
    fn refuses(&mut self, path: &Path) -> SessionFileError {
        assert_eq!(read_host(path).expect("its checksum holds"), b"history");
        refused(&mut self.engine, &[self.sequence], path)
    }
}

#[test]
fn another_model() {
    let (_folder, path) = saved("tiny-qwen2-q8_0", &options(KvFormat::F32));
    let error = Busy::new(MODEL, &options(KvFormat::F32)).refuses(&path);
    let SessionFileError::Model { saved, engine } = &error else {
        panic!("{error}");
    };
    assert_ne!(saved, engine);
    assert_eq!(
        error.to_string(),
        format!("the session was saved with the model {saved}, this engine runs {engine}")
    );
    let (_folder, path) = self::saved(MODEL, &options(KvFormat::F32));
    let again = Busy::new("tiny-qwen2-q8_0", &options(KvFormat::F32)).refuses(&path);
    let SessionFileError::Model { saved, .. } = again else {
        panic!("{again}");
    };
    assert_eq!(saved, *engine, "the fingerprint is the file's alone");
}

#[test]
fn another_kv_format() {
    let (_folder, path) = saved(MODEL, &options(KvFormat::Q8_0));
    let message = |format| {
        Busy::new(MODEL, &options(format))
            .refuses(&path)
            .to_string()
    };
    assert_eq!(
        message(KvFormat::F16),
        "the session was saved with q8_0 keys and values, this engine uses f16"
    );
    assert_eq!(
        message(KvFormat::F32),
        "the session was saved with q8_0 keys and values, this engine uses f32"
    );
}

#[test]
fn another_instruction_set() {
    let (_folder, path) = saved(MODEL, &options(KvFormat::F32));
    let best = Isa::detect();
    if best == Isa::Scalar {
        return;
    }
    let scalar = EngineOptions {
        isa: Some(Isa::Scalar),
        ..options(KvFormat::F32)
    };
    let message = Busy::new(MODEL, &scalar).refuses(&path).to_string();
    assert!(message.starts_with(&format!("the session was computed with {best}")));
    assert!(message.ends_with(", this engine computes with scalar"));
}

#[test]
fn a_shorter_context() {
    let (_folder, path) = saved(MODEL, &options(KvFormat::F32));
    let short = EngineOptions {
        n_ctx: Some(TOKENS as usize - 1),
        ..options(KvFormat::F32)
    };
    assert_eq!(
        Busy::new(MODEL, &short).refuses(&path).to_string(),
        "the session has 20 tokens, but this engine's context holds 19"
    );
}

#[test]
fn cells_that_others_hold() {
    let (_folder, path) = saved(MODEL, &options(KvFormat::F32));
    let mut busy = Busy::new(MODEL, &options(KvFormat::F32));
    let room = busy.engine.free_cells();
    busy.engine
        .reserve(busy.sequence, room - 19)
        .expect("free cells");
    assert_eq!(
        busy.refuses(&path).to_string(),
        "the session has 20 tokens, but only 19 of 288 KV cells are free"
    );
    let expected = {
        let mut alone = engine();
        let id = sequence(&mut alone, &text(2, 0..15));
        decode(&mut alone, id, &text(3, 0..4))
    };
    assert!(decode(&mut busy.engine, busy.sequence, &text(3, 0..4)) == expected);
}

/// What restoring says of a file of which some bytes were changed and the checksum made to fit.
fn forged(change: impl FnOnce(&mut Vec<u8>)) -> SessionFileError {
    let (_folder, path) = saved(MODEL, &options(KvFormat::F32));
    let mut file = fs::read(&path).expect("a file");
    change(&mut file);
    seal(&mut file);
    fs::write(&path, file).expect("a file");
    let mut engine = engine();
    let id = sequence(&mut engine, &text(2, 0..15));
    refused(&mut engine, &[id], &path)
}

/// The offset of each field is that of the format's table, not taken from the code.
fn patched<const N: usize>(offset: usize, bytes: [u8; N]) -> String {
    forged(|file| file[offset..offset + N].copy_from_slice(&bytes)).to_string()
}

#[test]
fn fields_that_only_another_engine_writes() {
    assert_eq!(
        patched(104, *b"metal\0"),
        "the session was computed by the backend metal, this engine runs on cpu"
    );
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        patched(152, *b"9.8.7\0"),
        format!("the session was computed by version 9.8.7, this is version {version}")
    );
    assert_eq!(
        patched(8, 2u32.to_le_bytes()),
        "the session file has format version 2, this program reads version 1"
    );
    assert_eq!(patched(0, *b"GGUF"), "this is not a session file");
}

#[test]
fn a_shape_that_contradicts_the_fingerprint() {
    assert_eq!(
        patched(64, 1u32.to_le_bytes()),
        "the session was saved with 1 features of a head, this engine has 64"
    );
    assert_eq!(
        patched(68, 100_000u32.to_le_bytes()),
        "the session was saved with 100000 tokens in the vocabulary, this engine has 320"
    );
}

#[test]
fn fields_that_no_engine_writes() {
    let malformed = |field, value: u64, expected| {
        format!("the session file is malformed: its {field} is {value}, but must be {expected}")
    };
    assert_eq!(
        patched(12, 3u32.to_le_bytes()),
        malformed("KV format", 3, "0 to 2")
    );
    assert_eq!(
        patched(56, 0u32.to_le_bytes()),
        malformed("layer count", 0, "at least 1")
    );
    assert_eq!(
        patched(80, 21u64.to_le_bytes()),
        malformed("token count", 21, "what the length in the header says")
    );
    assert_eq!(
        patched(80, (1u64 << 60).to_le_bytes()),
        malformed("token count", 1 << 60, "at most 2^26")
    );
    // Layers and key width.
    assert_eq!(
        patched(56, [0xff; 8]),
        malformed("token count", 20, "one whose rows a file can hold")
    );
    assert_eq!(
        patched(88, 21u64.to_le_bytes()),
        malformed("shareable length", 21, "at most the tokens")
    );
    assert_eq!(
        patched(96, (1u64 << 31).to_le_bytes()),
        malformed("host state length", 1 << 31, "at most 2^30")
    );
    let role_of_token_3 = 256 + 4 * 20 + 3;
    assert_eq!(
        patched(role_of_token_3, [2]),
        malformed("role of a token", 2, "0 or 1")
    );
    let token_3 = 256 + 4 * 3;
    assert_eq!(
        patched(token_3, 320u32.to_le_bytes()),
        "token 320 at index 3 of the session is not below the vocabulary size 320"
    );
}

#[test]
fn a_file_that_is_not_there() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("absent");
    let message = refused(&mut engine(), &[], &path).to_string();
    assert!(message.starts_with(&format!("cannot open {}: ", path.display())));
    assert!(read_host(folder.path()).is_err(), "a folder");
}
