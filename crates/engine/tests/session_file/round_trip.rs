//! A restored sequence is the one that was saved, bit for bit.

use minfer_engine::session_file::{host_of, read_host};
use minfer_engine::{Chunk, Engine, Role, Wanted};
use minfer_graph::{KvFormat, SequenceId};
use tempfile::tempdir;

use crate::support::{append, decode, engine, load, options, sequence, text};

/// Lengths of gaps for 47 tokens: one, as many as a window can name, and so many that the rows are gathered.
const GAPS: [&[usize]; 3] = [&[60], &[13, 11, 14, 9], &[7, 9, 5, 8, 6, 7, 9]];
const FORMATS: [KvFormat; 3] = [KvFormat::F32, KvFormat::F16, KvFormat::Q8_0];

/// A sequence whose cells are interrupted by those of others, which are released again.
fn scattered(engine: &mut Engine) -> SequenceId {
    let id = engine.create_sequence();
    for part in 0..3 {
        append(
            engine,
            id,
            &text(1, 10 * part..10 * part + 10),
            Role::Prompt,
        );
        let other = sequence(engine, &text(2, 0..7));
        if part > 0 {
            engine.release_sequence(other).expect("it exists");
        }
    }
    decode(engine, id, &text(3, 0..9));
    id
}

/// Leaves only gaps of these lengths free, and returns a sequence that can grow by eight tokens.
fn leave_gaps(engine: &mut Engine, gaps: &[usize]) -> SequenceId {
    let gaps: Vec<_> = gaps
        .iter()
        .map(|&len| {
            let gap = engine.create_sequence();
            engine.reserve(gap, len).expect("free cells");
            sequence(engine, &text(4, 0..5));
            gap
        })
        .collect();
    let neighbour = sequence(engine, &text(5, 0..20));
    engine.reserve(neighbour, engine.free_cells()).expect("all");
    for gap in gaps {
        engine.release_sequence(gap).expect("it exists");
    }
    neighbour
}

#[test]
fn continuing_a_restored_sequence_gives_the_same_bits() {
    let folder = tempdir().expect("a folder");
    for format in FORMATS {
        let path = folder.path().join(format!("{format:?}.session"));
        let mut saver = load("tiny-qwen2-f32", &options(format));
        let id = scattered(&mut saver);
        let host = b"any bytes \x00\xff";
        let bytes = saver.save_sequence(id, host, &path).expect("a save");
        assert_eq!(bytes, path.metadata().expect("a file").len());
        let (tokens, roles) = (saver.tokens(id).to_vec(), saver.roles(id).to_vec());
        let uninterrupted = decode(&mut saver, id, &text(6, 0..8));
        assert!(uninterrupted[0] != uninterrupted[1], "tokens matter");

        for gaps in GAPS {
            let mut other = load("tiny-qwen2-f32", &options(format));
            let neighbour = leave_gaps(&mut other, gaps);
            let (restored, found) = other.restore_sequence(&path).expect("a restore");
            assert_eq!(found, host);
            assert_eq!(other.tokens(restored), tokens);
            assert_eq!(other.roles(restored), roles);
            assert_eq!((other.shareable(restored), tokens.len()), (39, 39));
            let bits = decode_beside(&mut other, restored, neighbour, &text(6, 0..8));
            assert!(bits == uninterrupted, "{format:?} in gaps of {gaps:?}");
        }
    }
}

/// Decodes tokens, each in a step with one of a neighbour; the bits of the logits after each.
fn decode_beside(
    engine: &mut Engine,
    sequence: SequenceId,
    neighbour: SequenceId,
    tokens: &[u32],
) -> Vec<Vec<u32>> {
    let mut bits = Vec::new();
    for token in tokens {
        let chunks = [(neighbour, &7), (sequence, token)].map(|(sequence, token)| Chunk {
            sequence,
            tokens: std::slice::from_ref(token),
            role: Role::Generated,
            logits: Wanted::Last,
        });
        engine.step(&chunks).unwrap_or_else(|e| panic!("{e}"));
        let logits = engine.logits(1, 0).iter();
        bits.push(logits.map(|l| l.to_bits()).collect());
    }
    bits
}

#[test]
fn the_last_token_computed_again_gives_its_logits_again() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let mut engine = engine();
    let id = sequence(&mut engine, &text(1, 0..20));
    let last = append(&mut engine, id, &[5], Role::Generated);
    engine.save_sequence(id, &[], &path).expect("a save");
    let (restored, _) = engine.restore_sequence(&path).expect("a restore");
    engine.truncate_sequence(restored, 20).expect("21 tokens");
    assert!(append(&mut engine, restored, &[5], Role::Generated) == last);
}

#[test]
fn a_restored_sequence_is_saved_as_the_same_file() {
    let folder = tempdir().expect("a folder");
    for format in FORMATS {
        let paths = ["first", "second"].map(|name| folder.path().join(name));
        let mut saver = load("tiny-qwen2-f32", &options(format));
        let id = scattered(&mut saver);
        saver.save_sequence(id, b"host", &paths[0]).expect("a save");
        let mut other = load("tiny-qwen2-f32", &options(format));
        leave_gaps(&mut other, GAPS[1]);
        let (restored, host) = other.restore_sequence(&paths[0]).expect("a restore");
        other
            .save_sequence(restored, &host, &paths[1])
            .expect("a save");
        let [first, second] = paths.map(|path| std::fs::read(path).expect("a file"));
        assert!(first == second, "{format:?}");
        assert_eq!(
            host_of(std::io::Cursor::new(first)).expect("whole"),
            b"host"
        );
    }
}

#[test]
fn a_shifted_sequence_continues_and_its_shifted_rows_stay_private() {
    let folder = tempdir().expect("a folder");
    for format in FORMATS {
        let path = folder.path().join(format!("{format:?}.session"));
        let mut saver = load("tiny-qwen2-f32", &options(format));
        let id = scattered(&mut saver);
        saver.shift_sequence(id, 5..14).expect("39 tokens");
        append(&mut saver, id, &text(8, 0..3), Role::Prompt);
        saver.save_sequence(id, &[], &path).expect("a save");
        let uninterrupted = decode(&mut saver, id, &text(6, 0..8));

        let mut other = load("tiny-qwen2-f32", &options(format));
        leave_gaps(&mut other, GAPS[1]);
        let (restored, _) = other.restore_sequence(&path).expect("a restore");
        assert_eq!(other.tokens(restored).len(), 39 - 9 + 3);
        assert_eq!(other.shareable(restored), 5);
        assert!(decode(&mut other, restored, &text(6, 0..8)) == uninterrupted);
    }
}

#[test]
fn neighbours_of_a_restored_sequence_keep_their_bits() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let mut alone = engine();
    let id = sequence(&mut alone, &text(1, 0..25));
    alone.save_sequence(id, &[], &path).expect("a save");
    let neighbour = sequence(&mut alone, &text(2, 0..12));
    let expected = decode(&mut alone, neighbour, &text(3, 0..6));

    let mut shared = engine();
    let neighbour = sequence(&mut shared, &text(2, 0..12));
    let mut found = decode(&mut shared, neighbour, &text(3, 0..3));
    let (restored, _) = shared.restore_sequence(&path).expect("a restore");
    decode(&mut shared, restored, &text(4, 0..3));
    found.extend(decode(&mut shared, neighbour, &text(3, 3..6)));
    assert!(found == expected);
}

#[test]
fn a_sequence_may_be_empty_and_the_context_shorter() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let mut saver = engine();
    let empty = saver.create_sequence();
    saver
        .save_sequence(empty, b"no rows", &path)
        .expect("a save");
    assert_eq!(path.metadata().expect("a file").len(), 256 + 7 + 32 + 32);
    let (restored, host) = saver.restore_sequence(&path).expect("a restore");
    assert_eq!(
        (saver.tokens(restored).len(), &host[..]),
        (0, &b"no rows"[..])
    );

    let id = sequence(&mut saver, &text(1, 0..32));
    saver
        .save_sequence(id, b"32 tokens", &path)
        .expect("a save");
    let mut options = options(KvFormat::F32);
    options.n_ctx = Some(32);
    let mut shorter = load("tiny-qwen2-f32", &options);
    let (restored, _) = shorter.restore_sequence(&path).expect("just fits");
    assert_eq!(shorter.tokens(restored), text(1, 0..32));
    assert_eq!(read_host(&path).expect("whole"), b"32 tokens");
}
