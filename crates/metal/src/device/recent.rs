//! The labels that an error mentions.

use std::collections::VecDeque;

/// How many labels an error mentions.
const COUNT: usize = 16;

/// Labels of the last dispatches.
#[derive(Clone, Debug, Default)]
pub struct RecentLabels(VecDeque<String>);

impl RecentLabels {
    /// Adds the label of a dispatch, in place of the oldest when there are 16.
    pub fn push(&mut self, label: &str) {
        if self.0.len() == COUNT {
            self.0.pop_front();
        }
        self.0.push_back(label.to_owned());
    }

    /// The labels, oldest first.
    pub fn into_vec(self) -> Vec<String> {
        self.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_sixteen_labels_are_kept_oldest_first() {
        let mut recent = RecentLabels::default();
        for label in 0..19 {
            recent.push(&label.to_string());
        }
        let expected: Vec<_> = (3..19).map(|label| label.to_string()).collect();
        assert_eq!(recent.into_vec(), expected);
    }
}
