//! Loading a model for a command, with its progress on a terminal.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use minfer_engine::{Engine, EngineOptions};

use crate::console::{Console, WithHint};

/// A load that takes less than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Loads the model at `path`.
///
/// # Errors
/// The file is unusable, or the machine cannot hold what is asked for.
pub fn load(console: Console, path: &Path, options: &EngineOptions) -> Result<Engine> {
    let bar = bar(console);
    let engine = Engine::load_with_progress(path, options, |progress| {
        if bar.elapsed() >= PATIENCE {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        }
    });
    bar.finish_and_clear();
    match engine {
        Err(error @ minfer_engine::Error::Gguf(_)) => {
            Err(error).hint("`minfer pull` verifies the models that it fetched")
        }
        engine => Ok(engine?),
    }
}

fn bar(console: Console) -> ProgressBar {
    if !console.draws_bars() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("loading {bar:30} {decimal_bytes}/{decimal_total_bytes}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
