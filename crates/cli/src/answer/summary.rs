//! A line about how an answer went.

use std::time::Duration;

use minfer_engine::{Finish, FinishReason, Phase};

/// `load 1.23 s | `, and the summary of the answer.
pub fn load_summary(load: Duration, finish: &Finish) -> String {
    format!("load {:.2} s | {}", load.as_secs_f64(), summary(finish))
}

/// Tokens and speeds of an answer, and what ended it if that was not the model.
pub fn summary(finish: &Finish) -> String {
    let end = match &finish.reason {
        FinishReason::Eos => "",
        FinishReason::Stop(_) => ", ended by a stop string",
        FinishReason::Length => ", ended by the token limit",
        FinishReason::Cancelled => ", interrupted",
    };
    let reused = match finish.reused {
        0 => String::new(),
        tokens => format!(", {tokens} reused"),
    };
    let drafts = match finish.drafted {
        0 => String::new(),
        drafted => format!(" | drafted {drafted}, accepted {}", finish.accepted),
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
            load_summary(Duration::from_millis(1234), &finish),
            "load 1.23 s | prefill 30 tokens, 300.0 t/s | decode 8 tokens, 32.0 t/s"
        );
        finish.reason = FinishReason::Length;
        (finish.reused, finish.drafted, finish.accepted) = (70, 7, 4);
        assert_eq!(
            summary(&finish),
            "prefill 30 tokens, 300.0 t/s, 70 reused | decode 8 tokens, 32.0 t/s | drafted 7, accepted 4, \
             ended by the token limit"
        );
    }
}
