//! Flags of conversations that are kept.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use minfer_engine::ConversationOptions;

use crate::saved;

/// Where a conversation is kept, and whether it may outgrow the context.
#[derive(Debug, Args)]
pub struct SessionOptions {
    /// Keep the conversation in this file: go on with it if it exists, and save it after every answer.
    #[arg(long = "session", id = "session", value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// End an answer when the context is full instead of dropping the oldest turns from it.
    #[arg(long)]
    pub no_shift: bool,
}

impl SessionOptions {
    /// Refuses a file that could not be saved, before anything is loaded.
    ///
    /// # Errors
    /// Its folder is missing.
    pub fn check(&self) -> Result<()> {
        match &self.file {
            Some(file) => saved::check_folder(file),
            None => Ok(()),
        }
    }

    /// How to set the conversation up.
    pub fn conversation_options(&self) -> ConversationOptions {
        ConversationOptions {
            shift: !self.no_shift,
            ..ConversationOptions::default()
        }
    }
}
