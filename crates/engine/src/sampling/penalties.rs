//! Repetition, frequency and presence penalties over the last tokens.

/// Penalties on tokens that appear in the last ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PenaltyParams {
    /// Tokens looked back on; 0 for no penalty, `None` for the whole context.
    pub last_n: Option<usize>,
    /// Divides a positive logit and multiplies a negative one (Keskar et al. 2019); 1 for none.
    pub repeat: f32,
    /// Subtracted once per occurrence; 0 for none.
    pub frequency: f32,
    /// Subtracted once if the token occurs at all; 0 for none.
    pub presence: f32,
}

impl Default for PenaltyParams {
    fn default() -> Self {
        PenaltyParams {
            last_n: Some(64),
            repeat: 1.0,
            frequency: 0.0,
            presence: 0.0,
        }
    }
}

impl PenaltyParams {
    /// Whether any logit could change.
    pub(super) fn is_active(&self) -> bool {
        self.last_n != Some(0)
            && (self.repeat != 1.0 || self.frequency != 0.0 || self.presence != 0.0)
    }

    /// Lowers the logits of the tokens in `recent`, which it sorts.
    pub(super) fn apply(&self, logits: &mut [f32], recent: &mut [u32]) {
        recent.sort_unstable();
        for run in recent.chunk_by(|a, b| a == b) {
            let Some(logit) = run.first().and_then(|&id| logits.get_mut(id as usize)) else {
                continue;
            };
            *logit = if *logit > 0.0 {
                *logit / self.repeat
            } else {
                *logit * self.repeat
            };
            *logit -= run.len() as f32 * self.frequency + self.presence;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_signs_enter_as_the_formulas_say() {
        let params = PenaltyParams {
            repeat: 2.0,
            frequency: 0.5,
            presence: 0.25,
            ..PenaltyParams::default()
        };
        let mut logits = [3.0, -1.0, 4.0, 0.0];
        params.apply(&mut logits, &mut [0, 1, 0, 3, 0, 99]);
        // 3 / 2 - (3 * 0.5 + 0.25), -1 * 2 - (0.5 + 0.25), untouched, 0 - 0.75
        assert_eq!(logits, [-0.25, -2.75, 4.0, -0.75]);
    }

    #[test]
    fn inactive_without_a_window_or_with_neutral_values() {
        assert!(!PenaltyParams::default().is_active());
        let off = PenaltyParams {
            last_n: Some(0),
            repeat: 1.5,
            ..PenaltyParams::default()
        };
        assert!(!off.is_active());
        let on = PenaltyParams {
            presence: 0.1,
            ..PenaltyParams::default()
        };
        assert!(on.is_active());
    }
}
