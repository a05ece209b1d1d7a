//! What the chat says about itself.

use std::fmt::Write;
use std::path::Path;

use minfer_engine::{ConversationStats, Engine, Finish, GenerateOptions};

use super::command::COMMANDS;
use crate::saved::turns;
use crate::{answer, loading};

/// What is loaded.
pub fn model(path: &Path, engine: &Engine) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    format!("{}: {}", name.display(), loading::kv_cache(engine))
}

/// The list of commands.
pub fn help() -> String {
    let mut help = String::new();
    for usage in &COMMANDS {
        let command = format!("{} {}", usage.name, usage.argument);
        let _ = writeln!(help, "{command:<15}{}", usage.meaning);
    }
    help + "\\ at the end of a line continues it, \"\"\" encloses several lines, // begins a message with /"
}

/// How an answer went and how full the context is.
pub fn turn(finish: &Finish, options: &GenerateOptions, stats: &ConversationStats) -> String {
    format!(
        "{} | context {} of {}",
        answer::summary(finish, options),
        stats.tokens,
        stats.n_ctx
    )
}

/// The whole conversation, and the summary of its last answer.
pub fn stats(stats: &ConversationStats, last: Option<&str>) -> String {
    let mut lines = format!(
        "context: {} of {} tokens, {}\nin all: {} tokens prefilled, {} generated",
        stats.tokens,
        stats.n_ctx,
        turns(stats.turns - stats.dropped_turns),
        stats.prefilled,
        stats.generated,
    );
    if stats.dropped_turns > 0 {
        let _ = write!(
            lines,
            ", {} dropped at {} overflows",
            turns(stats.dropped_turns),
            stats.shifts
        );
    }
    if let Some(last) = last {
        let _ = write!(lines, "\nlast answer: {last}");
    }
    lines
}

/// The beginning of a message, on one line.
pub fn excerpt(text: &str) -> String {
    const MOST: usize = 60;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.len() < text.len() => format!("{line}…"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minfer_engine::{FinishReason, Phase};
    use std::time::Duration;

    fn finish() -> Finish {
        let phase = |tokens, millis| Phase {
            tokens,
            time: Duration::from_millis(millis),
        };
        Finish {
            reason: FinishReason::Eos,
            generated: 9,
            reused: 70,
            drafted: 0,
            accepted: 0,
            prefill: phase(30, 100),
            decode: phase(8, 250),
        }
    }

    #[test]
    fn an_answer_and_a_conversation_are_summed_up() {
        let mut totals = ConversationStats {
            turns: 5,
            tokens: 109,
            n_ctx: 4096,
            prefilled: 300,
            generated: 90,
            ..ConversationStats::default()
        };
        let answer = "prefill 30 tokens, 300.0 t/s, 70 reused | decode 8 tokens, 32.0 t/s";
        assert_eq!(
            turn(&finish(), &GenerateOptions::default(), &totals),
            format!("{answer} | context 109 of 4096")
        );
        let context = "context: 109 of 4096 tokens";
        let all = "in all: 300 tokens prefilled, 90 generated";
        assert_eq!(stats(&totals, None), format!("{context}, 5 turns\n{all}"));
        totals.dropped_turns = 4;
        totals.shifts = 2;
        assert_eq!(
            stats(&totals, Some(answer)),
            format!(
                "{context}, 1 turn\n{all}, 4 turns dropped at 2 overflows\nlast answer: {answer}"
            )
        );
    }

    #[test]
    fn an_excerpt_is_one_short_line() {
        assert_eq!(excerpt("hi"), "hi");
        assert_eq!(excerpt("hi\nthere"), "hi…");
        assert_eq!(excerpt(&"ä".repeat(61)), "ä".repeat(60) + "…");
    }

    #[test]
    fn help_has_a_line_for_each_command() {
        for usage in &COMMANDS {
            let lines = help()
                .lines()
                .filter(|line| line.starts_with(usage.name))
                .count();
            assert_eq!(lines, 1, "{}", usage.name);
        }
    }
}
