//! `--session` of `chat` and `run`: a conversation goes on in the next process.

mod support;

use std::fs::File;
use std::path::Path;

use minfer_testdata::fixture;
use support::{Run, minfer, run, with_input};

/// Minfer on the tiny model with a session, answering with eight tokens.
fn with_session(command: &str, file: &Path, args: &[&str], input: &str) -> Run {
    let mut line = minfer(file.parent().unwrap());
    line.arg(command)
        .arg(fixture("tiny/tiny-qwen3-q4_k.gguf"))
        .args(["--greedy", "-n", "8", "-v", "--session"])
        .arg(file)
        .args(args);
    with_input(&mut line, input)
}

/// Tokens prefilled for the last answer, and those that the context held already.
fn prefilled_and_reused(run: &Run) -> (usize, usize) {
    let line = run.stderr.rsplit("prefill ").next().unwrap();
    let (line, _) = line.split_once(" | ").unwrap_or_else(|| panic!("{run:?}"));
    let mut numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let prefilled = numbers.next().unwrap_or_else(|| panic!("{run:?}"));
    (prefilled, numbers.next_back().unwrap_or(0))
}

fn resumed_exactly(run: &Run, tokens: usize, file: &Path) -> bool {
    let note = format!(
        "resumed {tokens} tokens (1 turn) from {} without prefill",
        file.display()
    );
    run.stderr.contains(&note)
}

/// A chat of two turns in one process, and the file it leaves.
fn whole(folder: &Path) -> Run {
    with_session("chat", &folder.join("whole"), &[], "abcde\nhello\n").expect_code(0)
}

#[test]
fn the_next_process_goes_on_without_prefill() {
    let folder = tempfile::tempdir().unwrap();
    let whole = whole(folder.path());
    for (first, second) in [
        ("chat", "chat"),
        ("run", "run"),
        ("chat", "run"),
        ("run", "chat"),
    ] {
        let file = folder.path().join(format!("{first}-{second}"));
        let before = with_session(first, &file, &[], "abcde\n").expect_code(0);
        let after = with_session(second, &file, &[], "hello\n").expect_code(0);
        assert_eq!(before.stdout + &after.stdout, whole.stdout);
        // Only what an uninterrupted chat computes in its second turn.
        assert_eq!(prefilled_and_reused(&after), prefilled_and_reused(&whole));
        let (_, reused) = prefilled_and_reused(&after);
        assert!(resumed_exactly(&after, reused, &file), "{after:?}");
    }
}

#[test]
fn a_file_of_other_rows_is_computed_anew_for_the_stated_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    with_session("chat", &file, &[], "abcde\n").expect_code(0);
    let f16 = with_session("chat", &file, &["--cache-type", "f16"], "abcde\n").expect_code(0);
    assert!(f16.stderr.contains("resumed 1 turn"), "{f16:?}");
    assert!(
        f16.stderr
            .contains("saved with f32 keys and values, this engine uses f16")
    );
    assert!(!f16.stderr.contains("without prefill"), "{f16:?}");
    let again = with_session("chat", &file, &["--cache-type", "f16"], "/stats\n").expect_code(0);
    assert!(again.stderr.contains("(2 turns)"), "{again:?}");
    assert!(again.stderr.contains("without prefill"), "{again:?}");
}

#[test]
fn damage_to_rows_costs_a_prefill_and_damage_to_the_history_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    let saved = with_session("chat", &file, &[], "abcde\n").expect_code(0);
    let (prompt, _) = prefilled_and_reused(&saved);
    let mut bytes = std::fs::read(&file).unwrap();
    let flip = |bytes: &mut Vec<u8>, at: usize| {
        bytes[at] ^= 1;
        std::fs::write(&file, bytes).unwrap();
    };
    let middle = bytes.len() / 2;
    flip(&mut bytes, middle);
    let anew = with_session("chat", &file, &[], "hello\n").expect_code(0);
    assert!(anew.stderr.contains("resumed 1 turn from "), "{anew:?}");
    assert!(anew.stderr.contains("to be computed anew: "), "{anew:?}");
    assert!(anew.stderr.contains("damaged"), "{anew:?}");
    let (prefilled, reused) = prefilled_and_reused(&anew);
    assert!(prefilled > prompt && reused == 0, "{anew:?}");

    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes
        .windows(5)
        .position(|window| window == b"abcde")
        .unwrap();
    flip(&mut bytes, at);
    let refused = with_session("chat", &file, &[], "hello\n").expect_code(1);
    assert!(refused.stderr.contains("cannot resume"), "{refused:?}");
    assert!(refused.stderr.contains("damaged"), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "it is left alone");
}

#[test]
fn a_file_that_is_no_session_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    std::fs::write(&notes, "milk, bread").unwrap();
    for command in ["chat", "run"] {
        let refused = with_session(command, &notes, &[], "abcde\n").expect_code(1);
        assert!(refused.stderr.contains("cannot resume"), "{refused:?}");
        assert!(
            refused.stderr.contains("hint: name another file\n"),
            "a file of the user's is not to be removed: {refused:?}"
        );
        assert_eq!(refused.stdout, "");
    }
    let file = folder.path().join("session");
    let save = format!("hello\n/save {}\n", notes.display());
    let refused = with_session("chat", &file, &[], &save).expect_code(1);
    assert!(
        refused
            .stderr
            .contains("is not a session file: it stays as it is")
    );
    assert_eq!(std::fs::read(&notes).unwrap(), b"milk, bread");
}

#[test]
fn an_empty_file_is_a_new_session_and_a_missing_folder_an_early_error() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    with_session("chat", &empty, &[], "abcde\n").expect_code(0);
    let again = with_session("chat", &empty, &[], "").expect_code(0);
    assert!(again.stderr.contains("without prefill"), "{again:?}");
    let mut command = minfer(folder.path());
    command.args(["run", "no-such-model", "hello", "--session", "none/file"]);
    let refused = run(&mut command).expect_code(1);
    assert!(
        refused.stderr.contains("there is no folder none"),
        "{refused:?}"
    );
}

#[test]
fn conversations_are_saved_and_loaded_by_command() {
    let folder = tempfile::tempdir().unwrap();
    let whole = whole(folder.path());
    let (kept, other) = (folder.path().join("kept"), folder.path().join("my talk"));
    let save = format!("abcde\n/save {}\nforgotten\n", other.display());
    let saved = with_session("chat", &kept, &[], &save).expect_code(0);
    assert!(saved.stderr.contains("saved to "), "{saved:?}");
    let load = format!("hey\n/load {}\nhello\n", other.display());
    let loaded = with_session("chat", &folder.path().join("third"), &[], &load).expect_code(0);
    let first = with_session("run", &folder.path().join("fourth"), &[], "abcde").stdout;
    let second = whole.stdout.strip_prefix(&first).unwrap();
    assert!(loaded.stdout.ends_with(second), "{loaded:?}");
    assert!(loaded.stderr.contains("(1 turn)"), "{loaded:?}");
}

#[test]
fn a_loaded_conversation_replaces_the_kept_one_only_once_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, other) = (folder.path().join("kept"), folder.path().join("other"));
    with_session("chat", &kept, &[], "abcde\nhello\n").expect_code(0);
    with_session("chat", &other, &[], "abcde\n").expect_code(0);
    let before = std::fs::read(&kept).unwrap();
    let load = format!("/load {}\n", other.display());
    let loaded = with_session("chat", &kept, &[], &load).expect_code(0);
    let note = format!(
        "the next answer replaces the conversation in {}",
        kept.display()
    );
    assert!(loaded.stderr.contains(&note), "{loaded:?}");
    assert!(std::fs::read(&kept).unwrap() == before);
    with_session("chat", &kept, &[], &(load + "hey\n")).expect_code(0);
    let after = with_session("chat", &kept, &[], "/undo\n/undo\n").expect_code(0);
    assert!(
        after.stderr.contains("\"hey\"\nforgot the turn \"abcde\""),
        "{after:?}"
    );
}

#[test]
fn a_refused_message_leaves_the_kept_rows_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    with_session("chat", &file, &[], "abcde\n").expect_code(0);
    let before = std::fs::read(&file).unwrap();
    let short = ["-c", "16"];
    let refused = with_session("chat", &file, &short, "hello\n").expect_code(1);
    assert!(
        refused.stderr.contains("16 of the context's 16 are left"),
        "{refused:?}"
    );
    assert!(std::fs::read(&file).unwrap() == before);
}

#[test]
fn a_tilde_is_the_home_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    let saved = with_session("chat", &file, &[], "abcde\n/save ~/mine\n/load ~/mine\n");
    saved.expect_code(0);
    assert!(folder.path().join("mine").is_file());
}

#[test]
fn what_was_undone_stays_undone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session");
    with_session("chat", &file, &[], "abcde\nhello\n/undo\n").expect_code(0);
    let after = with_session("chat", &file, &[], "hello\n").expect_code(0);
    assert!(after.stderr.contains("(1 turn)"), "{after:?}");
    let whole = whole(folder.path());
    assert!(whole.stdout.ends_with(&after.stdout), "{after:?} {whole:?}");
}

#[cfg(unix)]
#[test]
fn changes_are_kept_though_the_input_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept");
    let mut line = minfer(folder.path());
    line.args(["chat", "--system", "Be brief.", "--session"])
        .arg(&file)
        .arg(fixture("tiny/tiny-qwen3-q4_k.gguf"));
    // A folder can be opened, but reading it fails.
    let failed = run(line.stdin(File::open(folder.path()).unwrap())).expect_code(1);
    assert!(
        failed.stderr.contains("cannot read standard input"),
        "{failed:?}"
    );
    assert!(file.exists(), "{failed:?}");
}
