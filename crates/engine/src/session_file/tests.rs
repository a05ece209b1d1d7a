use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use minfer_cpu::Isa;
use minfer_gguf::{Gguf, Writer};
use minfer_graph::{CellRun, KvFormat, KvPart, SequenceId};
use minfer_testdata::{fixture, tiny_model};

use super::header::{Block, Header, Shape};
use super::origin::{EngineOrigin, ModelId};
use super::read::Verified;
use super::replace::Replacement;
use super::{SessionFileError, cells};
use crate::device::Placement;
use crate::{Chunk, Engine, EngineOptions, Role, Wanted};

const MODEL: &str = "tiny-llama-q4_k";

fn engine() -> Engine {
    let options = EngineOptions {
        threads: Some(1),
        n_ctx: Some(64),
        ubatch: 32,
        parallel: 2,
        ..EngineOptions::default()
    };
    Engine::load(tiny_model(MODEL), &options).unwrap_or_else(|e| panic!("{e}"))
}

fn append(engine: &mut Engine, sequence: SequenceId, tokens: &[u32]) -> Vec<u32> {
    let chunk = Chunk {
        sequence,
        tokens,
        role: Role::Prompt,
        logits: Wanted::Last,
    };
    engine.step(&[chunk]).unwrap_or_else(|e| panic!("{e}"));
    engine.logits(0, 0).iter().map(|l| l.to_bits()).collect()
}

/// A file that someone changes after it was verified: when the rows are sought.
struct Changing<F> {
    file: Cursor<Vec<u8>>,
    seeks: usize,
    change: F,
}

impl<F> Read for Changing<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.file.read(into)
    }
}

impl<F: FnMut(&mut Vec<u8>)> Seek for Changing<F> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.seeks += 1;
        if self.seeks == 3 {
            (self.change)(self.file.get_mut());
        }
        self.file.seek(to)
    }
}

#[test]
fn a_file_that_changes_after_it_was_verified_is_refused_and_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("session");
    let mut engine = engine();
    let id = engine.create_sequence();
    append(&mut engine, id, &[5; 20]);
    engine.save_sequence(id, b"host", &path).expect("a save");
    let file = std::fs::read(&path).expect("a file");
    let expected = append(&mut engine, id, &[7]);
    engine.truncate_sequence(id, 20).expect("21 tokens");

    let free = engine.free_cells();
    let mut restore = |change: &dyn Fn(&mut Vec<u8>)| {
        let source = Changing {
            file: Cursor::new(file.clone()),
            seeks: 0,
            change,
        };
        let mut saved = Verified::read(source, Path::new("changing")).expect("whole so far");
        let restored = engine.restore(&mut saved);
        if restored.is_err() {
            assert_eq!(engine.free_cells(), free);
        }
        restored
    };
    let len = file.len();
    let changed = [
        restore(&|file| file.truncate(300)),
        restore(&|file| file.truncate(len - 33)),
        restore(&|file| file[len - 40] ^= 1),
        restore(&|file| file[400] ^= 1),
    ];
    for error in changed {
        assert!(matches!(error, Err(SessionFileError::Changed)), "{error:?}");
    }
    assert!(restore(&|_| ()).is_ok());
    assert!(append(&mut engine, id, &[7]) == expected);
}

/// Writers of one file take turns: whoever opened the temporary file of a writer that then renamed it must
/// not take the lock for the right to overwrite it.
#[test]
fn a_file_is_whole_whenever_it_is_read_while_several_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let content = |byte: u8| vec![byte; 100_000];
    let write = |byte: u8| -> Result<(), SessionFileError> {
        let mut file = Replacement::begin(&path)?;
        file.write_all(&content(byte)).expect("a new file");
        file.commit()
    };
    write(b'0').expect("alone");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers = [b'1', b'2', b'3'].map(|byte| {
            scope.spawn(move || {
                for _ in 0..40 {
                    while let Err(error) = write(byte) {
                        assert!(matches!(error, SessionFileError::Busy { .. }), "{error}");
                    }
                }
            })
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let found = std::fs::read(&path).expect("a file");
                let whole = found.first().is_some_and(|&byte| found == content(byte));
                assert!(whole, "{} bytes", found.len());
            }
        });
        let saved = writers.map(|writer| writer.join().is_ok());
        done.store(true, Ordering::Relaxed);
        assert_eq!(saved, [true; 3]);
    });
}

#[test]
fn blocks_cover_all_rows_in_the_order_of_the_file() {
    let gguf = Gguf::open(fixture(format!("tiny/{MODEL}.gguf")), Default::default());
    let gguf = gguf.unwrap_or_else(|e| panic!("{e}"));
    let mut header = Header {
        origin: *origin(&gguf).get(),
        shape: Shape {
            layers: 2,
            kv_width: 30_000,
            head_dim: 1,
            n_vocab: 1,
        },
        format: KvFormat::F32,
        n_ctx: 1,
        tokens: 5,
        shareable: 5,
        host_bytes: 3,
    };
    // 256 KiB hold two rows of 120,000 bytes.
    let block = |layer, part, positions| Block {
        layer,
        part,
        positions,
    };
    let mut expected = Vec::new();
    for layer in 0..2 {
        for part in [KvPart::Keys, KvPart::Values] {
            expected.extend([0..2, 2..4, 4..5].map(|positions| block(layer, part, positions)));
        }
    }
    let blocks: Vec<_> = header.blocks().expect("rows of f32").collect();
    assert_eq!(blocks, expected);
    assert_eq!(header.block_bytes().expect("rows of f32"), 240_000);
    let rows = 2 * 2 * 5 * 120_000;
    let before = 256 + 5 * 4 + 5 + 3 + 32;
    assert_eq!(header.rows_start(), before);
    assert_eq!(header.file_bytes().expect("small"), before + rows + 32);
    header.format = KvFormat::Q8_0;
    assert!(header.file_bytes().is_err(), "30,000 is not whole blocks");
}

#[test]
fn positions_find_their_cells_across_runs() {
    let run = |position, cell, len| CellRun {
        position,
        cell,
        len,
    };
    let runs = [run(0, 10, 4), run(4, 30, 2), run(6, 20, 5)];
    let found = |positions| cells(&runs, &positions).collect::<Vec<_>>();
    assert_eq!(found(0..11), [10..14, 30..32, 20..25]);
    assert_eq!(found(3..7), [13..14, 30..32, 20..21]);
    assert_eq!(found(5..8), [31..32, 20..22]);
    assert!(found(11..13).is_empty());
}

fn origin(gguf: &Gguf) -> EngineOrigin {
    let placement = Placement::on_cpu(2, None);
    EngineOrigin::new(gguf, &placement, Isa::Scalar, &EngineOptions::default())
}

fn model_id(gguf: &Gguf) -> ModelId {
    let origin = origin(gguf);
    origin.get().model
}

#[test]
fn a_fingerprint_covers_the_header_and_both_ends_of_each_tensor() {
    let path = fixture(format!("tiny/{MODEL}.gguf"));
    let bytes = std::fs::read(&path).expect("a fixture");
    let parse = |bytes| Gguf::parse_bytes(&path, bytes).unwrap_or_else(|e| panic!("{e}"));
    let original = parse(bytes.clone());
    let fingerprint = model_id(&original).fingerprint;
    let changed = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        model_id(&parse(bytes)).fingerprint != fingerprint
    };
    for tensor in original.tensors() {
        assert!(changed(tensor.offset), "{}", tensor.name);
        assert!(changed(tensor.offset + tensor.len - 1), "{}", tensor.name);
    }
    let largest = original.tensors().iter().max_by_key(|tensor| tensor.len);
    let largest = largest.expect("a tensor");
    assert!(changed(largest.offset + 4095));
    assert!(!changed(largest.offset + 4096), "the middle is not read");

    let mut writer = Writer::new();
    for (key, value) in original.metadata().iter() {
        writer.set(key, value.clone());
    }
    for info in original.tensors() {
        writer.add(original.tensor(&info.name).expect("listed"));
    }
    writer.set("general.name", "another name");
    let renamed = writer.to_bytes().unwrap_or_else(|e| panic!("{e}"));
    let renamed = model_id(&parse(renamed));
    assert_ne!(renamed.fingerprint, fingerprint);
    assert!(renamed.to_string().starts_with("'another name' ("));
}
