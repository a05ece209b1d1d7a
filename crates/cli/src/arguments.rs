//! Arguments that parse but make no sense: a usage error like those that clap finds.

use std::fmt::Display;
use std::num::NonZeroUsize;

/// An argument's value is not acceptable. Ends the process with the status of a usage error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(String);

/// Parses a number of things.
pub fn number(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "not a whole number of at least 0")
}

/// Parses a number of things of which there has to be one.
pub fn positive(text: &str) -> Result<NonZeroUsize, &'static str> {
    text.parse().map_err(|_| "not a whole number of at least 1")
}

/// A usage error that says `problem`.
pub fn invalid(problem: impl Display) -> anyhow::Error {
    InvalidArgument(problem.to_string()).into()
}
