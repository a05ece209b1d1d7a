//! What the end-to-end tests share: the binary in an environment of its own, and stand-ins for the
//! places that models come from.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub mod hub;
#[cfg(unix)]
pub mod terminal;
pub mod wheels;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use minfer_gguf::{Gguf, OpenOptions, Writer};
use minfer_testdata::fixture;

/// The binary with nothing of the machine's own settings: its cache is `home/cache`, no hub answers.
pub fn minfer(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_minfer"));
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", home)
        .env("HF_HOME", home)
        .env("MINFER_CACHE", home.join("cache"))
        // On a Mac a model would run on its GPU.
        .env("MINFER_DEVICE", "cpu")
        // Port 1 of this machine: refused at once.
        .env("HF_ENDPOINT", "http://127.0.0.1:1")
        .stdin(Stdio::null());
    command
}

/// A finished run, as text.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Asserts the exit status, showing what was printed where it differs.
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// Runs to the end.
pub fn run(command: &mut Command) -> Run {
    command.output().expect("the binary starts").into()
}

/// Runs with `input` on standard input, through a pipe. A program that does not read it may end before it is written.
pub fn with_input(command: &mut Command, input: &str) -> Run {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let written = child.stdin.take().unwrap().write_all(input.as_bytes());
    if let Err(error) = written {
        assert_eq!(error.kind(), ErrorKind::BrokenPipe, "{error}");
    }
    child.wait_with_output().unwrap().into()
}

/// The tiny model with a template of its own.
pub fn with_template(home: &Path, template: &str) -> PathBuf {
    templated(&fixture("tiny/tiny-qwen3-q4_k.gguf"), home, template)
}

/// A copy of the model with another template.
pub fn templated(model: &Path, home: &Path, template: &str) -> PathBuf {
    let model = Gguf::open(model, OpenOptions::default()).unwrap();
    let mut writer = Writer::new();
    for (key, value) in model.metadata().iter() {
        writer.set(key, value.clone());
    }
    writer.set("tokenizer.chat_template", template);
    for info in model.tensors() {
        writer.add(model.tensor(&info.name).unwrap());
    }
    let path = home.join("templated.gguf");
    writer.write(&path).unwrap();
    path
}
