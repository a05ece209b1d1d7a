//! How far values were from exact.

/// How far the values of a case were from exact.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Of its prompt rows.
    pub prompt: Worst,
    /// Of its generated rows.
    pub generated: Worst,
}

/// The largest errors of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Worst {
    /// Of the element's magnitude, see [`crate::Limit`].
    pub relative: f64,
    /// Of the element's limit: at most 1, or the case has failed.
    pub of_limit: f64,
}

impl Worst {
    /// The larger of both errors.
    pub fn max(self, other: Worst) -> Worst {
        Worst {
            relative: self.relative.max(other.relative),
            of_limit: self.of_limit.max(other.of_limit),
        }
    }

    pub(crate) fn of(error: f64, magnitude: f64, limit: f64) -> Worst {
        let share = |of: f64| if error > 0.0 { error / of } else { 0.0 };
        Worst {
            relative: share(magnitude),
            of_limit: share(limit),
        }
    }
}

impl Accuracy {
    /// The larger errors of both, by role.
    pub fn max(self, other: Accuracy) -> Accuracy {
        Accuracy {
            prompt: self.prompt.max(other.prompt),
            generated: self.generated.max(other.generated),
        }
    }

    pub(crate) fn of_role(&mut self, is_prompt: bool) -> &mut Worst {
        match is_prompt {
            true => &mut self.prompt,
            false => &mut self.generated,
        }
    }
}
