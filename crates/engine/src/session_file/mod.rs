//! A sequence in a file: saved whole or not at all, restored whole or not at all.
//!
//! The file holds what lets [`Engine::restore_sequence`] continue bit for bit without computing a token
//! again: tokens, roles and the rows of every layer, in the order of their positions whatever their cells
//! were. Beside them it holds the *host state*, bytes of the caller's that mean nothing to the engine.
//! Logits are not kept: tokens that are added next yield them.
//!
//! # Format
//!
//! Integers are unsigned and little-endian; text is UTF-8, cut to its field and padded with zeros. With `t`
//! tokens, `h` bytes of host state, `n` layers and rows of `r` bytes ([`minfer_graph::KvFormat::cell_bytes`]
//! of the key width):
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | `MFSESS`, 0x1A, 0x0A |
//! | 8 | 4 | format version, 1 |
//! | 12 | 4 | KV format: 0 `f32`, 1 `f16`, 2 `q8_0` |
//! | 16 | 8 | bytes of the file |
//! | 24 | 32 | model fingerprint: BLAKE3 of the model files' headers and of both ends of each tensor |
//! | 56 | 4 | layers `n` |
//! | 60 | 4 | key width |
//! | 64 | 4 | head dimension |
//! | 68 | 4 | vocabulary size |
//! | 72 | 8 | context length of the engine that saved, for information |
//! | 80 | 8 | tokens `t`, at most 2^26 |
//! | 88 | 8 | shareable length: leading tokens whose rows are what a fresh computation gives |
//! | 96 | 8 | bytes of host state `h`, at most 2^30 |
//! | 104 | 16 | backend, such as `cpu`, `metal`, or `metal+cpu` where both run layers |
//! | 120 | 32 | arithmetic: instruction set, with AMX also the precision of prompt rows; of a device its name and kernels other than the fastest |
//! | 152 | 32 | version of the program |
//! | 184 | 64 | model name, for messages |
//! | 248 | 8 | zeros |
//! | 256 | 4 t | token ids |
//! | | t | roles: 0 prompt, 1 generated |
//! | | h | host state |
//! | | 32 | BLAKE3 of everything before |
//! | | 2 n t r | for each layer the keys of all tokens, then their values |
//! | | 32 | BLAKE3 of everything before |
//!
//! BLAKE3 serves both purposes: a CRC would do against flipped bytes, but two models need a hash without
//! chance collisions. Built with its feature `pure` it is Rust with SIMD intrinsics, without C or assembly.

mod error;
mod header;
mod origin;
mod read;
mod replace;
#[cfg(test)]
mod tests;
mod write;

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Range;
use std::path::Path;

use minfer_graph::{CellRun, SequenceId};

use crate::{Engine, kv_format_name};
pub use error::SessionFileError;
use error::failed;
use header::{Header, MOST_HOST_BYTES, Shape};
pub(crate) use origin::EngineOrigin;
use read::{Front, Verified};
use replace::Replacement;
use write::{Contents, write};

/// The host state of a session file, also of one that another model, backend or KV format made, or whose rows
/// are damaged or cut off: a history kept there can be computed again.
///
/// # Errors
/// A file that cannot be read, has another format version, or is damaged before its rows.
pub fn read_host(path: &Path) -> Result<Vec<u8>, SessionFileError> {
    let mut file = File::open(path).map_err(failed("open", path))?;
    Front::read(&mut file, path).map(|front| front.host)
}

/// [`read_host`] of a file in memory.
///
/// # Errors
/// As [`read_host`].
pub fn host_of(mut file: impl Read + Seek) -> Result<Vec<u8>, SessionFileError> {
    Front::read(&mut file, Path::new("a file in memory")).map(|front| front.host)
}

/// Session files.
impl Engine {
    /// Saves a sequence and `host` to a file and returns its length in bytes. An existing file is replaced at
    /// once, when all is written and durable, and keeps its permissions; a new one is its owner's alone.
    ///
    /// # Errors
    /// An unknown sequence, rows that cannot be read, a file that cannot be written or that another process
    /// is saving. An existing file is as it was; only when the folder cannot be synchronized, it is
    /// replaced already.
    pub fn save_sequence(
        &mut self,
        sequence: SequenceId,
        host: &[u8],
        path: &Path,
    ) -> Result<u64, SessionFileError> {
        if host.len() > MOST_HOST_BYTES {
            return Err(SessionFileError::HostState {
                bytes: host.len(),
                most: MOST_HOST_BYTES,
            });
        }
        let runs: Vec<CellRun> = self.sequences.arena().live(sequence)?.collect();
        let tokens = self.sequences.tokens(sequence);
        let rows = runs.iter().map(|run| run.len).sum();
        if rows != tokens.len() {
            let tokens = tokens.len();
            return Err(SessionFileError::MissingRows { tokens, rows });
        }
        let header = Header {
            origin: *self.origin.get(),
            shape: self.saved_shape(),
            format: self.kv_format(),
            n_ctx: self.n_ctx(),
            tokens: tokens.len(),
            shareable: self.sequences.shareable(sequence),
            host_bytes: host.len(),
        };
        let row_bytes = header.row_bytes()?;
        let contents = Contents {
            header,
            tokens,
            roles: self.sequences.roles(sequence),
            host,
        };
        let mut file = Replacement::begin(path)?;
        let temporary = file.temporary().to_owned();
        let executor = &mut self.executor;
        let bytes = write(&mut file, &temporary, &contents, |block, mut rows| {
            for cells in cells(&runs, &block.positions) {
                let (piece, rest) = rows.split_at_mut(cells.len() * row_bytes);
                executor.read_rows(block.layer, block.part, cells, piece)?;
                rows = rest;
            }
            Ok(())
        })?;
        file.commit()?;
        Ok(bytes)
    }

    /// Makes a sequence of what [`Engine::save_sequence`] saved, and returns it with the host state.
    /// Continuing it gives the bits that the saved sequence would have given. The context may be shorter than
    /// that of the engine that saved, as long as it holds the tokens.
    ///
    /// # Errors
    /// A file that is damaged or does not belong to this model, backend, KV format or program; more tokens
    /// than the context or the free cells hold. The engine is as it was.
    pub fn restore_sequence(
        &mut self,
        path: &Path,
    ) -> Result<(SequenceId, Vec<u8>), SessionFileError> {
        let file = File::open(path).map_err(failed("open", path))?;
        let mut saved = Verified::read(file, path)?;
        let sequence = self.restore(&mut saved)?;
        Ok((sequence, saved.front.host))
    }

    fn restore<R: Read + Seek>(
        &mut self,
        saved: &mut Verified<R>,
    ) -> Result<SequenceId, SessionFileError> {
        self.check_saved(&saved.front.header)?;
        let sequence = self.sequences.create();
        match self.fill(sequence, saved) {
            Ok(()) => Ok(sequence),
            Err(error) => {
                self.sequences.release(sequence)?;
                Err(error)
            }
        }
    }

    /// Refuses a file that this engine cannot continue, or has no room for.
    fn check_saved(&self, saved: &Header) -> Result<(), SessionFileError> {
        self.origin.get().check(&saved.origin)?;
        self.saved_shape().check(&saved.shape)?;
        if saved.format != self.kv_format() {
            return Err(SessionFileError::KvFormat {
                saved: kv_format_name(saved.format),
                engine: kv_format_name(self.kv_format()),
            });
        }
        let tokens = saved.tokens;
        if tokens > self.n_ctx() {
            let n_ctx = self.n_ctx();
            return Err(SessionFileError::ContextTooShort { tokens, n_ctx });
        }
        if tokens > self.free_cells() {
            return Err(SessionFileError::NoCells {
                tokens,
                free: self.free_cells(),
                cells: self.cells(),
            });
        }
        Ok(())
    }

    /// Gives an empty sequence the rows and tokens of a file.
    fn fill<R: Read + Seek>(
        &mut self,
        sequence: SequenceId,
        saved: &mut Verified<R>,
    ) -> Result<(), SessionFileError> {
        let header = saved.front.header;
        self.sequences.append(sequence, header.tokens)?;
        let runs: Vec<CellRun> = self.sequences.arena().live(sequence)?.collect();
        let row_bytes = header.row_bytes()?;
        let executor = &mut self.executor;
        saved.rows(|block, mut rows| {
            for cells in cells(&runs, &block.positions) {
                let (piece, rest) = rows.split_at(cells.len() * row_bytes);
                executor.write_rows(block.layer, block.part, cells, piece)?;
                rows = rest;
            }
            Ok(())
        })?;
        let (tokens, roles) = (&saved.front.tokens, &saved.front.roles);
        self.sequences
            .record_saved(sequence, tokens, roles, header.shareable);
        Ok(())
    }

    fn saved_shape(&self) -> Shape {
        let hparams = self.model.hparams();
        // They were read as u32, but for counts of a tensor's rows: a model beyond that does not load.
        let size = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Shape {
            layers: size(hparams.n_layer),
            kv_width: size(hparams.n_embd_kv()),
            head_dim: size(hparams.head_dim),
            n_vocab: size(self.model.n_vocab()),
        }
    }
}

/// Cells of some positions, in their order.
fn cells(runs: &[CellRun], positions: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    runs.iter().filter_map(|run| {
        let start = run.position.max(positions.start);
        let end = (run.position + run.len).min(positions.end);
        let first = run.cell + start.checked_sub(run.position)?;
        (start < end).then(|| first..first + (end - start))
    })
}
