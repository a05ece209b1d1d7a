//! `minfer debug tokenize`: the token ids of texts.

use std::convert::Infallible;

use anyhow::Result;
use clap::Args;
use minfer_gguf::{Gguf, OpenOptions};
use minfer_text::{EncodeOptions, Tokenizer};
use serde::{Deserialize, Serialize};

use super::answer_lines;
use crate::console::Console;
use crate::environment::Environment;
use crate::model_file::Resolver;

/// Tokenize texts: {"text": "…", "parse_special": false} gives {"ids": […]}
///
/// No BOS is added. A GGUF file with nothing but a vocabulary will do.
#[derive(Debug, Args)]
pub struct TokenizeArgs {
    /// A GGUF file, a name (see `minfer list`) or hf:OWNER/NAME[:FILE].
    model: String,
}

#[derive(Deserialize)]
struct Question {
    text: String,
    #[serde(default)]
    parse_special: bool,
}

#[derive(Serialize)]
struct Answer {
    ids: Vec<u32>,
}

pub fn execute(console: Console, args: TokenizeArgs) -> Result<()> {
    let path = Resolver::new(console, &Environment::read()?)?.file(&args.model)?;
    let tokenizer = Tokenizer::from_gguf(&Gguf::open(&path, OpenOptions::default())?)?;
    answer_lines(|question: Question| -> Result<_, Infallible> {
        let options = EncodeOptions {
            parse_special: question.parse_special,
            add_bos: false,
        };
        Ok(Answer {
            ids: tokenizer.encode(&question.text, options),
        })
    })
}
