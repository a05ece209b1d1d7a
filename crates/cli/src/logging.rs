//! The log on stderr.

use std::io;

use tracing::level_filters::LevelFilter;

/// How much the user wants to read on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verbosity {
    /// Errors only, and no notes.
    Quiet,
    /// Warnings, and notes.
    Normal,
    /// What the engine decides.
    Verbose,
    /// Everything.
    Debug,
}

/// Starts logging to stderr.
pub fn start(verbosity: Verbosity) {
    let level = match verbosity {
        Verbosity::Quiet => LevelFilter::ERROR,
        Verbosity::Normal => LevelFilter::WARN,
        Verbosity::Verbose => LevelFilter::INFO,
        Verbosity::Debug => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_max_level(level)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
}
