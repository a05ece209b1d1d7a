//! What is wrong with a source.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::module::SourcePlace;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LintFinding {
    /// Where, in the file that the library was made of.
    pub place: SourcePlace,
    /// Name of the rule, for `softmetal: allow(NAME): REASON` on the line.
    pub rule: &'static str,
    /// What is wrong, and why it matters.
    pub message: String,
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourcePlace { file, line, column } = &self.place;
        let (rule, message) = (self.rule, &self.message);
        write!(f, "{file}:{line}:{column}: {rule}: {message}")
    }
}

/// Why a source could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LintError {
    /// The compiler that parses address spaces does not run.
    #[error("cannot run `{}` ({error}): install clang 19, for example the package clang-19", .program.display())]
    Compiler {
        /// The compiler.
        program: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It ended in another way than with messages about the source.
    #[error("`{}` failed: {message}", .program.display())]
    Failed {
        /// The compiler.
        program: PathBuf,
        /// What it said.
        message: String,
    },
}
