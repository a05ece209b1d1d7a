//! Random operations on the arena against a model that knows no cells.

mod model;

use minfer_graph::ArenaError;
use model::Model;
use proptest::prelude::*;

/// An operation; its numbers are reduced to what exists when it runs.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Create,
    Release {
        sequence: usize,
    },
    Reserve {
        sequence: usize,
        tokens: usize,
    },
    /// A step that appends: reserve, store, attend.
    Append {
        sequence: usize,
        tokens: usize,
    },
    /// Appends to two sequences by turns, for one step.
    Interleave {
        first: usize,
        second: usize,
        tokens: usize,
    },
    /// A step that stores into positions that exist.
    Rewrite {
        sequence: usize,
        start: usize,
        tokens: usize,
    },
    Remove {
        sequence: usize,
        start: usize,
        tokens: usize,
    },
    /// Removes every second position.
    Thin {
        sequence: usize,
    },
    /// Removal up to the end.
    Truncate {
        sequence: usize,
        start: usize,
    },
    Shift {
        sequence: usize,
        start: usize,
        tokens: usize,
    },
    Share {
        sequence: usize,
        tokens: usize,
    },
    Compact {
        down: bool,
    },
    Defragment {
        sequence: usize,
    },
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let at = || 0..64usize;
    let few = || 0..6usize;
    prop_oneof![
        2 => Just(Create),
        1 => at().prop_map(|sequence| Release { sequence }),
        2 => (at(), few()).prop_map(|(sequence, tokens)| Reserve { sequence, tokens }),
        6 => (at(), few()).prop_map(|(sequence, tokens)| Append { sequence, tokens }),
        4 => (at(), at(), few())
            .prop_map(|(first, second, tokens)| Interleave { first, second, tokens }),
        3 => (at(), at(), few())
            .prop_map(|(sequence, start, tokens)| Rewrite { sequence, start, tokens }),
        2 => (at(), at(), few())
            .prop_map(|(sequence, start, tokens)| Remove { sequence, start, tokens }),
        1 => at().prop_map(|sequence| Thin { sequence }),
        1 => (at(), at()).prop_map(|(sequence, start)| Truncate { sequence, start }),
        2 => (at(), at(), few())
            .prop_map(|(sequence, start, tokens)| Shift { sequence, start, tokens }),
        3 => (at(), at()).prop_map(|(sequence, tokens)| Share { sequence, tokens }),
        1 => any::<bool>().prop_map(|down| Compact { down }),
        2 => at().prop_map(|sequence| Defragment { sequence }),
    ]
}

fn apply(model: &mut Model, operation: Operation) {
    use Operation::*;
    match operation {
        Create => model.create(),
        Release { sequence } => model.release(sequence),
        Reserve { sequence, tokens } => model.reserve(sequence, tokens),
        Append { sequence, tokens } => model.append(sequence, tokens),
        Interleave {
            first,
            second,
            tokens,
        } => model.append_by_turns(first, second, tokens),
        Rewrite {
            sequence,
            start,
            tokens,
        } => model.rewrite(sequence, start, tokens),
        Remove {
            sequence,
            start,
            tokens,
        } => model.remove(sequence, start, tokens),
        Thin { sequence } => model.thin(sequence),
        Truncate { sequence, start } => model.remove(sequence, start, usize::MAX),
        Shift {
            sequence,
            start,
            tokens,
        } => model.shift(sequence, start, tokens),
        Share { sequence, tokens } => model.share(sequence, tokens),
        Compact { down } => model.compact(down),
        Defragment { sequence } => model.defragment(sequence),
    }
    model.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_arena_keeps_every_row(operations in prop::collection::vec(operation(), 1..60)) {
        let mut model = Model::new();
        for operation in operations {
            apply(&mut model, operation);
        }
    }
}

/// The random operations must meet what they are meant to test.
#[test]
fn operations_reach_every_outcome() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = model::Outcomes::default();
    let operations = prop::collection::vec(operation(), 60);
    for _ in 0..3_000 {
        let mut model = Model::new();
        for operation in operations.new_tree(&mut runner).unwrap().current() {
            apply(&mut model, operation);
        }
        seen.add(&model.outcomes);
    }
    assert!(seen.all_positive(), "{seen:?}");
}

#[test]
fn an_arena_larger_than_its_inputs_is_refused() {
    let cells = i32::MAX as usize + 1;
    let limit = i32::MAX as usize;
    let refused = minfer_graph::Arena::new(cells);
    assert_eq!(refused, Err(ArenaError::TooLarge { cells, limit }));
}
