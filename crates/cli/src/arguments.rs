//! Arguments that parse but make no sense: a usage error like those that clap finds.

use std::fmt::Display;

/// An argument's value is not acceptable. Ends the process with the status of a usage error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InvalidArgument(String);

/// A usage error that says `problem`.
pub fn invalid(problem: impl Display) -> anyhow::Error {
    InvalidArgument(problem.to_string()).into()
}
