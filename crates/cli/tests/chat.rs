//! `chat` through pipes: what its commands do, what arrives on which stream, and how it ends.

mod support;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use minfer_testdata::{fixture, real_model};
use support::{Run, minfer, run, with_input, with_template};

fn tiny() -> PathBuf {
    fixture("tiny/tiny-qwen3-q4_k.gguf")
}

fn smollm2() -> PathBuf {
    real_model("smollm2").unwrap_or_else(|missing| panic!("{missing}"))
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// `minfer chat` on the tiny model, which answers with eight tokens.
fn chat_command(home: &Path, args: &[&str]) -> Command {
    let mut command = minfer(home);
    command.arg("chat").arg(tiny()).args(["-n", "8", "-v"]);
    command.args(args);
    command
}

/// A chat that takes the likeliest tokens.
fn chat(input: &str) -> Run {
    with_input(&mut chat_command(home().path(), &["--greedy"]), input)
}

/// What `minfer run` answers.
fn answer(prompt: &str, args: &[&str]) -> String {
    let home = home();
    let mut command = minfer(home.path());
    command.arg("run").arg(tiny()).arg(prompt);
    command.args(["-n", "8", "--greedy"]).args(args);
    run(&mut command).expect_code(0).stdout
}

/// The counts in the lines that `-v` prints after answers.
#[derive(Debug, PartialEq)]
struct Turn {
    prefilled: usize,
    reused: usize,
    context: usize,
}

fn turns(run: &Run) -> Vec<Turn> {
    let lines = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("prefill "));
    let number = |line: &str, before: &str, after: &str| {
        let end = line.find(after)?;
        let start = line[..end].rfind(before)? + before.len();
        line[start..end].parse().ok()
    };
    lines
        .map(|line| Turn {
            prefilled: number(line, "prefill ", " tokens").unwrap(),
            reused: number(line, ", ", " reused").unwrap_or(0),
            context: number(line, "context ", " of ").unwrap(),
        })
        .collect()
}

/// On a model whose answers are text: a tiny one's are random bytes, which a template cannot repeat.
#[test]
fn a_turn_computes_only_what_is_new() {
    let home = home();
    let mut command = minfer(home.path());
    command.arg("chat").arg(smollm2());
    command.args(["--greedy", "-n", "8", "-v"]);
    let talk = with_input(&mut command, "Who was Ada?\nAnd then?\nAnd then?\n").expect_code(0);
    let turns = turns(&talk);
    assert_eq!(turns.len(), 3, "{talk:?}");
    // Eight tokens are generated, the last of which is not in the context yet.
    assert_eq!(turns[0].context, turns[0].prefilled + 7);
    assert_eq!(turns[1].reused, turns[0].context, "{talk:?}");
    assert_eq!(turns[2].reused, turns[1].context, "{talk:?}");
    // The same message: as many new tokens, however long the conversation is.
    assert_eq!(turns[1].prefilled, turns[2].prefilled, "{talk:?}");
}

#[test]
fn the_model_and_its_memory_are_introduced() {
    let talk = chat("").expect_code(0);
    // 2 layers · keys and values · 2048 cells · 2 heads · 128 features · 4 bytes.
    assert_eq!(
        talk.stderr,
        "all 2 layers run on the CPU\n\
         tiny-qwen3-q4_k.gguf: context 2048 tokens, KV cache 8.4 MB (f32)\n"
    );
}

#[test]
fn undone_and_cleared_turns_leave_no_trace() {
    let hello = answer("hello", &[]);
    let again = chat("hello\n/undo\nhello\nmore\nmore\n/clear\nhello\n").expect_code(0);
    assert!(
        again.stdout.starts_with(&(hello.clone() + &hello)),
        "{again:?}"
    );
    assert!(again.stdout.ends_with(&hello), "{again:?}");
    assert!(
        again.stderr.contains("forgot the turn \"hello\""),
        "{again:?}"
    );
}

#[test]
fn the_last_message_is_answered_anew() {
    let regenerated = chat("hello\n/regen\n").expect_code(0);
    assert_eq!(regenerated.stdout, answer("hello", &[]).repeat(2));
    let other = |input| {
        let home = home();
        let args = ["--temp", "1.5", "--seed", "7"];
        with_input(&mut chat_command(home.path(), &args), input)
            .expect_code(0)
            .stdout
    };
    let first = other("hello\n");
    let both = other("hello\n/regen\n");
    let second = both.strip_prefix(&first).unwrap();
    assert_ne!(second, first, "a fixed seed would give the same answer");
    assert_eq!(other("hello\n/regen\n"), both);
}

#[test]
fn instructions_come_from_a_flag_or_a_command() {
    let briefly = answer("hello", &["--system", "Be brief."]);
    assert_ne!(briefly, answer("hello", &[]));
    assert_eq!(
        chat("/system Be brief.\nhello\n").expect_code(0).stdout,
        briefly
    );
    let home = home();
    let mut command = chat_command(home.path(), &["--greedy", "--system", "Be brief."]);
    let flag = with_input(&mut command, "hello\n/clear\n/system\nhello\n").expect_code(0);
    assert_eq!(flag.stdout, briefly + &answer("hello", &[]));
}

#[test]
fn mistakes_are_explained_and_the_chat_goes_on() {
    let talk = chat("/undo\n/regen\n/hlep\n/load\n/load none\n//x\n").expect_code(1);
    assert_eq!(talk.stdout, answer("/x", &[]));
    for complaint in [
        "there is no turn to forget",
        "there is no answer to give anew",
        "there is no command /hlep, the nearest is /help",
        "/load needs a file",
        "cannot resume none",
    ] {
        assert!(talk.stderr.contains(complaint), "{complaint}: {talk:?}");
    }
}

#[test]
fn help_and_stats_are_printed_on_stderr_even_if_quiet() {
    let home = home();
    let mut command = minfer(home.path());
    command
        .arg("chat")
        .arg(tiny())
        .args(["--greedy", "-n", "8", "-q"]);
    let talk = with_input(&mut command, "hello\n/help\n/stats\n/exit\nnever\n").expect_code(0);
    assert_eq!(talk.stdout, answer("hello", &[]));
    assert!(talk.stderr.contains("\n/regen "), "{talk:?}");
    assert!(
        talk.stderr.contains(" of 2048 tokens, 1 turn\n"),
        "{talk:?}"
    );
    assert!(talk.stderr.contains(", 8 generated\n"), "{talk:?}");
    assert!(!talk.stderr.contains("KV cache"), "{talk:?}");
}

#[test]
fn a_single_turn_in_any_spelling_answers_once() {
    let hello = answer("hello", &[]);
    for args in [
        &["chat", "-st"][..],
        &["chat", "--single-turn", "--cnv"],
        &["run", "--cnv", "-st"],
        &["run", "--cnv", "--single-turn"],
    ] {
        let home = home();
        let mut command = minfer(home.path());
        command.arg(args[0]).arg(tiny()).args(&args[1..]);
        command.args(["--greedy", "-n", "8"]);
        assert_eq!(
            with_input(&mut command, "hello\nmore\n")
                .expect_code(0)
                .stdout,
            hello
        );
        let given = with_input(command.arg("hello"), "more\n").expect_code(0);
        assert_eq!(given.stdout, hello, "{args:?}");
    }
}

#[test]
fn the_whole_input_can_be_one_message() {
    let home = home();
    let mut command = chat_command(home.path(), &["--greedy", "-mli"]);
    let whole = with_input(&mut command, "/exit\n\nnow\n").expect_code(0);
    assert_eq!(whole.stdout, answer("/exit\n\nnow", &[]));
    let lines = chat("\"\"\"\n/exit\n\nnow\n\"\"\"\n").expect_code(0);
    assert_eq!(lines.stdout, whole.stdout);
    assert_eq!(chat("a\\\nb\n").expect_code(0).stdout, answer("a\nb", &[]));
}

#[test]
fn empty_input_is_no_error_and_a_message_that_is_no_text_is_one() {
    for input in ["", "\n \n"] {
        assert_eq!(chat(input).expect_code(0).stdout, "");
    }
    let home = home();
    let path = home.path().join("input");
    std::fs::write(&path, b"a\xff\nhello\n").unwrap();
    let mut command = chat_command(home.path(), &["--greedy"]);
    let talk = run(command.stdin(std::fs::File::open(&path).unwrap())).expect_code(1);
    assert_eq!(talk.stdout, answer("hello", &[]));
    assert!(
        talk.stderr
            .contains("line 1 of standard input is not UTF-8 text")
    );
}

#[test]
fn help_is_wrapped_to_the_width_alone() {
    let home = home();
    let help = run(minfer(home.path()).args(["chat", "--help"])).expect_code(0);
    assert!(help.stdout.contains("\nAt the prompt: "), "{help:?}");
    let (_, keys) = help.stdout.split_once("\nAt the prompt: ").unwrap();
    let paragraphs = keys.trim_end().split("\n\n");
    for lines in paragraphs.map(|paragraph| paragraph.lines().collect::<Vec<_>>()) {
        let (_, full) = lines.split_last().unwrap();
        let short = full.iter().find(|line| line.len() < 60);
        assert_eq!(short, None, "{lines:?}");
    }
}

#[test]
fn a_message_longer_than_the_context_is_refused_with_both_counts() {
    let home = home();
    let mut command = chat_command(home.path(), &["--greedy", "-c", "64"]);
    let talk = with_input(&mut command, &format!("{}\nwxyz\n", "x".repeat(100))).expect_code(1);
    assert_eq!(talk.stdout, answer("wxyz", &[]));
    // None of the tiny vocabulary's merges applies: a token is a byte. What is around a message is the same.
    let tokens = turns(&talk)[0].prefilled - "wxyz".len() + 100;
    let complaint = format!("the prompt has {tokens} tokens, but 64 of the context's 64 are left");
    assert!(talk.stderr.contains(&complaint), "{talk:?}");
}

#[test]
fn a_full_context_drops_the_oldest_turns_unless_it_must_not() {
    let input = "abcdefgh\n".repeat(6);
    let home = home();
    let mut command = chat_command(home.path(), &["--greedy", "-c", "100"]);
    let shifting = with_input(&mut command, &input).expect_code(0);
    assert_eq!(turns(&shifting).len(), 6, "{shifting:?}");
    assert!(shifting.stderr.contains("dropped the "), "{shifting:?}");
    assert!(turns(&shifting).iter().all(|turn| turn.context <= 100));
    let stopping = with_input(command.arg("--no-shift"), &input).expect_code(1);
    assert!(!stopping.stderr.contains("dropped"), "{stopping:?}");
    assert!(
        stopping.stderr.contains("of the context's 100 are left"),
        "{stopping:?}"
    );
}

#[test]
fn thoughts_are_dimmed_where_colours_are_asked_for() {
    let home = home();
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n";
    let model = with_template(home.path(), template);
    let shown = |command: &str, args: &[&str]| {
        let mut chat = minfer(home.path());
        chat.args([command, model.to_str().unwrap(), "hello"])
            .args(["--greedy", "-n", "8"]);
        with_input(chat.args(args), "").expect_code(0).stdout
    };
    let plain = shown("chat", &[]);
    assert!(!plain.contains('\x1b'), "{plain:?}");
    let dimmed = format!("\x1b[2m{}\x1b[22m\n", plain.trim_end_matches('\n'));
    for command in ["chat", "run"] {
        assert_eq!(shown(command, &["--color"]), dimmed);
        assert_eq!(shown(command, &["--color", "always"]), dimmed);
        assert_eq!(shown(command, &["--color", "never"]), plain);
        assert_eq!(shown(command, &[]), plain);
    }
}

#[test]
#[cfg(unix)]
fn nobody_reading_ends_the_chat_quietly() {
    let home = home();
    let mut command = minfer(home.path());
    command.arg("chat").arg(tiny()).args(["--greedy", "-q"]);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"hello\n").unwrap();
    let mut first = [0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    stdin.write_all(b"hello\n").unwrap();
    let finished: Run = child.wait_with_output().unwrap().into();
    assert_eq!(finished.expect_code(0).stderr, "");
}

/// Whoever stops a script wants all of it stopped.
#[test]
#[cfg(unix)]
fn interrupting_a_chat_without_a_terminal_ends_it() {
    let home = home();
    let session = home.path().join("session");
    let mut command = minfer(home.path());
    command
        .arg("chat")
        .arg(smollm2())
        .args(["--greedy", "-v", "--session"])
        .arg(&session);
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin
        .write_all(b"Tell a long story about Ada.\nAnd then?\n")
        .unwrap();
    let mut first = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let finished: Run = child.wait_with_output().unwrap().into();
    let finished = finished.expect_code(130);
    assert_eq!(turns(&finished).len(), 1, "{finished:?}");
    assert!(session.is_file(), "what was said is kept");
}
