//! Flags that say whether tokens are guessed ahead.

use std::num::NonZeroUsize;

use clap::{Args, ValueEnum};
use minfer_engine::{DraftMethod, DraftOptions};

use crate::arguments;

/// Whether tokens are guessed ahead.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drafting")]
pub struct DraftingOptions {
    /// Guess tokens ahead and verify several at once: the same text, sooner where it repeats the context.
    #[arg(long, value_name = "METHOD")]
    draft: Option<Method>,

    /// Most tokens guessed at once.
    #[arg(long, value_parser = arguments::positive, value_name = "TOKENS", requires = "draft",
          default_value_t = default_max(), hide_short_help = true)]
    draft_max: NonZeroUsize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Method {
    /// What followed the last tokens earlier in the prompt or the answer.
    Ngram,
}

fn default_max() -> NonZeroUsize {
    NonZeroUsize::new(DraftOptions::default().max_tokens).unwrap_or(NonZeroUsize::MIN)
}

impl DraftingOptions {
    /// For a generation.
    pub fn options(&self) -> DraftOptions {
        DraftOptions {
            method: match self.draft {
                Some(Method::Ngram) => DraftMethod::NGRAM,
                None => DraftMethod::None,
            },
            max_tokens: self.draft_max.get(),
        }
    }

    /// Most drafted tokens that the engine has to verify at once.
    pub fn rows(&self) -> usize {
        self.draft.map_or(0, |_| self.draft_max.get())
    }
}
