//! What a replay says.

use std::path::Path;

use minfer_metal::replay::{Bundle, Difference, Outcome};

use crate::scene::{self, LIMIT};

fn replay(folder: &Path) -> Vec<Outcome> {
    let bundle = Bundle::open(folder).unwrap();
    bundle.replay(&scene::device(), LIMIT).unwrap()
}

/// Path of a file of contents that a description names.
fn contents(folder: &Path, dispatch: &str, memory: usize, when: &str) -> std::path::PathBuf {
    let description = scene::json(&folder.join(dispatch));
    folder.join(description["memory"][memory][when].as_str().unwrap())
}

#[test]
fn the_same_device_leaves_the_same_bytes() {
    let folder = scene::recorded();
    let outcomes = replay(folder.path());
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        assert!(outcome.is_equal(), "{outcome:?}");
        assert_eq!(outcome.kernel, "turn");
        // The output, or the 4 bytes below it as well.
        let [written] = &*outcome.memory else {
            panic!("{outcome:?}")
        };
        assert_eq!(written.equal_bytes, written.bytes);
        assert!([64, 68].contains(&written.bytes), "{outcome:?}");
    }
}

#[test]
fn a_flipped_bit_in_the_expected_bytes_is_found() {
    let folder = scene::recorded();
    let after = contents(folder.path(), "dispatches/0001-turn.json", 0, "after");
    let mut bytes = std::fs::read(&after).unwrap();
    let old = bytes[42];
    bytes[42] ^= 0x10;
    std::fs::write(&after, &bytes).unwrap();
    let outcomes = replay(folder.path());
    let equal: Vec<_> = outcomes.iter().map(Outcome::is_equal).collect();
    assert_eq!(equal, [true, false, true]);
    let comparison = &outcomes[1].memory[0];
    let difference = Difference {
        offset: 42,
        expected: old ^ 0x10,
        found: old,
    };
    assert_eq!(comparison.first_difference, Some(difference));
    assert_eq!(comparison.equal_bytes, 63);
    assert_eq!(comparison.floats.unwrap().different, 1);
}

#[test]
fn another_kernel_is_found() {
    let folder = scene::recorded();
    let source = folder.path().join("sources/scene.metal");
    let text = std::fs::read_to_string(&source).unwrap();
    let changed = text.replace("* weight[i]", "* weight[i] * 1.5f");
    assert_ne!(text, changed);
    std::fs::write(&source, changed).unwrap();
    for outcome in replay(folder.path()) {
        assert!(!outcome.is_equal());
        let floats = outcome.memory[0].floats.unwrap();
        // Half of the larger magnitude is a third of the value with the factor.
        assert!((floats.max_relative - 1.0 / 3.0).abs() < 1e-6, "{floats:?}");
        // The largest value: (15 + 0.5) * 17 or (8 + 0.5) * 24, whichever is larger.
        assert_eq!(floats.max_absolute, 0.5 * 15.5 * 17.0, "{floats:?}");
    }
}

#[test]
fn a_dispatch_that_fails_does_not_hide_the_others() {
    let folder = scene::recorded();
    let dispatch = folder.path().join("dispatches/0001-turn.json");
    scene::edit(&dispatch, |description| {
        description["launch"]["kernel"] = "twist".into();
    });
    let outcomes = replay(folder.path());
    let failure = outcomes[1].failure.as_deref().unwrap();
    assert!(failure.contains("no kernel `twist`"), "{failure}");
    assert!(outcomes[0].is_equal() && outcomes[2].is_equal());

    let source = folder.path().join("sources/scene.metal");
    std::fs::write(source, "kernel void turn(").unwrap();
    for outcome in replay(folder.path()) {
        assert!(outcome.failure.unwrap().contains("scene.metal"));
    }
}

#[test]
fn what_the_checker_reports_is_a_failure() {
    let folder = scene::recorded();
    let dispatch = folder.path().join("dispatches/0000-turn.json");
    scene::edit(&dispatch, |description| {
        description["launch"]["buffers"][1]["bytes"] = 60.into();
    });
    let outcomes = replay(folder.path());
    let failure = outcomes[0].failure.as_deref().unwrap();
    assert!(failure.contains("access out of bounds"), "{failure}");
}
