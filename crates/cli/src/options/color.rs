//! The flag that says when to use colours.

use std::env;
use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};

/// When text that the model only thinks is dimmed.
#[derive(Debug, Args)]
pub struct ColorOption {
    /// Dim what the model thinks before it answers; --color alone means always.
    #[arg(long, value_enum, value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value_t = When::Auto, default_missing_value = "always")]
    color: When,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Also in files and pipes
    Always,
    /// Plain text
    Never,
}

impl ColorOption {
    /// Whether standard output gets colours.
    pub fn on_stdout(&self) -> bool {
        let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let can = io::stdout().is_terminal() && !is_dumb;
        // https://no-color.org
        decide(self.color, can, is_set("NO_COLOR"))
    }
}

fn decide(when: When, can: bool, no_color: bool) -> bool {
    match when {
        When::Auto => can && !no_color,
        When::Always => true,
        When::Never => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_overrules_the_terminal_and_the_environment() {
        for (when, can, no_color, expected) in [
            (When::Auto, true, false, true),
            (When::Auto, true, true, false),
            (When::Auto, false, false, false),
            (When::Always, false, true, true),
            (When::Never, true, false, false),
        ] {
            assert_eq!(
                decide(when, can, no_color),
                expected,
                "{when:?} {can} {no_color}"
            );
        }
    }
}
