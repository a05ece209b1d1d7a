//! Engines, sequences and their bits.

use std::ops::Range;
use std::path::Path;

use minfer_engine::session_file::SessionFileError;
use minfer_engine::{Chunk, DeviceChoice, Engine, EngineOptions, Role, Wanted};
use minfer_graph::{KvFormat, MemoryUse, SequenceId};
use minfer_testdata::tiny_model;

pub const MODEL: &str = "tiny-qwen2-f32";

pub fn options(format: KvFormat) -> EngineOptions {
    EngineOptions {
        device: DeviceChoice::Cpu,
        threads: Some(1),
        n_ctx: Some(96),
        ubatch: 32,
        parallel: 3,
        kv_format: Some(format),
        ..EngineOptions::default()
    }
}

pub fn load(model: &str, options: &EngineOptions) -> Engine {
    Engine::load(tiny_model(model), options).unwrap_or_else(|e| panic!("{model}: {e}"))
}

/// An engine with f32 keys and values.
pub fn engine() -> Engine {
    load(MODEL, &options(KvFormat::F32))
}

/// Tokens of a text with this number.
pub fn text(number: u32, positions: Range<u32>) -> Vec<u32> {
    positions
        .map(|i| (i * 37 + number * 101 + 11) % 300)
        .collect()
}

/// Appends tokens, and returns the bits of the logits after the last.
pub fn append(engine: &mut Engine, sequence: SequenceId, tokens: &[u32], role: Role) -> Vec<u32> {
    let chunk = Chunk {
        sequence,
        tokens,
        role,
        logits: Wanted::Last,
    };
    engine.step(&[chunk]).unwrap_or_else(|e| panic!("{e}"));
    engine.logits(0, 0).iter().map(|l| l.to_bits()).collect()
}

/// A new sequence of prompt tokens.
pub fn sequence(engine: &mut Engine, tokens: &[u32]) -> SequenceId {
    let sequence = engine.create_sequence();
    append(engine, sequence, tokens, Role::Prompt);
    sequence
}

/// Decodes tokens; the bits of the logits after each.
pub fn decode(engine: &mut Engine, sequence: SequenceId, tokens: &[u32]) -> Vec<Vec<u32>> {
    let tokens = tokens.iter();
    tokens
        .map(|&token| append(engine, sequence, &[token], Role::Generated))
        .collect()
}

/// What a refused file must not change.
#[derive(Debug, PartialEq)]
struct Snapshot {
    free_cells: usize,
    memory: Vec<MemoryUse>,
    tokens: Vec<Vec<u32>>,
}

fn snapshot(engine: &Engine, sequences: &[SequenceId]) -> Snapshot {
    let tokens = sequences.iter().map(|&id| engine.tokens(id).to_vec());
    Snapshot {
        free_cells: engine.free_cells(),
        memory: engine.memory().to_vec(),
        tokens: tokens.collect(),
    }
}

/// The error of restoring a file that must be refused and change nothing for `sequences`.
pub fn refused(engine: &mut Engine, sequences: &[SequenceId], path: &Path) -> SessionFileError {
    let before = snapshot(engine, sequences);
    let error = match engine.restore_sequence(path) {
        Ok((sequence, _)) => panic!("restored {} tokens", engine.tokens(sequence).len()),
        Err(error) => error,
    };
    assert_eq!(snapshot(engine, sequences), before, "{error}");
    error
}

/// Makes both checksums of a file fit its bytes, if it has room for them.
pub fn seal(file: &mut [u8]) {
    let field = |at: usize| {
        let bytes = file.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
    };
    let (tokens, host) = (field(80), field(96));
    let front = tokens
        .saturating_mul(5)
        .saturating_add(host)
        .saturating_add(256);
    let front = usize::try_from(front).unwrap_or(usize::MAX);
    for end in [front, file.len().saturating_sub(32)] {
        if let Some((content, rest)) = file.split_at_mut_checked(end)
            && let Some(checksum) = rest.first_chunk_mut::<32>()
        {
            *checksum = *blake3::hash(content).as_bytes();
        }
    }
}
