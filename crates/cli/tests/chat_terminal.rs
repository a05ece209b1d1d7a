//! `minfer chat` as a person sees it.
#![cfg(unix)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use minfer_testdata::{fixture, real_model};
use support::terminal::Terminal;
use support::{minfer, templated, with_template};

const INTERRUPT: &str = "\x03";
const END: &str = "\x04";
const ENTER: &str = "\r";
const ALT_ENTER: &str = "\x1b\r";
const UP: &str = "\x1b[A";

fn chat(home: &Path, args: &[&str]) -> Command {
    let mut command = minfer(home);
    command
        .arg("chat")
        .arg(fixture("tiny/tiny-qwen3-q4_k.gguf"));
    command.args(["--greedy", "-v"]).args(args);
    command
}

/// A chat that waits for its first entry.
fn waiting(home: &Path, args: &[&str]) -> Terminal {
    let mut terminal = Terminal::start(&mut chat(home, args));
    terminal.wait_for("/help lists the commands");
    terminal.wait_for("> ");
    terminal
}

/// Waits until an answer is complete and the next prompt is there; the tokens in the context.
fn answered(terminal: &mut Terminal) -> usize {
    terminal.wait_for(" | context ");
    let tokens = terminal.wait_for(" of ").parse().unwrap();
    terminal.wait_for("> ");
    tokens
}

/// What `/undo` says it forgot.
fn last_message(terminal: &mut Terminal) -> String {
    terminal.send("/undo\r");
    terminal.wait_for("forgot the turn \"");
    let message = terminal.wait_for("\"\r\n");
    terminal.wait_for("> ");
    message
}

fn leave(mut terminal: Terminal) {
    terminal.send(END);
    let (status, printed) = terminal.wait();
    assert_eq!(status, Some(0), "{printed:?}");
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// On a model that is not too fast for it.
#[test]
fn ctrl_c_stops_the_answer_and_not_the_chat() {
    let home = home();
    let model = real_model("smollm2").unwrap_or_else(|missing| panic!("{missing}"));
    let mut command = minfer(home.path());
    command.arg("chat").arg(model).args(["--greedy", "-v"]);
    let mut terminal = Terminal::start(&mut command);
    terminal.wait_for("> ");
    for entry in ["Tell a long story about Ada.", "/regen"] {
        terminal.send(&format!("{entry}\r"));
        terminal.wait_for("Ada");
        terminal.wait_for("Ada");
        terminal.send(INTERRUPT);
        terminal.wait_for("interrupted | context ");
        terminal.wait_for("> ");
    }
    assert_eq!(last_message(&mut terminal), "Tell a long story about Ada.");
    leave(terminal);
}

#[test]
fn ctrl_c_at_the_prompt_clears_the_line_and_twice_tells_how_to_leave() {
    let home = home();
    let mut terminal = waiting(home.path(), &["-n", "3"]);
    terminal.send(&format!("never sent{INTERRUPT}kept\r"));
    answered(&mut terminal);
    terminal.send(INTERRUPT);
    terminal.wait_for("> ");
    terminal.send(INTERRUPT);
    assert!(
        !terminal
            .wait_for("Ctrl-D or /exit leaves")
            .contains("leaves")
    );
    terminal.wait_for("> ");
    assert_eq!(last_message(&mut terminal), "kept");
    leave(terminal);
}

/// None of the tiny vocabulary's merges applies here: a token is a byte. A single generated token is not
/// in the context.
#[test]
fn a_message_may_have_several_lines() {
    let home = home();
    let mut terminal = waiting(home.path(), &["-n", "1"]);
    let mut asked = |keys: &str| {
        terminal.send(&format!("/clear\r{keys}"));
        let tokens = answered(&mut terminal);
        let first = if keys.contains("uno") { "uno…" } else { "x" };
        assert_eq!(last_message(&mut terminal), first, "{keys:?}");
        tokens
    };
    let around = asked("x\r") - 1;
    for (keys, message) in [
        ("uno\\\r\\\rdos\r", "uno\n\ndos"),
        ("uno\x1b\rdos\r", "uno\ndos"),
        ("\"\"\"uno\r\rdos\\\r\"\"\"\r", "uno\n\ndos\\"),
        (
            "\x1b[200~uno\n\ndos\\\n/exit\x1b[201~\r",
            "uno\n\ndos\\\n/exit",
        ),
    ] {
        assert_eq!(asked(keys) - around, message.len(), "{keys:?}");
    }
    leave(terminal);
}

#[test]
fn with_multiline_input_alt_enter_sends() {
    let home = home();
    let mut terminal = waiting(home.path(), &["-n", "3", "-mli"]);
    terminal.send(&format!("one{ENTER}two{ENTER}three{ALT_ENTER}"));
    answered(&mut terminal);
    assert_eq!(last_message(&mut terminal), "one…");
    leave(terminal);
}

#[test]
fn what_is_typed_ahead_is_read_after_the_answer() {
    let home = home();
    let mut terminal = waiting(home.path(), &["-n", "3"]);
    terminal.send("one\rtwo\r");
    answered(&mut terminal);
    answered(&mut terminal);
    assert_eq!(last_message(&mut terminal), "two");
    assert_eq!(last_message(&mut terminal), "one");
    leave(terminal);
}

#[test]
fn tab_completes_commands_and_entries_are_remembered_in_private() {
    let home = home();
    let mut terminal = waiting(home.path(), &["-n", "3"]);
    terminal.send("remember me\r");
    answered(&mut terminal);
    terminal.send("/ex\t\r");
    let (status, printed) = terminal.wait();
    assert_eq!(status, Some(0), "{printed:?}");

    let state = home.path().join(".local/state/minfer");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("chat_history")), 0o600);

    let mut terminal = waiting(home.path(), &["-n", "3"]);
    terminal.send(&format!("{UP}{UP}{ENTER}"));
    answered(&mut terminal);
    assert_eq!(last_message(&mut terminal), "remember me");
    leave(terminal);
}

#[test]
fn thoughts_are_dimmed_unless_colours_are_unwanted() {
    let home = home();
    let model = with_template(home.path(), "{{ messages[0].content }}<think>\n");
    let shown = |variable: &str, args: &[&str]| {
        let mut command = minfer(home.path());
        command.env(variable, "1").arg("chat").arg(&model);
        command
            .args(["hello", "--single-turn", "--greedy", "-n", "3"])
            .args(args);
        let (status, printed) = Terminal::start(&mut command).wait();
        assert_eq!(status, Some(0), "{printed:?}");
        printed
    };
    const DIM: &str = "\x1b[2m";
    assert!(shown("OTHER", &[]).contains(DIM));
    assert!(!shown("NO_COLOR", &[]).contains(DIM));
    assert!(!shown("OTHER", &["--color=never"]).contains(DIM));
    assert!(shown("NO_COLOR", &["--color"]).contains(DIM));
}

/// On a model that is still at work when the second one comes.
#[test]
fn a_second_ctrl_c_within_a_thought_leaves_no_dim_terminal() {
    let home = home();
    let model = real_model("smollm2").unwrap_or_else(|missing| panic!("{missing}"));
    let model = templated(&model, home.path(), "{{ messages[0].content }}<think>\n");
    for command in ["chat", "run"] {
        let mut line = minfer(home.path());
        line.args([command, model.to_str().unwrap(), "Once upon"])
            .args(["--greedy", "--single-turn"]);
        let mut terminal = Terminal::start(&mut line);
        terminal.wait_for("\x1b[2m");
        terminal.send(INTERRUPT);
        terminal.wait_for("^C");
        terminal.send(INTERRUPT);
        let (_, printed) = terminal.wait();
        let bright = printed.rfind("\x1b[22m");
        assert!(bright > printed.rfind("\x1b[2m"), "{printed:?}");
    }
}

#[test]
fn entries_can_be_recalled_where_no_history_can_be_kept() {
    let home = home();
    std::fs::write(home.path().join(".local"), "in the way").unwrap();
    let mut terminal = waiting(home.path(), &["-n", "3"]);
    terminal.send("remember me\r");
    answered(&mut terminal);
    terminal.send(&format!("{UP}{ENTER}"));
    answered(&mut terminal);
    assert_eq!(last_message(&mut terminal), "remember me");
    assert_eq!(last_message(&mut terminal), "remember me");
    leave(terminal);
}
