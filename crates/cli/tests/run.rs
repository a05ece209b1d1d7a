//! `run` and `bench` on models: what arrives on which stream, and how it ends.

mod support;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use minfer_testdata::{fixture, real_model};
use support::{Run, minfer, run, with_input, with_template};

fn tiny() -> PathBuf {
    fixture("tiny/tiny-qwen3-q4_k.gguf")
}

/// `minfer run` on the tiny model with its arguments.
fn run_tiny(home: &tempfile::TempDir) -> Command {
    let mut command = minfer(home.path());
    command.arg("run").arg(tiny());
    command
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The number before ` tokens` after `phase` in the summary.
fn tokens(run: &Run, phase: &str) -> usize {
    let (_, rest) = run
        .stderr
        .split_once(phase)
        .unwrap_or_else(|| panic!("{run:?}"));
    let (count, _) = rest
        .trim_start()
        .split_once(" tokens")
        .unwrap_or_else(|| panic!("{run:?}"));
    count.parse().unwrap()
}

#[test]
fn a_real_model_answers() {
    let home = home();
    let mut command = minfer(home.path());
    command
        .arg("run")
        .arg(smollm2())
        .args(["What is the capital of France?", "--greedy"]);
    let answer = run(command.args(["-n", "30"])).expect_code(0);
    assert!(answer.stdout.contains("Paris"), "{answer:?}");
    assert_eq!(answer.stderr.lines().count(), 1, "{answer:?}");
    assert!(answer.stderr.starts_with("load "), "{answer:?}");
    assert!(
        tokens(&answer, "prefill") > 30,
        "the template adds to the prompt: {answer:?}"
    );
}

#[test]
fn the_prompt_is_the_argument_or_the_pipe_or_both() {
    let home = home();
    let count = |run: Run| tokens(&run.expect_code(0), "prefill");
    let raw = ["--no-template", "--greedy", "-n", "1"];
    // In the tiny vocabulary, without merges, a token is a byte.
    assert_eq!(count(run(run_tiny(&home).arg("xyz").args(raw))), 3);
    assert_eq!(count(with_input(run_tiny(&home).args(raw), "wxyz\n")), 4);
    assert_eq!(
        count(with_input(run_tiny(&home).arg("xyz").args(raw), "wxyz\n")),
        3 + 2 + 4
    );
    assert_eq!(
        count(with_input(run_tiny(&home).arg("xyz").args(raw), "")),
        3
    );
    let nothing = run(run_tiny(&home).args(raw)).expect_code(1);
    assert!(
        nothing.stderr.contains("the prompt is empty"),
        "{nothing:?}"
    );
}

#[test]
fn special_tokens_are_read_only_where_asked() {
    let home = home();
    let raw = ["<|im_end|>", "--no-template", "--greedy", "-n", "1"];
    let spelled = run(run_tiny(&home).args(raw)).expect_code(0);
    assert_eq!(tokens(&spelled, "prefill"), "<|im_end|>".len());
    let parsed = run(run_tiny(&home).args(raw).arg("--parse-special")).expect_code(0);
    assert_eq!(tokens(&parsed, "prefill"), 1);
}

#[test]
fn a_seed_fixes_the_text_and_another_changes_it() {
    let home = home();
    let with_seed = |seed: &str, threads: &str| {
        let mut command = run_tiny(&home);
        command.args([
            "hi", "-n", "40", "--temp", "1.5", "--seed", seed, "-t", threads,
        ]);
        run(&mut command).expect_code(0).stdout
    };
    assert_eq!(with_seed("7", "1"), with_seed("7", "2"));
    assert_ne!(with_seed("7", "1"), with_seed("8", "1"));
}

#[test]
fn a_stop_string_is_cut_off_and_named_as_the_end() {
    let home = home();
    let args = ["hi", "--greedy", "-n", "30"];
    let whole = run(run_tiny(&home).args(args)).expect_code(0).stdout;
    let stop: String = whole.chars().skip(5).take(3).collect();
    let before = whole.split(&stop).next().unwrap();
    let stopped = run(run_tiny(&home).args(args).args(["--stop", &stop])).expect_code(0);
    assert_eq!(
        stopped.stdout.trim_end_matches('\n'),
        before.trim_end_matches('\n')
    );
    assert!(stopped.stderr.contains("stop string"), "{stopped:?}");
}

#[test]
fn quiet_prints_the_answer_alone() {
    let home = home();
    let quiet = run(run_tiny(&home).args(["hi", "-q", "-n", "2"])).expect_code(0);
    assert_eq!(quiet.stderr, "");
    assert!(quiet.stdout.ends_with('\n'), "{quiet:?}");
}

#[test]
fn a_prompt_longer_than_the_context_is_an_error() {
    let home = home();
    let long = run(run_tiny(&home).args(["hello world", "--no-template", "-c", "4"]));
    let long = long.expect_code(1);
    assert!(long.stderr.contains("the prompt has"), "{long:?}");
    assert!(long.stderr.contains("--n-ctx"), "{long:?}");
}

#[test]
fn a_template_without_a_system_role_refuses_one_with_a_hint() {
    let home = home();
    let path = with_template(
        home.path(),
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}\
         {{ messages[0].content }}",
    );
    let answer = |args: &[&str]| {
        let mut command = minfer(home.path());
        command.arg("run").arg(&path).args(["hi", "-n", "1"]);
        run(command.args(args))
    };
    answer(&[]).expect_code(0);
    let refused = answer(&["--system", "be brief"]).expect_code(1);
    let lines: Vec<&str> = refused.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{refused:?}");
    assert!(lines[0].ends_with("refuses this conversation: no system role"));
    assert!(lines[1].contains("--no-template"), "{refused:?}");
}

fn smollm2() -> PathBuf {
    real_model("smollm2").unwrap_or_else(|missing| panic!("{missing}"))
}

/// Starts an answer that takes long, on a model that is not too fast for it, and reads its first byte.
#[cfg(unix)]
fn counting(home: &tempfile::TempDir) -> std::process::Child {
    let mut command = minfer(home.path());
    command.arg("run").arg(smollm2());
    command.args(["1, 2, 3, 4, 5, 6, 7,", "--no-template", "--greedy"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut first = [0];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    child
}

#[test]
#[cfg(unix)]
fn nobody_reading_ends_the_answer_quietly() {
    let home = home();
    let mut child = counting(&home);
    drop(child.stdout.take());
    let finished: Run = child.wait_with_output().unwrap().into();
    assert_eq!(finished.expect_code(0).stderr, "");
}

#[test]
#[cfg(unix)]
fn interrupting_ends_the_answer_with_its_summary() {
    let home = home();
    let child = counting(&home);
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    let finished: Run = child.wait_with_output().unwrap().into();
    let finished = finished.expect_code(130);
    assert!(finished.stderr.ends_with("interrupted\n"), "{finished:?}");
}

#[test]
fn bench_reports_every_sample_in_every_format() {
    let home = home();
    let bench = |output: &str| {
        let mut command = minfer(home.path());
        command
            .arg("bench")
            .arg(tiny())
            .args(["-p", "4,8", "-n", "2", "-d", "0,3", "-r", "2"]);
        run(command.args(["-t", "1,2", "--output", output]))
            .expect_code(0)
            .stdout
    };
    let tests = ["pp4", "pp8", "tg2", "pp4 @ d3", "pp8 @ d3", "tg2 @ d3"];
    let expected: Vec<_> = [1, 2]
        .iter()
        .flat_map(|t| tests.map(|test| (*t, test)))
        .collect();

    let rows: Vec<serde_json::Value> = serde_json::from_str(&bench("json")).unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["threads"].as_u64().unwrap(),
                row["test"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(found, expected);
    for row in &rows {
        let samples: Vec<f64> = serde_json::from_value(row["samples_ts"].clone()).unwrap();
        assert_eq!(samples.len(), 2);
        let mean = (samples[0] + samples[1]) / 2.0;
        assert!(
            (row["avg_ts"].as_f64().unwrap() / mean - 1.0).abs() < 1e-9,
            "{row}"
        );
        assert_eq!(row["samples_ns"].as_array().unwrap().len(), 2);
    }
    let lines = bench("jsonl");
    assert_eq!(lines.lines().count(), 12);
    assert!(
        lines
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
    let csv = bench("csv");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [15; 13], "{csv}");
    let table = bench("md");
    assert_eq!(table.lines().count(), 2 + 12);
    assert!(
        table
            .lines()
            .nth(2)
            .unwrap()
            .starts_with("| tiny-qwen3 | 0.89 MiB |"),
        "{table}"
    );
}

#[test]
fn bench_of_parallel_sequences_counts_what_they_share() {
    let home = home();
    let bench = |output: &str| {
        let mut command = minfer(home.path());
        command
            .arg("bench")
            .arg(tiny())
            .args(["-p", "20", "-n", "4", "-r", "2", "-o", output]);
        run(command.args(["--parallel", "1,3", "--shared-prefix", "16"]))
            .expect_code(0)
            .stdout
    };
    let rows: Vec<serde_json::Value> = serde_json::from_str(&bench("json")).unwrap();
    let number = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap();
    for (row, sequences) in rows.iter().zip([1, 3]) {
        assert_eq!(number(row, "parallel"), sequences);
        assert_eq!(number(row, "prompt_tokens"), 16 + sequences * 4);
        assert_eq!(number(row, "shared_tokens"), (sequences - 1) * 16);
        // The last of four generated tokens is not computed.
        let cells = 16 + sequences * (4 + 3);
        assert_eq!(number(row, "kv_cells"), cells);
        // Keys and values of two layers, two heads of 128 features each in f32.
        assert_eq!(number(row, "kv_bytes"), cells * 2 * 2 * 256 * 4);
        for rates in ["prefill_ts", "decode_ts", "sequence_ts"] {
            let rates: Vec<f64> = serde_json::from_value(row[rates].clone()).unwrap();
            assert!(
                rates.len() == 2 && rates.iter().all(|&rate| rate > 0.0),
                "{row}"
            );
        }
    }
    assert_eq!(rows.len(), 2);
    let csv = bench("csv");
    let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns, [17; 3], "{csv}");
    let table = bench("md");
    let line = table.lines().nth(3).unwrap();
    assert!(
        line.contains("| tg4 x 3 @ p20, 16 shared | 28 | 37 | "),
        "{table}"
    );
}
