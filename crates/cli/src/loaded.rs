//! Loading a model for a command, with a sign of life on a terminal.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use minfer_engine::{Engine, EngineOptions};
use minfer_gguf::{Gguf, OpenOptions};

use crate::console::{Console, WithHint, bytes};

/// A model ready to run.
pub struct Loaded {
    /// The engine.
    pub engine: Engine,
    /// The file it came from.
    pub gguf: Gguf,
    /// From opening the file to the engine being ready.
    pub time: Duration,
}

/// Loads the model at `path`.
///
/// # Errors
/// The file is unusable, or the machine cannot hold what is asked for.
pub fn load(console: Console, path: &Path, options: &EngineOptions) -> Result<Loaded> {
    let start = Instant::now();
    let spinner = spinner(console);
    let opened = Gguf::open(path, OpenOptions { mmap: options.mmap });
    let gguf = opened.hint("`minfer pull` verifies models that it fetched")?;
    spinner.set_message(format!("loading {}", bytes(gguf.file_bytes())));
    let engine = Engine::from_gguf(&gguf, options)?;
    spinner.finish_and_clear();
    Ok(Loaded {
        engine,
        gguf,
        time: start.elapsed(),
    })
}

fn spinner(console: Console) -> ProgressBar {
    if !console.draws_bars() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let spinner = ProgressBar::new_spinner().with_message("loading");
    spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    // The first tick draws, so a model that loads at once shows nothing.
    spinner.enable_steady_tick(Duration::from_millis(250));
    spinner
}
