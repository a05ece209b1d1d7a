//! Rows that a request need not compute, because another sequence has them.

use crate::Role;

/// Tokens, each with the role it is computed in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rows<'a> {
    pub tokens: &'a [u32],
    pub roles: &'a [Role],
}

impl<'a> Rows<'a> {
    /// The first `len` rows.
    pub fn first(self, len: usize) -> Rows<'a> {
        Rows {
            tokens: &self.tokens[..len.min(self.tokens.len())],
            roles: &self.roles[..len.min(self.roles.len())],
        }
    }

    /// Leading rows that have the same bits in both: equal tokens in equal roles, or in `any_role`.
    pub fn common(self, other: Rows<'_>, any_role: bool) -> usize {
        let mine = self.tokens.iter().zip(self.roles);
        let others = other.tokens.iter().zip(other.roles);
        mine.zip(others)
            .take_while(|((token, role), (other_token, other_role))| {
                token == other_token && (any_role || role == other_role)
            })
            .count()
    }
}

/// What a request can share with the other sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prospect<S> {
    /// The sequence that has most of its rows, and how many.
    pub parent: Option<(S, usize)>,
    /// Whether a running request is going to compute more of them.
    pub awaits: bool,
}

impl<S> Prospect<S> {
    /// Compares `rows`, those of the request that another may have computed, with the `computed` rows of
    /// sequences and with the `coming` prompts of running requests. Of equals the first counts.
    pub fn of<'r>(
        rows: Rows<'_>,
        any_role: bool,
        computed: impl IntoIterator<Item = (S, Rows<'r>)>,
        coming: impl IntoIterator<Item = Rows<'r>>,
    ) -> Self {
        let mut parent = None;
        let mut most = 0;
        for (sequence, theirs) in computed {
            let shared = rows.common(theirs, any_role);
            if shared > most {
                most = shared;
                parent = Some((sequence, shared));
            }
        }
        let awaits = coming
            .into_iter()
            .any(|prompt| rows.common(prompt, any_role) > most);
        Prospect { parent, awaits }
    }

    /// Rows that it can share now.
    pub fn shared(&self) -> usize {
        self.parent.as_ref().map_or(0, |&(_, shared)| shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: Role = Role::Prompt;
    const G: Role = Role::Generated;

    fn rows<'a>(tokens: &'a [u32], roles: &'a [Role]) -> Rows<'a> {
        Rows { tokens, roles }
    }

    #[test]
    fn rows_are_common_up_to_the_first_other_token_or_role() {
        let mine = rows(&[1, 2, 3, 4], &[P; 4]);
        assert_eq!(mine.common(rows(&[1, 2, 9, 4], &[P; 4]), false), 2);
        assert_eq!(mine.common(rows(&[1, 2, 3, 4, 5], &[P; 5]), false), 4);
        assert_eq!(mine.common(rows(&[1, 2, 3], &[P; 3]), false), 3);
        let answered = rows(&[1, 2, 3, 4], &[P, P, G, G]);
        assert_eq!(mine.common(answered, false), 2);
        assert_eq!(mine.common(answered, true), 4);
        assert_eq!(answered.common(answered, false), 4);
        assert_eq!(mine.first(1).common(answered, true), 1);
        assert_eq!(mine.first(9).common(mine, false), 4);
    }

    #[test]
    fn the_longest_prefix_counts_and_a_longer_one_is_worth_waiting_for() {
        let mine = rows(&[1, 2, 3, 4], &[P; 4]);
        let short = rows(&[1, 2], &[P; 2]);
        let long = rows(&[1, 2, 3, 7], &[P; 4]);
        let prospect = |coming| {
            let computed = [('a', short), ('b', long), ('c', long)];
            Prospect::of(mine, false, computed, coming)
        };
        let parent = Some(('b', 3));
        let awaits = false;
        assert_eq!(prospect(vec![]), Prospect { parent, awaits });
        assert_eq!(prospect(vec![long]), Prospect { parent, awaits });
        let awaits = true;
        assert_eq!(prospect(vec![short, mine]), Prospect { parent, awaits });
        assert_eq!(prospect(vec![]).shared(), 3);

        let other = rows(&[2], &[P]);
        let none = Prospect::of(mine, false, [('a', other)], [other]);
        assert_eq!((none.parent, none.awaits), (None, false));
    }
}
