//! What the binary says and how it exits, without running a model.

mod support;

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use minfer_testdata::fixture;
use support::{Run, minfer, run};

fn home() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn minfer_run(args: &[&str]) -> Run {
    run(minfer(home().path()).args(args))
}

fn tiny() -> String {
    fixture("tiny/tiny-qwen3-q4_k.gguf").display().to_string()
}

#[test]
fn usage_errors_exit_with_2() {
    for args in [
        &[][..],
        &["fly"],
        &["run"],
        &["run", "m", "--temp", "hot"],
        &["run", "m", "--cache-type", "q4_0"],
        &["run", "m", "p", "--greedy", "--temp", "1"],
        &["run", "m", "p", "--no-template", "--system", "s"],
        &["run", "m", "p", "--ubatch", "0"],
        &["bench", "m", "-r", "0"],
        &["bench", "m", "-t", "2,x"],
        &["bench", "m", "--shared-prefix", "9"],
        &["bench", "m", "--parallel", "2", "-d", "9"],
        &["completions", "cobol"],
        &["list", "-q", "-v"],
    ] {
        let run = minfer_run(args).expect_code(2);
        assert_eq!(run.stdout, "", "{args:?}");
        assert!(
            run.stderr.contains("Usage:") || run.stderr.contains("--help"),
            "{run:?}"
        );
    }
}

#[test]
fn values_that_make_no_sense_are_usage_errors_found_before_anything_is_loaded() {
    let top_p = minfer_run(&["run", "no-such-model", "p", "--top-p", "1.5"]).expect_code(2);
    assert!(
        top_p
            .stderr
            .contains("--top-p is 1.5, but must be between 0 and 1"),
        "{top_p:?}"
    );
    let bench = minfer_run(&["bench", "no-such-model", "-p", "0", "-n", "0"]).expect_code(2);
    assert!(bench.stderr.contains("nothing to measure"), "{bench:?}");
    let shared = ["bench", "no-such-model", "-p", "8", "--parallel", "2"];
    let shared = [&shared[..], &["--shared-prefix", "9"]].concat();
    let shared = minfer_run(&shared).expect_code(2);
    assert!(
        shared
            .stderr
            .contains("--shared-prefix is 9, but a prompt has only 8 tokens"),
        "{shared:?}"
    );
}

#[test]
fn a_number_out_of_range_is_named_with_its_flag() {
    for (args, complaint) in [
        (
            ["run", "m", "p", "-n", "-1"],
            "'-1' for '--n-predict <TOKENS>': not a whole number of at least 0",
        ),
        (
            ["run", "m", "p", "-t", "0"],
            "'0' for '--threads <COUNT>': not a whole number of at least 1",
        ),
        (
            ["run", "m", "p", "--seed", "-5"],
            "'-5' for '--seed <NUMBER>'",
        ),
        (
            ["debug", "logits", "m", "--n-ctx", "-5"],
            "'-5' for '--n-ctx <TOKENS>': not a whole number of at least 0",
        ),
    ] {
        let run = minfer_run(&args).expect_code(2);
        assert!(run.stderr.contains(complaint), "{run:?}");
    }
}

#[test]
fn too_many_threads_are_refused_and_not_a_crash() {
    let flag = minfer_run(&["run", "m", "p", "-t", "100000"]).expect_code(2);
    let home = home();
    let mut command = minfer(home.path());
    command.env("MINFER_THREADS", "100000");
    let variable = run(command.args(["bench", &tiny(), "-p", "1"])).expect_code(2);
    for run in [flag, variable] {
        assert!(
            run.stderr
                .contains("100000 compute threads are asked for, but 1024 are the most"),
            "{run:?}"
        );
    }
}

#[test]
fn a_prompt_that_is_not_text_is_refused_before_anything_is_loaded() {
    let home = home();
    let path = home.path().join("prompt");
    std::fs::write(&path, b"bad \xff").unwrap();
    let mut command = minfer(home.path());
    command.args(["run", "no-such-model"]);
    let run = run(command.stdin(std::fs::File::open(&path).unwrap())).expect_code(1);
    assert!(run.stderr.contains("is not UTF-8 text"), "{run:?}");
}

/// One line with the sentence, one with the hint.
fn assert_one_sentence(run: &Run, sentence: &str, hint: &str) {
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{run:?}");
    assert!(
        lines[0].starts_with("minfer: ") && lines[0].contains(sentence),
        "{run:?}"
    );
    assert!(
        lines[1].starts_with("  hint: ") && lines[1].contains(hint),
        "{run:?}"
    );
}

#[test]
fn an_unknown_model_exits_with_1_and_a_hint() {
    for args in [
        &["run", "no-such-model", "prompt"][..],
        &["bench", "no-such-model"],
        &["info", "no-such-model"],
        &["pull", "no-such-model"],
    ] {
        let run = minfer_run(args).expect_code(1);
        assert_one_sentence(&run, "there is no model named \"no-such-model\"", "smollm2");
    }
    let path = minfer_run(&["info", "folder/none.gguf"]).expect_code(1);
    assert_one_sentence(&path, "there is no file folder/none.gguf", "GGUF file");
    let repository = minfer_run(&["pull", "hf:nonsense"]).expect_code(1);
    assert_one_sentence(
        &repository,
        "\"hf:nonsense\" does not name a model",
        "hf:OWNER/NAME",
    );
    let unreachable = minfer_run(&["run", "hf:owner/name", "p"]).expect_code(1);
    assert_one_sentence(
        &unreachable,
        "cannot fetch hf:owner/name: the hub cannot be reached",
        "the path of a GGUF file",
    );
}

#[cfg(unix)]
#[test]
fn a_device_is_not_said_to_be_missing() {
    let run = minfer_run(&["info", "/dev/null"]).expect_code(1);
    assert_one_sentence(&run, "/dev/null is a pipe or a device", "GGUF file");
}

#[test]
fn a_file_that_is_no_model_is_named() {
    let home = home();
    let path = home.path().join("x.gguf");
    for (content, complaint) in [
        (
            "hello, world",
            "it starts with \"hell\" instead of \"GGUF\"",
        ),
        ("", "it is empty"),
    ] {
        std::fs::write(&path, content).unwrap();
        for command in ["run", "info"] {
            let mut command_line = minfer(home.path());
            command_line.arg(command).arg(&path);
            if command == "run" {
                command_line.arg("prompt");
            }
            let failed = run(&mut command_line).expect_code(1);
            let sentence = failed.stderr.lines().next().unwrap_or_default();
            let whole = format!("x.gguf: not a GGUF file: {complaint}");
            assert!(sentence.ends_with(&whole), "{failed:?}");
        }
    }
}

#[test]
fn without_a_place_for_models_the_error_says_what_to_set() {
    let home = home();
    let mut command = minfer(home.path());
    let failed = run(command
        .env_remove("HOME")
        .env_remove("MINFER_CACHE")
        .arg("list"));
    assert!(failed.expect_code(1).stderr.contains("MINFER_CACHE"));
}

#[test]
fn help_is_complete_and_the_machine_interfaces_are_hidden_from_it() {
    let help = minfer_run(&["--help"]).expect_code(0).stdout;
    for command in [
        "chat",
        "run",
        "bench",
        "info",
        "pull",
        "list",
        "devices",
        "config",
        "completions",
    ] {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "{command} is missing in\n{help}"
        );
    }
    assert!(!help.contains("debug"), "{help}");
    let debug = minfer_run(&["debug", "--help"]).expect_code(0).stdout;
    for command in ["tokenize", "template", "logits"] {
        assert!(debug.contains(command), "{debug}");
    }
    let short = minfer_run(&["run", "-h"]).expect_code(0).stdout;
    let long = minfer_run(&["run", "--help"]).expect_code(0).stdout;
    for flag in [
        "--greedy",
        "--temp",
        "--top-k",
        "--top-p",
        "--min-p",
        "--repeat-penalty",
        "--frequency-penalty",
        "--presence-penalty",
        "--stop",
        "--seed",
        "-n,",
        "--n-ctx",
        "-t,",
        "--system",
        "--no-template",
        "--ubatch",
        "--no-mmap",
        "--cache-type",
        "--device",
        "--gpu-layers",
    ] {
        assert!(short.contains(flag), "{flag} is missing in\n{short}");
    }
    assert!(long.contains("--mirostat") && !short.contains("--mirostat"));
}

#[test]
fn config_shows_every_variable_with_its_value() {
    let home = home();
    let mut command = minfer(home.path());
    command.env("MINFER_THREADS", "3");
    let config = run(command.arg("config")).expect_code(0).stdout;
    let cache = home.path().join("cache");
    assert!(
        config.contains(&format!("MINFER_CACHE = {}\n", cache.display())),
        "{config}"
    );
    assert!(config.contains("MINFER_THREADS = 3\n"), "{config}");
    assert!(config.contains("MINFER_NO_MMAP = (not set)\n"), "{config}");

    let json = run(minfer(home.path()).args(["config", "--json"]))
        .expect_code(0)
        .stdout;
    let names: Vec<String> = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|row| row["name"].as_str().unwrap().to_owned())
        .collect();
    let listed: Vec<&str> = config
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .collect();
    assert_eq!(names, listed);

    let mut command = minfer(home.path());
    let wrong = run(command.env("MINFER_THREADS", "many").arg("config")).expect_code(1);
    assert!(
        wrong.stderr.contains("MINFER_THREADS is `many`"),
        "{wrong:?}"
    );
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = minfer_run(&["completions", shell]).expect_code(0).stdout;
        assert!(
            script.contains("minfer") && script.contains("repeat-penalty"),
            "{shell}"
        );
    }
}

#[test]
fn list_tells_what_is_cached() {
    let home = home();
    let list = |home: &Path| {
        run(minfer(home).args(["list", "--json"]))
            .expect_code(0)
            .stdout
    };
    let rows = |text: &str| -> Vec<serde_json::Value> {
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let before = rows(&list(home.path()));
    assert_eq!(before[0]["name"], "smollm2");
    assert_eq!(before[0]["size"], 98_362_432);
    assert!(before.iter().all(|row| row["path"].is_null()), "{before:?}");

    let models = home.path().join("cache/models");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("SmolLM2-135M-Instruct.Q4_1.gguf"), "").unwrap();
    std::fs::write(models.join("mine.gguf"), "123").unwrap();
    let after = rows(&list(home.path()));
    assert!(after[0]["path"].is_string(), "{after:?}");
    assert!(after[1]["path"].is_null(), "{after:?}");
    let mine = after.last().unwrap();
    assert_eq!(mine["size"], 3);
    assert_eq!(mine["name"], models.join("mine.gguf").display().to_string());
}

#[test]
fn info_counts_tensors_and_memory() {
    let info = minfer_run(&["info", &tiny(), "--json", "-c", "100"])
        .expect_code(0)
        .stdout;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["metadata"]["general.architecture"], "qwen3");
    assert_eq!(
        info["metadata"]["tokenizer.ggml.tokens"]
            .as_array()
            .unwrap()
            .len(),
        320
    );
    // 7 norms and 2 · q/k norms; 7 matrices in each of 2 layers and the tied embedding.
    assert_eq!(info["tensors"]["F32"]["count"], 9);
    assert_eq!(info["tensors"]["Q4_K"]["count"], 15);
    // 2 layers · keys and values · 100 cells · 2 heads · 128 features · 4 bytes.
    assert_eq!(info["memory"]["kv_cache"], 2 * 2 * 100 * 2 * 128 * 4);

    let text = minfer_run(&["info", &tiny(), "-c", "100", "--cache-type", "f16"]).expect_code(0);
    assert!(text.stdout.contains("string[320] ["), "{text:?}");
    assert!(
        text.stdout.contains("KV cache, f16    204.8 kB"),
        "{text:?}"
    );
}

/// Runs the command, reads the beginning of its output and goes away.
fn read_and_leave(command: &mut Command) -> ([u8; 10], Run) {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut beginning = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut beginning).unwrap();
    drop(stdout);
    (beginning, child.wait_with_output().unwrap().into())
}

/// A folder for `minfer` whose cache lists more than a pipe holds.
fn home_with_many_models() -> tempfile::TempDir {
    let home = home();
    let models = home.path().join("cache/models");
    std::fs::create_dir_all(&models).unwrap();
    for index in 0..2000 {
        std::fs::write(models.join(format!("{index:0>200}.gguf")), "").unwrap();
    }
    home
}

#[test]
fn a_closed_pipe_ends_quietly_with_0() {
    let home = home_with_many_models();
    let (beginning, list) = read_and_leave(minfer(home.path()).arg("list"));
    assert_eq!(&beginning, b"smollm2   ");
    assert_eq!(list.expect_code(0).stderr, "");
}

/// JSON has a writer of its own, whose errors once hid that the pipe was closed.
#[test]
fn a_closed_pipe_ends_json_output_quietly_too() {
    let home = home_with_many_models();
    let (beginning, list) = read_and_leave(minfer(home.path()).args(["list", "--json"]));
    assert_eq!(&beginning, b"{\"name\":\"s");
    assert_eq!(list.expect_code(0).stderr, "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_of_standard_output() {
    let full = std::fs::File::create("/dev/full").unwrap();
    let mut child = minfer(home().path());
    let run = run(child.arg("list").stdout(full)).expect_code(1);
    assert!(
        run.stderr
            .starts_with("minfer: cannot write to standard output: No space left"),
        "{run:?}"
    );
}
