//! A line about how an answer went.

use std::time::Duration;

use minfer_engine::{DraftMethod, Finish, FinishReason, GenerateOptions, Phase};

/// `load 1.23 s | `, and the summary of the answer.
pub fn load_summary(load: Duration, finish: &Finish, options: &GenerateOptions) -> String {
    let load = load.as_secs_f64();
    format!("load {load:.2} s | {}", summary(finish, options))
}

/// Whether the answer ended for want of room, and not at the token limit.
pub fn filled_context(finish: &Finish, options: &GenerateOptions) -> bool {
    let limit = options.max_tokens.unwrap_or(usize::MAX);
    finish.reason == FinishReason::Length && finish.generated < limit
}

/// Tokens and speeds of an answer, and what ended it if that was not the model.
pub fn summary(finish: &Finish, options: &GenerateOptions) -> String {
    let end = match &finish.reason {
        FinishReason::Eos => "",
        FinishReason::Stop(_) => ", ended by a stop string",
        FinishReason::Length if filled_context(finish, options) => ", ended by the full context",
        FinishReason::Length => ", ended by the token limit",
        FinishReason::Cancelled => ", interrupted",
    };
    let reused = match finish.reused {
        0 => String::new(),
        tokens => format!(", {tokens} reused"),
    };
    let drafts = match options.draft.method {
        DraftMethod::None => String::new(),
        _ => format!(
            " | drafted {}, accepted {}",
            finish.drafted, finish.accepted
        ),
    };
    format!(
        "prefill {}{reused} | decode {}{drafts}{end}",
        phase(finish.prefill),
        phase(finish.decode),
    )
}

fn phase(phase: Phase) -> String {
    match phase.rate() {
        Some(rate) => format!("{} tokens, {rate:.1} t/s", phase.tokens),
        None => format!("{} tokens", phase.tokens),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use minfer_engine::DraftOptions;

    #[test]
    fn the_summary_has_load_time_and_both_rates() {
        let mut finish = Finish {
            reason: FinishReason::Eos,
            generated: 9,
            reused: 0,
            prefill: Phase {
                tokens: 30,
                time: Duration::from_millis(100),
            },
            decode: Phase {
                tokens: 8,
                time: Duration::from_millis(250),
            },
            drafted: 0,
            accepted: 0,
        };
        assert_eq!(
            load_summary(
                Duration::from_millis(1234),
                &finish,
                &GenerateOptions::default()
            ),
            "load 1.23 s | prefill 30 tokens, 300.0 t/s | decode 8 tokens, 32.0 t/s"
        );
        let mut options = GenerateOptions {
            max_tokens: Some(9),
            draft: DraftOptions {
                method: DraftMethod::NGRAM,
                ..DraftOptions::default()
            },
            ..GenerateOptions::default()
        };
        finish.reason = FinishReason::Length;
        assert_eq!(
            summary(&finish, &options),
            "prefill 30 tokens, 300.0 t/s | decode 8 tokens, 32.0 t/s | drafted 0, accepted 0, \
             ended by the token limit"
        );
        options.max_tokens = None;
        (finish.reused, finish.drafted, finish.accepted) = (70, 7, 4);
        assert_eq!(
            summary(&finish, &options),
            "prefill 30 tokens, 300.0 t/s, 70 reused | decode 8 tokens, 32.0 t/s | drafted 7, accepted 4, \
             ended by the full context"
        );
    }
}
