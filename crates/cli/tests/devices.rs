//! Where models run: `minfer devices`, `--device` and `--gpu-layers`.

mod support;

use minfer_testdata::tiny_model;
use serde_json::Value;
use support::{Run, minfer, run};

/// Unquantized: the CPU computes its generated rows in f32 too, as the device does.
const MODEL: &str = "tiny-qwen2-f32";

fn start(arguments: &[&str]) -> Run {
    let home = tempfile::tempdir().unwrap();
    // Kernels are compiled once for all tests.
    let cache = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("devices");
    let mut command = minfer(home.path());
    command
        .env("MINFER_CACHE", cache)
        .env_remove("MINFER_DEVICE");
    run(command.args(arguments))
}

/// `minfer run` of a few greedy tokens.
fn answer(model: &str, arguments: &[&str]) -> Run {
    let model = tiny_model(model);
    let prompt = [
        "run",
        model.to_str().unwrap(),
        "--no-template",
        "Hi there",
        "--greedy",
        "-n",
        "12",
    ];
    start(&[&prompt, arguments].concat())
}

#[test]
fn devices_are_listed_with_their_limits_or_why_they_are_not_there() {
    let shown = start(&["devices"]).expect_code(0).stdout;
    assert!(shown.starts_with("cpu\n  threads "), "{shown}");
    assert!(shown.contains("\n  instruction set "), "{shown}");
    let json = start(&["devices", "--json"]).expect_code(0).stdout;
    let lines: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = lines
        .iter()
        .filter_map(|line| line["device"].as_str())
        .collect();
    assert_eq!(names, ["cpu", "metal", "soft-metal"]);
    assert!(lines[0]["threads"].as_u64().unwrap() > 0, "{json}");
    #[cfg(not(target_vendor = "apple"))]
    {
        let reason = "Metal exists on Apple's systems only";
        assert_eq!(lines[1]["missing"], reason);
        assert!(
            shown.contains(&format!("\nmetal: not there: {reason}\n")),
            "{shown}"
        );
    }
    #[cfg(all(feature = "softmetal", target_os = "linux"))]
    {
        assert_eq!(lines[2]["simd_width"], 32);
        assert_eq!(lines[2]["max_threadgroup_memory"], 32768);
        assert!(
            shown.contains("\nsoft-metal: software device (Apple M1)\n"),
            "{shown}"
        );
        assert!(shown.contains("\n  GPU family         Apple7\n"), "{shown}");
    }
}

#[cfg(not(all(feature = "softmetal", target_os = "linux")))]
#[test]
fn a_binary_without_the_software_device_says_how_to_build_it() {
    let refused = answer(MODEL, &["--device", "soft-metal"]).expect_code(1);
    let expected = "minfer: there is no device soft-metal: ";
    assert!(refused.stderr.starts_with(expected), "{refused:?}");
    if cfg!(target_os = "linux") {
        assert!(
            refused.stderr.contains("--features softmetal"),
            "{refused:?}"
        );
    }
}

#[cfg(not(target_vendor = "apple"))]
#[test]
fn a_device_that_is_not_there_is_an_error_if_it_was_asked_for() {
    let refused = answer(MODEL, &["--device", "metal"]).expect_code(1);
    let expected = "minfer: there is no device metal: Metal exists on Apple's systems only\n";
    assert_eq!(refused.stderr, expected);
    assert_eq!(refused.stdout, "");
    let automatic = answer(MODEL, &["--device", "auto", "-ngl", "9"]).expect_code(0);
    let note = "all 2 layers run on the CPU: Metal exists on Apple's systems only\n";
    assert!(automatic.stderr.starts_with(note), "{automatic:?}");
}

#[test]
fn values_that_are_not_accepted_are_usage_errors() {
    let wrong = answer(MODEL, &["--device", "gpu"]).expect_code(2);
    assert!(
        wrong.stderr.contains("auto, cpu, metal or soft-metal"),
        "{wrong:?}"
    );
    let wrong = answer(MODEL, &["-ngl", "-1"]).expect_code(2);
    let accepted = "a whole number of at least 0, or auto";
    assert!(wrong.stderr.contains(accepted), "{wrong:?}");
}

#[cfg(all(feature = "softmetal", target_os = "linux"))]
mod on_the_software_device {
    use super::*;

    #[test]
    fn the_answer_is_that_of_the_cpu() {
        let expected = answer(MODEL, &["--device", "cpu"]).expect_code(0);
        assert!(!expected.stdout.trim().is_empty(), "{expected:?}");
        for layers in [
            &[][..],
            &["--gpu-layers", "auto"],
            &["-ngl", "1"],
            &["-ngl", "0"],
        ] {
            let arguments = [&["--device", "soft-metal"], layers].concat();
            let actual = answer(MODEL, &arguments).expect_code(0);
            assert_eq!(actual.stdout, expected.stdout, "{arguments:?}");
            let lines = actual.stderr.lines().count();
            assert_eq!(lines, 1, "nothing but the summary: {actual:?}");
        }
        let told = answer(MODEL, &["--device", "soft-metal", "-ngl", "1", "-v"]).expect_code(0);
        let placement = "1 of 2 layers run on soft-metal, the rest on the CPU\n";
        assert!(told.stderr.contains(placement), "{told:?}");
    }

    #[test]
    fn a_type_without_kernels_is_named() {
        let refused = answer("tiny-qwen2-q2_k", &["--device", "soft-metal"]).expect_code(1);
        let expected = "minfer: soft-metal has no kernels for token_embd.weight, which is Q2_K ";
        assert!(refused.stderr.starts_with(expected), "{refused:?}");
    }

    #[test]
    fn info_says_where_layers_would_run() {
        let model = tiny_model(MODEL);
        let info = |arguments: &[&str]| {
            let arguments = [&["info", model.to_str().unwrap()], arguments].concat();
            start(&arguments).expect_code(0).stdout
        };
        let shown = info(&["--device", "soft-metal", "-ngl", "1"]);
        let expected = "\n1 of 2 layers run on soft-metal, the rest on the CPU\n";
        assert!(shown.ends_with(expected), "{shown}");
        let json: Value =
            serde_json::from_str(&info(&["--device", "soft-metal", "--json"])).unwrap();
        assert_eq!(json["memory"]["device"], "soft-metal");
        assert_eq!(json["memory"]["device_layers"], 2);
        assert_eq!(json["memory"]["reason"], Value::Null);
    }

    #[test]
    fn a_benchmark_names_the_device() {
        let model = tiny_model(MODEL);
        let arguments = [
            "bench",
            model.to_str().unwrap(),
            "-p",
            "4",
            "-n",
            "2",
            "-r",
            "1",
        ];
        let rows = start(&[&arguments[..], &["--device", "soft-metal"]].concat()).expect_code(0);
        let backend = "| soft-metal (software device (Apple M1)) |";
        assert!(rows.stdout.contains(backend), "{rows:?}");
    }
}
