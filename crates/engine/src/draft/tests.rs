//! What is guessed, and how much.

use proptest::collection::vec;
use proptest::prelude::*;

use super::acceptance::Acceptance;
use super::ngram::{Match, NgramIndex};
use super::{DraftMethod, DraftOptions, Drafter};

fn index(shortest: usize, longest: usize, tokens: &[u32]) -> NgramIndex {
    let mut index = NgramIndex::new(shortest, longest);
    for &token in tokens {
        index.push(token);
    }
    index
}

fn continuation(index: &NgramIndex, found: Match, count: usize) -> Vec<u32> {
    let mut continuation = vec![99; 3];
    index.continue_match(found, count, &mut continuation);
    continuation
}

#[test]
fn the_longest_match_counts_and_of_its_occurrences_the_last() {
    // "2 3" comes thrice before the end, "1 2 3" twice, "9 1 2 3" never.
    let text = [1, 2, 3, 4, 8, 1, 2, 3, 5, 8, 2, 3, 6, 9, 1, 2, 3];
    let found = |shortest, longest| index(shortest, longest, &text).find();
    let at = |length, end| Some(Match { length, end });
    assert_eq!(found(2, 4), at(3, 8));
    assert_eq!(found(1, 2), at(2, 12));
    assert_eq!(found(4, 4), None);
    let index = index(2, 4, &text);
    let longest = index.find().expect("a match");
    assert_eq!(continuation(&index, longest, 4), [5, 8, 2, 3]);
}

#[test]
fn the_end_of_a_text_does_not_match_itself() {
    for text in [&[][..], &[1], &[1, 2], &[1, 2, 3], &[1, 2, 3, 1]] {
        assert_eq!(index(2, 4, text).find(), None, "{text:?}");
    }
    let found = index(2, 4, &[1, 2, 3, 1, 2]).find();
    assert_eq!(found, Some(Match { length: 2, end: 2 }));
}

#[test]
fn a_text_that_repeats_goes_on_repeating() {
    let index = index(2, 4, &[9, 1, 2, 3, 1, 2, 3, 1]);
    let found = index.find().expect("a match");
    assert_eq!(found, Match { length: 4, end: 5 });
    // Three tokens follow the match in the text.
    assert_eq!(continuation(&index, found, 7), [2, 3, 1, 2, 3, 1, 2]);
    assert!(continuation(&index, found, 0).is_empty());
}

/// What [`NgramIndex`] finds, by looking everywhere.
fn naive_find(text: &[u32], shortest: usize, longest: usize) -> Option<Match> {
    for length in (shortest..=longest.min(text.len())).rev() {
        let last = &text[text.len() - length..];
        for end in (length..text.len()).rev() {
            if &text[end - length..end] == last {
                return Some(Match { length, end });
            }
        }
    }
    None
}

proptest! {
    /// Few distinct tokens make matches likely, many make the tables grow.
    #[test]
    fn the_index_finds_what_looking_everywhere_finds(
        vocabulary in 1u32..40,
        tokens in vec(any::<u32>(), 0..400),
        shortest in 1usize..4,
        more in 0usize..4,
    ) {
        let longest = shortest + more;
        let mut index = NgramIndex::new(shortest, longest);
        let mut text = Vec::new();
        for token in tokens {
            index.push(token % vocabulary);
            text.push(token % vocabulary);
            let found = index.find();
            prop_assert_eq!(found, naive_find(&text, shortest, longest));
            if let Some(found) = found {
                let mut whole = text.clone();
                for i in 0..9 {
                    whole.push(whole[found.end + i]);
                }
                prop_assert_eq!(continuation(&index, found, 9), &whole[text.len()..]);
            }
        }
    }
}

fn after(outcomes: &[bool]) -> Acceptance {
    let mut acceptance = Acceptance::UNKNOWN;
    for &accepted in outcomes {
        acceptance.observe(accepted);
    }
    acceptance
}

#[test]
fn the_length_yields_the_most_tokens_for_the_time() {
    let outcomes = [false, true, true, true, true, true, true, true, true, false];
    for n in 0..=outcomes.len() {
        let (mut p, row_cost) = (0.5f64, 0.2);
        for &accepted in &outcomes[..n] {
            p = p * 7.0 / 8.0 + if accepted { 1.0 / 8.0 } else { 0.0 };
        }
        let rate = |length: i32| {
            let tokens: f64 = (0..=length).map(|i| p.powi(i)).sum();
            tokens / (1.0 + row_cost * f64::from(length))
        };
        // Of equally good ones the shortest.
        let lengths = (0..=20).rev();
        let best = lengths.max_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        let length = after(&outcomes[..n]).best_length(20);
        assert_eq!(Some(length as i32), best, "acceptance {p}");
        assert_eq!(after(&outcomes[..n]).best_length(1), length.min(1));
    }
}

#[test]
fn drafts_grow_when_accepted_and_vanish_when_not() {
    let lengths = |outcome| {
        let outcomes = [outcome; 40];
        [0, 1, 4, 8, 16, 40].map(|n| after(&outcomes[..n]).best_length(8))
    };
    // Acceptance 0.5, 0.56, 0.71, 0.83, 0.94, 0.998.
    assert_eq!(lengths(true), [1, 2, 3, 4, 8, 8]);
    // 0.5, 0.44, 0.29, 0.17.
    assert_eq!(lengths(false), [1, 1, 1, 0, 0, 0]);
}

fn drafter(method: DraftMethod) -> Drafter {
    let options = DraftOptions {
        method,
        max_tokens: 8,
    };
    Drafter::new(&options, 8).expect("valid options")
}

/// Drafts and pushes what comes true, as long as there is text. Returns drafted and accepted tokens.
fn replay(drafter: &mut Drafter, mut text: &[u32]) -> (usize, usize) {
    let (mut drafted, mut accepted) = (0, 0);
    while !text.is_empty() {
        let draft = drafter.draft(text.len() - 1);
        let right = draft.iter().zip(text).take_while(|(a, b)| a == b).count();
        drafted += draft.len();
        accepted += right;
        let (step, rest) = text.split_at(right + 1);
        drafter.extend(step);
        text = rest;
    }
    (drafted, accepted)
}

#[test]
fn a_repeated_text_is_drafted_and_a_random_one_is_not() {
    let mut drafter = drafter(DraftMethod::NGRAM);
    let paragraph: Vec<u32> = (0..200).collect();
    assert_eq!(replay(&mut drafter, &paragraph), (0, 0));
    let (drafted, accepted) = replay(&mut drafter, &paragraph);
    // The first two tokens match nothing yet, and each verification yields a token that was not drafted.
    assert_eq!(drafted, accepted);
    assert!((160..180).contains(&accepted), "{accepted}");
}

#[test]
fn guesses_that_never_come_true_are_given_up_and_taken_up_again() {
    let mut drafter = drafter(DraftMethod::Ngram {
        shortest: 2,
        longest: 2,
    });
    // "1 2" is followed by something else every time.
    let misleading: Vec<u32> = (100..200).flat_map(|n| [1, 2, n]).collect();
    let (drafted, accepted) = replay(&mut drafter, &misleading);
    assert_eq!((drafted, accepted), (7, 0));
    // No wrong token is verified any more, yet the drafter notices that its guesses are right now.
    let faithful: Vec<u32> = (0..60).flat_map(|_| [1, 2, 7]).collect();
    let (drafted, accepted) = replay(&mut drafter, &faithful);
    assert_eq!(drafted, accepted);
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let options = |shortest, longest, max_tokens| DraftOptions {
        method: DraftMethod::Ngram { shortest, longest },
        max_tokens,
    };
    assert!(Drafter::new(&options(1, 1, 4), 4).is_ok());
    let refused = |options| {
        let error = Drafter::new(&options, 4).expect_err("refused");
        error.to_string()
    };
    assert_eq!(
        refused(options(2, 4, 5)),
        "drafts of 5 tokens are asked for, but the engine verifies at most 4"
    );
    for (shortest, longest) in [(0, 4), (3, 2), (2, 17)] {
        let message = refused(options(shortest, longest, 4));
        let named = format!("n-grams of {shortest} to {longest} tokens");
        assert!(message.starts_with(&named), "{message}");
    }
}

#[test]
fn nothing_is_drafted_unless_asked_for() {
    let mut drafter = Drafter::new(&DraftOptions::default(), 0).expect("nothing to verify");
    assert_eq!(replay(&mut drafter, &[5; 40]), (0, 0));
}
