//! What the user sees besides a command's output: notes on stderr, errors with hints, and a standard
//! output on which a closed pipe is not an error.

use std::fmt::{self, Display};
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::logging::Verbosity;

/// Where notes go and how many of them.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    verbosity: Verbosity,
}

impl Console {
    /// A console that prints what `verbosity` admits.
    pub fn new(verbosity: Verbosity) -> Self {
        Self { verbosity }
    }

    /// Whether progress is drawn as a moving bar: stderr is a terminal and not switched off.
    pub fn draws_bars(self) -> bool {
        self.verbosity != Verbosity::Quiet && io::stderr().is_terminal()
    }

    /// Prints one line on stderr. A closed stderr is no reason to stop, so failures are dropped.
    pub fn note(self, line: impl Display) {
        if self.verbosity != Verbosity::Quiet {
            tell(line);
        }
    }

    /// Prints a line for those who asked to know more.
    pub fn detail(self, line: impl Display) {
        if matches!(self.verbosity, Verbosity::Verbose | Verbosity::Debug) {
            tell(line);
        }
    }
}

/// Prints one line on stderr that the user asked for, however quiet.
pub fn tell(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints an error with its hint. With stderr closed there is nobody left to tell; the exit status still does.
pub fn report(error: &anyhow::Error) {
    tell(format_args!("minfer: {}", sentence(error)));
    if let Some(hinted) = error.downcast_ref::<Hinted>() {
        tell(format_args!("  hint: {}", hinted.hint()));
    }
}

/// An error with advice on what to do about it.
#[derive(Debug)]
pub struct Hinted {
    sentence: String,
    hint: String,
}

impl Hinted {
    /// What the user can do.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Hinted {}

/// Adds a hint to an error.
pub trait WithHint<T> {
    /// Turns the error into one that prints `hint` below its sentence.
    fn hint(self, hint: impl Display) -> anyhow::Result<T>;
}

/// The error with its causes as one sentence. Many errors name their cause themselves: it is not repeated.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if sentence.is_empty() {
            sentence = cause;
        } else if !sentence.ends_with(&cause) {
            sentence.push_str(": ");
            sentence.push_str(&cause);
        }
    }
    sentence
}

impl<T, E: Into<anyhow::Error>> WithHint<T> for Result<T, E> {
    fn hint(self, hint: impl Display) -> anyhow::Result<T> {
        self.map_err(|error| hinted(error, hint))
    }
}

/// The error with a hint.
pub fn hinted(error: impl Into<anyhow::Error>, hint: impl Display) -> anyhow::Error {
    anyhow::Error::new(Hinted {
        sentence: sentence(&error.into()),
        hint: hint.to_string(),
    })
}

/// Marks the write error of a reader that has gone away.
#[derive(Debug)]
struct OutputClosed;

impl Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output was closed")
    }
}

impl std::error::Error for OutputClosed {}

/// Whether `error` says only that nobody reads the output any more, as in `minfer list | head -1`.
pub fn is_output_closed(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .is_some_and(|inner| inner.is::<OutputClosed>())
    })
}

/// Standard output, locked, whose broken pipe [`is_output_closed`] recognizes.
#[derive(Debug)]
pub struct Output(io::StdoutLock<'static>);

/// Locks standard output.
pub fn output() -> Output {
    Output(io::stdout().lock())
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(name_output)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(name_output)
    }
}

impl Output {
    /// Writes `value` as JSON. Unlike `serde_json`'s own, the error keeps what [`is_output_closed`] looks
    /// for.
    pub fn write_json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(self, value).map_err(io::Error::from)
    }

    /// Writes `value` as a line of JSON.
    pub fn write_json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.write_json(value)?;
        self.write_all(b"\n")
    }
}

fn name_output(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => io::Error::new(io::ErrorKind::BrokenPipe, OutputClosed),
        kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
    }
}

/// `98.4 MB`: decimal units, as model hubs and disks state them.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{count} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn sizes_are_decimal_and_change_unit_before_a_fourth_digit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(98_362_432), "98.4 MB");
        assert_eq!(bytes(999_600_000), "1.0 GB");
        assert_eq!(bytes(1_117_320_768), "1.1 GB");
    }

    #[test]
    fn only_a_broken_stdout_counts_as_closed_output() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let on_stdout = Err::<(), _>(name_output(broken()))
            .context("writing the answer")
            .unwrap_err();
        assert!(is_output_closed(&on_stdout));
        assert!(!is_output_closed(&broken().into()));
    }

    #[test]
    fn a_cause_that_the_error_names_is_not_repeated() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot start a thread: {0}")]
        struct Thread(#[source] io::Error);
        let error = anyhow::Error::new(Thread(io::Error::other("no room"))).context("loading");
        assert_eq!(sentence(&error), "loading: cannot start a thread: no room");
    }

    #[test]
    fn a_hint_keeps_the_whole_sentence_of_the_error() {
        let error = Err::<(), _>(io::Error::other("disk on fire"))
            .context("cannot read x.gguf")
            .hint("buy a disk")
            .unwrap_err();
        let hinted = error.downcast_ref::<Hinted>().unwrap();
        assert_eq!(hinted.to_string(), "cannot read x.gguf: disk on fire");
        assert_eq!(hinted.hint(), "buy a disk");
    }
}
