//! A writer that is killed at any moment leaves a whole file.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use minfer_engine::{Engine, EngineOptions};
use minfer_graph::{KvFormat, SequenceId};
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tempfile::tempdir;

use crate::support::{decode, load, options, sequence, text};

const KILLS: usize = 200;
/// Stored as it is, so that a writer need not decompress it first.
const MODEL: &str = "tiny-llama-q4_k";
/// Tells the test below, in a process of its own, what to write to.
const TARGET: &str = "MINFER_TEST_SAVE_TO";
const READY: &str = "ready to be killed";
/// Tokens of the states that are saved in turn.
const LENGTHS: [u32; 3] = [12, 80, 41];

fn small_engine() -> Engine {
    let options = EngineOptions {
        ubatch: 96,
        ..options(KvFormat::F32)
    };
    load(MODEL, &options)
}

fn host(state: usize) -> Vec<u8> {
    vec![b'0' + state as u8; 20_000 * (state + 1)]
}

fn state(engine: &mut Engine, state: usize) -> SequenceId {
    sequence(engine, &text(state as u32, 0..LENGTHS[state]))
}

/// Does nothing unless the other test starts it.
#[test]
fn saves_until_it_is_killed() {
    let Some(path) = std::env::var_os(TARGET) else {
        return;
    };
    let mut engine = small_engine();
    let states = [0, 1, 2].map(|i| (state(&mut engine, i), host(i)));
    // Bounded, in case that nobody comes to kill it.
    for saves in 0..100_000 {
        let (sequence, host) = &states[saves % states.len()];
        engine
            .save_sequence(*sequence, host, Path::new(&path))
            .unwrap_or_else(|e| panic!("save {saves}: {e}"));
        if saves == 0 {
            println!("{READY}");
        }
    }
}

/// Starts the test above and waits until it has saved once.
fn writer(path: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "kill::saves_until_it_is_killed", "--nocapture"])
        .env(TARGET, path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test itself");
    let output = child.stdout.take().expect("piped");
    let mut lines = BufReader::new(output).lines();
    let ready = lines.any(|line| line.is_ok_and(|line| line.ends_with(READY)));
    assert!(ready, "the writer ended: {:?}", child.wait());
    child
}

#[test]
fn a_kill_at_any_moment_leaves_a_state_that_was_saved() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("session");
    let leftover = folder.path().join(".session.saving");
    let mut engine = small_engine();
    let next = text(7, 0..2);
    let expected = [0, 1, 2].map(|i| {
        let id = state(&mut engine, i);
        let bits = decode(&mut engine, id, &next);
        engine.release_sequence(id).expect("it exists");
        bits
    });
    let mut random = Pcg64::seed_from_u64(200);
    let (mut whole, mut in_the_middle, mut found) = (0, 0, [0; 3]);
    for _ in 0..KILLS {
        let mut child = writer(&path);
        sleep(Duration::from_micros(random.next_u64() % 10_000));
        child.kill().expect("a child");
        child.wait().expect("a child");
        in_the_middle += usize::from(leftover.exists());
        let restored = engine.restore_sequence(&path);
        let (id, bytes) = restored.unwrap_or_else(|e| panic!("after {whole} kills: {e}"));
        let saved = usize::from(bytes[0] - b'0');
        assert_eq!(bytes, host(saved));
        assert_eq!(engine.tokens(id), text(saved as u32, 0..LENGTHS[saved]));
        assert!(decode(&mut engine, id, &next) == expected[saved]);
        engine.release_sequence(id).expect("it exists");
        whole += 1;
        found[saved] += 1;
    }
    println!("{whole} of {KILLS} kills left a whole file, {in_the_middle} of them in mid-save");
    println!("states found: {found:?}");
    assert_eq!(whole, KILLS);
    assert!(in_the_middle > 0, "no kill came while a file was written");
}
