//! The interfaces for programs: one line of JSON in, one out.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use minfer_gguf::{Gguf, OpenOptions, Writer};
use minfer_testdata::{fixture, tiny_logits};
use serde_json::{Value, json};
use support::minfer;

/// A running interface that is asked one line at a time.
struct Interface {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
    _home: tempfile::TempDir,
}

impl Interface {
    fn start(args: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = minfer(home.path());
        command
            .arg("debug")
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Interface {
            child,
            answers,
            _home: home,
        }
    }

    /// Sends a line and waits for its answer, as a program does that cannot know what to ask next.
    fn ask_line(&mut self, line: &str) -> Value {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{answer:?}: {error}"))
    }

    fn ask(&mut self, question: Value) -> Value {
        self.ask_line(&question.to_string())
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn tiny() -> PathBuf {
    fixture("tiny/tiny-qwen3-q4_k.gguf")
}

/// The tiny model's vocabulary: token `b` is the byte `b` for all 256, then the merges `Ġt`, `Ġa`,
/// `he`, `in`, `Ġthe`, `re`, `on`, and from 263 the special tokens.
fn vocabulary_only(folder: &Path) -> PathBuf {
    let model = Gguf::open(tiny(), OpenOptions::default()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in model
        .metadata()
        .iter()
        .filter(|(key, _)| key.starts_with("tokenizer."))
    {
        writer.set(key, value.clone());
    }
    let path = folder.join("vocabulary.gguf");
    writer.write(&path).unwrap();
    path
}

#[test]
fn tokenize_reads_a_vocabulary_without_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = vocabulary_only(folder.path());
    let mut tokenize = Interface::start(&["tokenize", path.to_str().unwrap()]);
    assert_eq!(
        tokenize.ask(json!({"text": "he the\n"})),
        json!({"ids": [258, 260, 10]})
    );
    assert_eq!(tokenize.ask(json!({"text": ""})), json!({"ids": []}));
    let special = |parse| json!({"text": "a<|im_end|>", "parse_special": parse});
    assert_eq!(tokenize.ask(special(true)), json!({"ids": [97, 265]}));
    let spelled: Vec<u32> = "a<|im_end|>".bytes().map(u32::from).collect();
    assert_eq!(tokenize.ask(special(false)), json!({"ids": spelled}));
    tokenize.end();
}

#[test]
fn a_line_that_is_no_question_is_answered_with_an_error() {
    let tiny = tiny();
    let mut tokenize = Interface::start(&["tokenize", tiny.to_str().unwrap()]);
    for line in [
        "",
        "nonsense",
        "[]",
        r#"["a", false]"#,
        r#"{"txt": "a"}"#,
        r#"{"text": 7}"#,
    ] {
        let answer = tokenize.ask_line(line);
        assert!(answer["error"].is_string(), "{line:?}: {answer}");
    }
    assert_eq!(
        tokenize.ask(json!({"text": "a"})),
        json!({"ids": [97]}),
        "it still answers"
    );
    tokenize.end();
}

#[test]
fn template_renders_published_templates_and_reports_refusals() {
    let mut template = Interface::start(&["template"]);
    let recorded = std::fs::read_to_string(fixture("chat/Qwen-Qwen3-0.6B.json")).unwrap();
    let recorded: Value = serde_json::from_str(&recorded).unwrap();
    let case = &recorded["cases"][0];
    let question = json!({
        "template": recorded["template"],
        "context": case["context"],
        "now": "2026-11-29T12:00:00Z",
    });
    assert_eq!(
        template.ask(question),
        json!({"rendered": case["rendered"]})
    );

    let ask = |source: &str, now: &str| json!({"template": source, "context": {}, "now": now});
    let noon = "2026-11-29T12:00:00Z";
    let dated = template.ask(ask("{{ strftime_now('%d %b %Y') }}", noon));
    assert_eq!(dated, json!({"rendered": "29 Nov 2026"}));
    let refused = template.ask(ask("{{ raise_exception('not me') }}", noon));
    assert!(
        refused["error"].as_str().unwrap().contains("not me"),
        "{refused}"
    );
    let broken = template.ask(ask("a\n{% if %}", noon));
    assert!(
        broken["error"].as_str().unwrap().contains("line 2"),
        "{broken}"
    );
    let no_time = template.ask(ask("x", "noon"));
    assert!(no_time["error"].is_string(), "{no_time}");
    template.end();
}

#[test]
fn logits_are_those_of_the_exact_reference() {
    let tiny = tiny();
    let path = tiny.to_str().unwrap();
    let recorded = tiny_logits()
        .into_iter()
        .find(|row| row.file == "tiny-qwen3-q4_k.gguf");
    let recorded = recorded.unwrap();
    let mut logits = Interface::start(&["logits", path, "--top", "5"]);
    let answer = logits.ask(json!({"ids": recorded.ids, "greedy": 3}));

    // By hand from the recorded row. Weights of 4 bits and activations of 8 bits or bf16 move these
    // logits, which spread over about 10, by some hundredths.
    const TOLERANCE: f64 = 0.15;
    let mut order: Vec<usize> = (0..recorded.last_logits.len()).collect();
    order.sort_by(|&a, &b| recorded.last_logits[b].total_cmp(&recorded.last_logits[a]));
    let ids = answer["top_ids"].as_array().unwrap();
    let values = answer["top_logits"].as_array().unwrap();
    assert_eq!((ids.len(), values.len()), (5, 5));
    assert_eq!(ids[0], order[0], "the likeliest token");
    for (id, value) in ids.iter().zip(values) {
        let exact = f64::from(recorded.last_logits[id.as_u64().unwrap() as usize]);
        let difference = (value.as_f64().unwrap() - exact).abs();
        assert!(difference < TOLERANCE, "token {id}: {difference}");
    }
    let sum: f64 = recorded
        .last_logits
        .iter()
        .map(|&logit| f64::from(logit).exp())
        .sum();
    assert!(
        (answer["logsumexp"].as_f64().unwrap() - sum.ln()).abs() < TOLERANCE,
        "{answer}"
    );
    assert_eq!(answer["greedy"], json!(recorded.greedy[..3]));

    let none = logits.ask(json!({"ids": []}));
    assert!(none["error"].is_string(), "{none}");
    let unknown = logits.ask(json!({"ids": [320]}));
    assert!(
        unknown["error"].as_str().unwrap().contains("320"),
        "{unknown}"
    );
    assert_eq!(
        logits.ask(json!({"ids": [1]}))["top_ids"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    logits.end();
}

/// What `minfer debug graph` prints for the tiny model.
fn graph(args: &[&str]) -> std::process::Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = minfer(home.path());
    let command = command.args(["debug", "graph"]).arg(tiny()).args(args);
    command.output().unwrap()
}

#[test]
fn graph_prints_the_plan_of_a_decode_step_and_of_a_prompt() {
    let dot = graph(&[]);
    let text = String::from_utf8(dot.stdout).unwrap();
    assert!(dot.status.success());
    assert!(text.starts_with("digraph plan {\n"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    assert!(text.contains("blk.0.attn_qkv\\nFusedQkv"), "{text}");

    for (rows, capacity) in [("1", "max_tokens: 1,"), ("7", "max_tokens: 32,")] {
        let json = graph(&["--format", "json", "--rows", rows, "--ubatch", "32"]);
        let plan: Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(
            plan["params"].as_str().unwrap().contains(capacity),
            "{plan}"
        );
        let nodes = plan["nodes"].as_array().unwrap();
        let output = plan["outputs"][0].as_u64().unwrap() as usize;
        // The tiny models have 320 tokens.
        assert_eq!(nodes[output]["shape"], "[320, outputs]", "{plan}");
        assert_eq!(nodes[output]["op"], "MatMul", "{plan}");
    }

    let refused = graph(&["--rows", "33", "--ubatch", "32"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("rows is 33"), "{message}");
}
