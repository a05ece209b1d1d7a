//! Exact numbers behind a prediction, for tests and for comparison with other engines.

use crate::sampling::{LogitError, argmax, best_tokens};
use crate::{Engine, Error, Session};

/// What the model predicts after some tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct DebugLogits {
    /// Tokens of the greatest logits, the greatest first, the lowest id first among equals.
    pub top_ids: Vec<u32>,
    /// Their logits.
    pub top_logits: Vec<f32>,
    /// Logarithm of the sum of the exponentials of all logits: `logit - logsumexp` is a log-probability.
    pub logsumexp: f64,
    /// Greedy continuation; end-of-generation tokens do not end it.
    pub greedy: Vec<u32>,
}

impl Engine {
    /// Logits of the last of `ids`: the `top` greatest, and `greedy` tokens of greedy continuation.
    ///
    /// # Errors
    /// Unknown tokens, no tokens, more than the context holds, or logits that are not numbers.
    pub fn debug_logits(
        &mut self,
        ids: &[u32],
        greedy: usize,
        top: usize,
    ) -> Result<DebugLogits, Error> {
        let mut session = self.session();
        session.prefill(ids)?;
        let mut answer =
            describe(session.logits(), top).map_err(|source| at_end(&session, source))?;
        while answer.greedy.len() < greedy {
            let token = argmax(session.logits()).map_err(|source| at_end(&session, source))?;
            answer.greedy.push(token);
            if answer.greedy.len() < greedy {
                session.decode(token)?;
            }
        }
        Ok(answer)
    }
}

/// The answer without a continuation.
fn describe(logits: &[f32], top: usize) -> Result<DebugLogits, LogitError> {
    argmax(logits)?;
    let (top_ids, top_logits) = best_tokens(logits, top).into_iter().unzip();
    Ok(DebugLogits {
        top_ids,
        top_logits,
        logsumexp: logsumexp(logits),
        greedy: Vec::new(),
    })
}

fn at_end(session: &Session<'_>, source: LogitError) -> Error {
    Error::Logits {
        position: session.tokens().len(),
        source,
    }
}

/// `log(sum(exp(x)))` in f64, shifted by the maximum.
pub fn logsumexp(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    if max == f64::NEG_INFINITY {
        return max;
    }
    let sum: f64 = logits.iter().map(|&x| (f64::from(x) - max).exp()).sum();
    max + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_that_are_not_numbers_are_an_error_not_an_answer() {
        let answer = describe(&[1.0, 3.0, 2.0], 2).expect("numbers");
        assert_eq!(answer.top_ids, [1, 2]);
        assert_eq!(answer.top_logits, [3.0, 2.0]);
        let error = describe(&[1.0, f32::NAN], 2).expect_err("NaN");
        assert_eq!(error.to_string(), "the logit of token 1 is NaN");
        assert!(describe(&[1.0, f32::INFINITY], 2).is_err());
    }

    #[test]
    fn logsumexp_is_shifted() {
        assert!((logsumexp(&[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-9);
        assert!((logsumexp(&[0.0, 3f32.ln()]) - 4f64.ln()).abs() < 1e-6);
        assert_eq!(logsumexp(&[]), f64::NEG_INFINITY);
    }
}
