//! The prompt: where its text comes from, and its tokens.

use std::fs::File;
use std::io::{self, IsTerminal, Read};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use minfer_engine::Engine;
use minfer_text::{ChatTemplate, EncodeOptions, RenderTime, encode_chat};
use serde_json::json;

use crate::console::{Console, WithHint};

#[derive(Debug, Args)]
pub struct PromptOptions {
    /// What to answer. What is piped in follows it; without PROMPT it is the prompt.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,

    /// Instructions that come before the prompt.
    #[arg(long, value_name = "TEXT", conflicts_with = "no_template")]
    system: Option<String>,

    /// Continue the prompt as it is, without the model's chat template.
    #[arg(long, conflicts_with = "session")]
    no_template: bool,

    /// Read the spellings of special tokens in the prompt as those tokens.
    #[arg(long, requires = "no_template")]
    parse_special: bool,
}

impl PromptOptions {
    /// The prompt's text.
    ///
    /// # Errors
    /// Standard input cannot be read, is not UTF-8, or is empty where it should have been the prompt.
    pub fn read(&self, console: Console) -> Result<String> {
        let piped = match &self.prompt {
            Some(_) if !has_piped_input() => String::new(),
            Some(_) => read_stdin()?,
            None => {
                if io::stdin().is_terminal() {
                    console.note("Type the prompt and end it with Ctrl-D on a line of its own.");
                }
                read_stdin()?
            }
        };
        // The line end belongs to the pipe and not to the prompt.
        let piped = piped.strip_suffix('\n').unwrap_or(&piped);
        Ok(match &self.prompt {
            Some(prompt) if piped.is_empty() => prompt.clone(),
            Some(prompt) => format!("{prompt}\n\n{piped}"),
            None if piped.is_empty() => return empty(),
            None => piped.to_owned(),
        })
    }

    /// The instructions.
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// The model's chat template, unless it is not to be used.
    pub fn template<'e>(&self, engine: &'e Engine) -> Option<&'e ChatTemplate> {
        (!self.no_template).then(|| engine.template())
    }

    /// The prompt's tokens.
    ///
    /// # Errors
    /// The model's chat template refuses the conversation.
    pub fn encode(&self, text: &str, engine: &Engine) -> Result<Vec<u32>> {
        if self.no_template {
            let options = EncodeOptions {
                parse_special: self.parse_special,
                add_bos: true,
            };
            return Ok(engine.tokenizer().encode(text, options));
        }
        let system = self
            .system
            .iter()
            .map(|text| json!({"role": "system", "content": text}));
        let user = json!({"role": "user", "content": text});
        let context = json!({
            "messages": system.chain([user]).collect::<Vec<_>>(),
            "add_generation_prompt": true,
        });
        let (tokenizer, template) = (engine.tokenizer(), engine.template());
        encode_chat(tokenizer, template, context, &RenderTime::now())
            .hint("--no-template continues the prompt without the chat template")
    }
}

/// The error of a prompt that leaves nothing to answer.
pub fn empty<T>() -> Result<T> {
    Err(anyhow!("the prompt is empty")).hint("give it as an argument or through a pipe")
}

fn read_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    io::stdin()
        .read_to_end(&mut bytes)
        .context("cannot read the prompt from standard input")?;
    String::from_utf8(bytes).context("the prompt on standard input is not UTF-8 text")
}

/// Whether somebody piped or redirected something in. A closed standard input or an inherited socket is
/// not that, and reading it could wait forever.
#[cfg(unix)]
fn has_piped_input() -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileTypeExt;

    let Ok(stdin) = io::stdin().as_fd().try_clone_to_owned() else {
        return false;
    };
    let metadata = File::from(stdin).metadata();
    metadata.is_ok_and(|metadata| metadata.is_file() || metadata.file_type().is_fifo())
}

#[cfg(not(unix))]
fn has_piped_input() -> bool {
    !io::stdin().is_terminal()
}
