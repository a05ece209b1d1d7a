//! `minfer debug`: stable interfaces for programs. All but `graph` answer each line of standard input,
//! a JSON object, by one line: the answer, or `{"error": "…"}`.

mod graph;
mod logits;
mod template;
mod tokenize;

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result};
use clap::Subcommand;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::console::{self, Console};

#[derive(Debug, Subcommand)]
pub enum DebugCommand {
    Tokenize(tokenize::TokenizeArgs),
    Template(template::TemplateArgs),
    Logits(logits::LogitsArgs),
    Graph(graph::GraphArgs),
}

pub fn execute(console: Console, command: DebugCommand) -> Result<()> {
    match command {
        DebugCommand::Tokenize(args) => tokenize::execute(console, args),
        DebugCommand::Template(args) => template::execute(args),
        DebugCommand::Logits(args) => logits::execute(console, args),
        DebugCommand::Graph(args) => graph::execute(console, args),
    }
}

/// Answers every line of standard input until it ends.
fn answer_lines<Question, Answer, Error>(
    mut answer: impl FnMut(Question) -> Result<Answer, Error>,
) -> Result<()>
where
    Question: DeserializeOwned,
    Answer: Serialize,
    Error: Into<anyhow::Error>,
{
    let mut input = io::stdin().lock();
    let mut output = console::output();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = input.read_until(b'\n', &mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(());
        }
        let answered = match parse(&line) {
            Ok(question) => answer(question).map_err(|error| console::sentence(&error.into())),
            Err(error) => Err(format!("not the JSON object expected: {error}")),
        };
        match answered {
            Ok(answer) => output.write_json_line(&answer)?,
            Err(error) => output.write_json_line(&json!({ "error": error }))?,
        }
        // Whoever waits for this line may not send the next before it.
        output.flush()?;
    }
}

/// A question from its line. Only an object is one: `serde` would take an array of the fields as well.
fn parse<Question: DeserializeOwned>(line: &[u8]) -> Result<Question, serde_json::Error> {
    let fields: Map<String, Value> = serde_json::from_slice(line)?;
    serde_json::from_value(Value::Object(fields))
}
