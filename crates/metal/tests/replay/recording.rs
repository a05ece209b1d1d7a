//! What is written, and when.

use std::path::Path;

use minfer_metal::device::{Buffer, BufferRange, CommandBuffer, ComputeEncoder, Device, Order};
use minfer_metal::replay::Recorder;
use serde_json::json;

use crate::scene::{self, LIMIT, PLAIN, Scene, THREADS, X_OFFSET, input, turned};

fn floats(folder: &Path, file: &serde_json::Value) -> Vec<f32> {
    let bytes = std::fs::read(folder.join(file.as_str().unwrap())).unwrap();
    let words = bytes.as_chunks().0.iter();
    words.map(|word| f32::from_le_bytes(*word)).collect()
}

#[test]
fn a_description_says_everything_that_a_launch_needs() {
    let folder = scene::recorded();
    let folder = folder.path();
    let index = scene::json(&folder.join("bundle.json"));
    let expected = json!({
        "format": 1,
        "device": "software device (Apple M1)",
        "dispatches": ["dispatches/0000-turn.json", "dispatches/0001-turn.json", "dispatches/0002-turn.json"],
    });
    assert_eq!(index, expected);
    let first = scene::json(&folder.join("dispatches/0000-turn.json"));
    let launch = json!({
        "kernel": "turn",
        "source": "sources/scene.metal",
        "constants": [{"index": 2, "type": "bool", "bytes": "00"}],
        "grid_unit": "threadgroups",
        "grid": [2, 1, 1],
        "threadgroup": [8, 1, 1],
        "threadgroup_memory": [{"index": 0, "bytes": 32}],
        // 0.5
        "values": [{"index": 0, "bytes": "0000003f"}],
        "buffers": [
            {"index": 1, "memory": 0, "offset": 0, "bytes": 64, "role": "write"},
            {"index": 2, "memory": 1, "offset": 4, "bytes": 64, "role": "read"},
            {"index": 3, "memory": 2, "offset": 0, "bytes": 32, "role": "read"},
        ],
    });
    assert_eq!(first["launch"], launch);
    assert_eq!(first["label"], "first");
    let shapes: Vec<_> = first["memory"].as_array().unwrap().iter().collect();
    let shape = |at: usize| {
        let memory = shapes[at];
        (&memory["label"], &memory["offset"], &memory["bytes"])
    };
    assert_eq!(shape(0), (&json!("y"), &json!(32), &json!(64)));
    // From the multiple of 16 below 20.
    assert_eq!(shape(1), (&json!("x"), &json!(16), &json!(68)));
    assert_eq!(shape(2), (&json!("weights"), &json!(64), &json!(32)));

    assert_eq!(floats(folder, &shapes[0]["before"]), [0.0; 16]);
    assert_eq!(
        floats(folder, &shapes[0]["after"]),
        turned(&input(), 17.0, 1.0)
    );
    assert_eq!(floats(folder, &shapes[1]["before"])[1..], input());
    assert!(shapes[1]["after"].is_null());
    let weights: Vec<_> = (17..25).map(|i| i as f32).collect();
    assert_eq!(floats(folder, &shapes[2]["before"]), weights);
    let source = std::fs::read_to_string(folder.join("sources/scene.metal")).unwrap();
    assert!(source.contains("struct Turn {"), "the header is in place");
}

#[test]
fn dispatches_of_one_kind_are_described_once() {
    let folder = scene::recorded();
    let description = |number: u32| {
        scene::json(
            &folder
                .path()
                .join(format!("dispatches/000{number}-turn.json")),
        )
    };
    let (plain, negated, in_place) = (description(0), description(1), description(2));
    // The second one read other weights, in which kinds do not differ.
    assert_eq!(plain["occurrences"], 2);
    assert_eq!(negated["occurrences"], 1);
    assert_eq!(negated["launch"]["constants"][0]["bytes"], "01");
    assert_eq!(plain["memory"][2]["before"], negated["memory"][2]["before"]);
    assert_eq!(in_place["memory"].as_array().unwrap().len(), 2);
    let buffers = &in_place["launch"]["buffers"];
    assert_eq!(buffers[0]["memory"], buffers[1]["memory"]);
    assert_eq!(buffers[0]["offset"], X_OFFSET % 16);
    let x = floats(folder.path(), &in_place["memory"][0]["after"]);
    assert_eq!(x[1..], turned(&input(), 17.0, 1.0));
}

#[test]
fn nothing_runs_or_is_written_before_the_submission() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path());
    let encode = || {
        let commands = scene.recorder.command_buffer("c").unwrap();
        let mut encoder = commands.compute(Order::Serial).unwrap();
        scene
            .with(PLAIN, |dispatch| encoder.dispatch(dispatch))
            .unwrap();
        encoder.end()
    };
    let y = || {
        let mut bytes = vec![0; 4 * THREADS];
        scene.y.read(32, &mut bytes).unwrap();
        bytes
    };
    drop(encode());
    assert_eq!(y(), [0; 4 * THREADS]);
    encode().submit(LIMIT).unwrap();
    assert_ne!(y(), [0; 4 * THREADS]);
    assert_eq!(scene.recorder.finish().unwrap(), 1);
}

#[test]
fn memory_that_means_nothing_is_recorded_as_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path());
    // The dispatch writes bytes 32 to 96 of it; those around are neither read nor compared.
    scene.y.write(0, &[7; 256]).unwrap();
    let range = BufferRange {
        buffer: &scene.y,
        offset: 36,
        bytes: 200,
    };
    scene.recorder.discard(range).unwrap();
    scene
        .with(PLAIN, |dispatch| scene.recorder.run(dispatch, LIMIT))
        .unwrap();
    scene.recorder.finish().unwrap();
    let description = scene::json(&folder.path().join("dispatches/0000-turn.json"));
    let y = &description["memory"][0];
    assert_eq!(y["label"], "y");
    let before = std::fs::read(folder.path().join(y["before"].as_str().unwrap())).unwrap();
    let mut expected = vec![0; before.len()];
    expected[..4].fill(7);
    assert_eq!(before, expected);
    let after = floats(folder.path(), &y["after"]);
    assert!(after.iter().all(|&value| value != 0.0), "{after:?}");
}

#[test]
fn a_recording_without_dispatches_leaves_its_folder_empty() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        drop(Scene::new(folder.path()));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn what_cannot_be_encoded_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::new(folder.path());
    let commands = scene.recorder.command_buffer("c").unwrap();
    let mut encoder = commands.compute(Order::Serial).unwrap();
    let error = scene.with(PLAIN, |dispatch| {
        let mut dispatch = minfer_metal::device::Dispatch { ..*dispatch };
        dispatch.arguments = &dispatch.arguments[1..];
        encoder.dispatch(&dispatch).unwrap_err()
    });
    assert!(error.to_string().contains("buffer 0"), "{error}");
    encoder.end().submit(LIMIT).unwrap();
    assert_eq!(scene.recorder.finish().unwrap(), 0);
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("thesis.txt"), "x").unwrap();
    let error = Recorder::new(scene::device(), folder.path()).err().unwrap();
    assert!(
        error.to_string().ends_with("is not an empty folder"),
        "{error}"
    );
    let file = folder.path().join("thesis.txt");
    assert!(Recorder::new(scene::device(), &file).is_err());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "x");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
