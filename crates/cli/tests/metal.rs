//! `minfer metal`, on tiny models.

mod support;

use support::{Run, minfer, run};

/// A binary without the software device.
#[cfg(not(all(feature = "softmetal", target_os = "linux")))]
#[test]
fn a_binary_without_the_device_says_how_to_build_it() {
    let home = tempfile::tempdir().unwrap();
    for args in [&["check", "model.gguf", "--json"][..], &["--help"], &[]] {
        let run: Run = run(minfer(home.path()).arg("metal").args(args)).expect_code(2);
        assert!(
            run.stderr
                .contains("built without the software Metal device"),
            "{run:?}"
        );
        if cfg!(target_os = "linux") {
            let hint = "hint: cargo build --release --features softmetal";
            assert!(run.stderr.contains(hint), "{run:?}");
        }
    }
}

#[cfg(all(feature = "softmetal", target_os = "linux"))]
mod with_the_device {
    use std::path::Path;
    use std::sync::LazyLock;

    use minfer_gguf::{Gguf, OpenOptions};
    use minfer_testdata::tiny_model;
    use serde_json::Value;

    use super::*;

    const MODEL: &str = "tiny-qwen3-q4_k";

    /// Runs `minfer metal`, once the kernels are compiled: tests run side by side, and each would compile them.
    fn metal(args: &[&str]) -> Run {
        static COMPILED: LazyLock<Run> = LazyLock::new(|| {
            let model = tiny_model(MODEL);
            let model = model.to_str().unwrap();
            start(&["check", model, "--prompt-tokens", "1", "--layers", "1"])
        });
        assert_eq!(COMPILED.code, Some(0), "{:?}", *COMPILED);
        start(args)
    }

    fn start(args: &[&str]) -> Run {
        let home = tempfile::tempdir().unwrap();
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("metal");
        let mut command = minfer(home.path());
        run(command.env("MINFER_CACHE", cache).arg("metal").args(args))
    }

    /// Runs a command over a tiny model and few tokens.
    fn over(model: &str, command: &str, args: &[&str]) -> Run {
        let model = tiny_model(model);
        let model = model.to_str().unwrap();
        metal(&[&[command, model, "--prompt-tokens", "3"], args].concat())
    }

    fn json(run: &Run) -> Value {
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run:?}"))
    }

    /// Names of an object's fields, sorted.
    fn keys(value: &Value) -> Vec<&str> {
        let object = value.as_object().unwrap();
        let mut keys: Vec<_> = object.keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_check_of_sound_kernels_finds_nothing_in_any_order() {
        for order in ["lockstep", "free-running", "reversed"] {
            let args = ["--json", "--decode-steps", "1", "--order", order];
            let run = over(MODEL, "check", &args).expect_code(0);
            let found = json(&run);
            assert_eq!(keys(&found), ["kernels", "reports"]);
            assert_eq!(found["reports"], serde_json::json!([]));
            let kernels = found["kernels"].as_array().unwrap();
            let norm = kernels.iter().find(|kernel| kernel["name"] == "rms_norm");
            let norm = norm.unwrap_or_else(|| panic!("{found}"));
            assert!(norm["dispatches"].as_u64().unwrap() > 0);
            assert!(norm["barriers"].as_u64().unwrap() > 0);
            assert_eq!(
                norm["segments"].as_u64().unwrap() > 0,
                order != "free-running"
            );
            assert_eq!(run.stderr, "", "every node runs on the device");
        }
    }

    #[test]
    fn nodes_that_the_device_refuses_are_named() {
        // No kernel reads this type.
        let run = over("tiny-qwen2-q2_k", "check", &["--decode-steps", "0"]).expect_code(0);
        let refused = "on the CPU: blk.0.attn_q (MatMul): ";
        assert!(run.stdout.contains(refused), "{run:?}");
        assert!(!run.stdout.contains("blk.0.attn_norm ("), "{run:?}");
        let json = over(
            "tiny-qwen2-q2_k",
            "check",
            &["--decode-steps", "0", "--json"],
        );
        assert!(json.expect_code(0).stderr.contains(refused));
    }

    #[test]
    fn a_bench_gives_counts_beside_the_ideal() {
        let run = over(MODEL, "bench", &["--json"]).expect_code(0);
        let found = json(&run);
        assert_eq!(keys(&found), ["decode", "kernels", "prefill", "reports"]);
        // By the file: all weights once, of the embeddings too, since the model has no others for its output.
        let gguf = Gguf::open(tiny_model(MODEL), OpenOptions::default()).unwrap();
        assert!(gguf.tensor("output.weight").is_none());
        let weights: usize = gguf.tensors().iter().map(|tensor| tensor.len).sum();
        let number = |name: &str| gguf.metadata().require_u32(name).unwrap() as usize;
        let kv_width =
            number("qwen3.attention.head_count_kv") * number("qwen3.attention.key_length");
        let row = 2 * 2 * 4 * kv_width;
        for (step, rows, cells) in [("prefill", 3, 3), ("decode", 1, 4)] {
            let step = &found[step];
            let count = |name: &str| step[name].as_u64().unwrap();
            assert_eq!(step["ideal"]["weights"], weights);
            assert_eq!(step["ideal"]["kv"], (rows + cells) * row);
            assert!(count("ideal_bytes") > weights as u64);
            assert!(count("device_bytes") > count("ideal_bytes"), "{step}");
            assert!(count("barriers") < count("dispatches"), "{step}");
            let time = |machine: &str| step["estimates"][machine]["total_ms"].as_f64().unwrap();
            assert!(time("m1") > time("m4-pro"), "{step}");
        }
        // Two fused layers, embeddings and logits.
        assert_eq!(found["decode"]["dispatches"], 2 * 6 + 2);
        for kernel in found["kernels"].as_array().unwrap() {
            let number = |name: &str| kernel[name].as_f64().unwrap();
            let accessed = number("bytes_read") + number("bytes_written");
            let distinct = number("distinct_bytes_read") + number("distinct_bytes_written");
            assert!((number("accesses_per_byte") - accessed / distinct).abs() < 1e-9);
            let time = |machine: &str| kernel["estimates"][machine].as_f64().unwrap();
            // A dispatch alone is taken for 1.5 microseconds.
            assert!(time("m4-pro") > 1.5e-3 * number("dispatches"), "{kernel}");
            assert!(time("m1") > time("m4-pro"), "{kernel}");
        }
        let text = over(MODEL, "bench", &[]).expect_code(0).stdout;
        assert!(
            text.contains("estimate for m4-pro, not measured: "),
            "{text}"
        );
    }

    #[test]
    fn a_decode_step_costs_the_same_without_the_prefill() {
        let whole = json(&over(MODEL, "bench", &["--json"]).expect_code(0));
        let alone = json(&over(MODEL, "bench", &["--json", "--decode-only"]).expect_code(0));
        assert_eq!(alone["decode"], whole["decode"]);
        assert_eq!(alone["prefill"], Value::Null);
        let kernels = alone["kernels"].as_array().unwrap().iter();
        let dispatches = kernels.map(|kernel| kernel["dispatches"].as_u64().unwrap());
        assert_eq!(alone["decode"]["dispatches"], dispatches.sum::<u64>());
        let text = over(MODEL, "bench", &["--decode-only"])
            .expect_code(0)
            .stdout;
        assert!(!text.contains("prefill"), "{text}");
    }

    #[test]
    fn an_exported_bundle_replays_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("bundle");
        let bundle = bundle.to_str().unwrap();
        over(MODEL, "export", &[bundle]).expect_code(0);
        let again = over(MODEL, "export", &[bundle]).expect_code(2);
        assert!(again.stderr.contains("is not an empty folder"), "{again:?}");
        let replay = metal(&["replay", bundle, "--json"]).expect_code(0);
        let replay = json(&replay);
        assert_eq!(replay["different"], 0);
        let dispatches = replay["dispatches"].as_array().unwrap();
        let mut kernels = dispatches.iter().map(|one| &one["kernel"]);
        assert!(kernels.any(|kernel| kernel == "rms_norm"), "{replay}");

        let first = dispatches[0]["dispatch"].as_str().unwrap();
        let description = std::fs::read(Path::new(bundle).join(first)).unwrap();
        let description: Value = serde_json::from_slice(&description).unwrap();
        let memory = description["memory"].as_array().unwrap();
        let mut after = memory.iter().filter_map(|memory| memory["after"].as_str());
        let after = Path::new(bundle).join(after.next().unwrap());
        let mut bytes = std::fs::read(&after).unwrap();
        bytes[5] ^= 1;
        std::fs::write(&after, bytes).unwrap();
        let replay = metal(&["replay", bundle]).expect_code(1);
        let expected = format!("different {first}");
        assert!(replay.stdout.contains(&expected), "{replay:?}");
        assert!(replay.stdout.contains("byte 5 is "), "{replay:?}");
    }

    #[test]
    fn no_barrier_can_be_left_out() {
        let run = over(MODEL, "mutate", &["--json", "--layers", "1"]).expect_code(0);
        let found = json(&run);
        assert_eq!(keys(&found), ["barriers", "not_passed"]);
        let barriers = found["barriers"].as_array().unwrap();
        let in_norm = barriers
            .iter()
            .find(|one| one["place"]["file"] == "norm.metal");
        let reported = in_norm.unwrap()["reported"].as_str().unwrap();
        assert!(reported.starts_with("error: "), "{reported}");
    }

    /// Where the kernel of the norm has a barrier, as FILE:LINE:COLUMN.
    fn barrier_of_the_norm() -> String {
        let mutate = over(MODEL, "mutate", &["--layers", "1"]).expect_code(0);
        let line = mutate.stdout.lines();
        let mut of_norm = line.filter(|line| line.starts_with("norm.metal:"));
        let (place, reported) = of_norm.next().unwrap().split_once(": ").unwrap();
        assert!(reported.starts_with("error: "), "{mutate:?}");
        place.to_owned()
    }

    #[test]
    fn a_check_of_broken_kernels_reports_and_fails() {
        let place = barrier_of_the_norm();
        let check = |args: &[&str]| {
            let broken = ["--layers", "1", "--without-barrier", &place];
            over(MODEL, "check", &[&broken, args].concat()).expect_code(1)
        };
        let found = json(&check(&["--json"]));
        assert_eq!(keys(&found), ["kernels", "reports"]);
        let reports = found["reports"].as_array().unwrap();
        let report = &reports[0];
        assert_eq!(report["severity"], "error", "{report}");
        assert_eq!(report["kernel"], "rms_norm", "{report}");
        // Where the sums of the simdgroups are read.
        assert_eq!(report["now"]["place"]["file"], "norms.h", "{report}");

        let quiet = check(&["-q"]);
        assert!(quiet.stderr.contains("the run ended early: "), "{quiet:?}");
        let text = quiet.stdout;
        assert!(text.starts_with("error: "), "{text}");
        let errors = reports.iter().filter(|one| one["severity"] == "error");
        let count = format!("\n{} errors, ", errors.count());
        assert!(text.contains(&count), "{text}");
    }

    #[test]
    fn a_missing_compiler_is_named_and_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let bundle = home.path().join("bundle");
        let model = tiny_model(MODEL);
        for _ in 0..2 {
            let mut command = minfer(home.path());
            command.env("PATH", home.path());
            let args = command.args(["metal", "export"]).arg(&model).arg(&bundle);
            let run = run(args).expect_code(2);
            assert!(run.stderr.contains("cannot run `clang++-19`"), "{run:?}");
        }
    }

    #[test]
    fn lint_reads_files_with_their_headers() {
        let shipped = metal(&["lint"]).expect_code(0);
        assert!(
            shipped.stdout.ends_with(" files, 0 findings\n"),
            "{shipped:?}"
        );
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("k.metal");
        let text = |parameter: &str| {
            format!(
                "#include <metal_stdlib>\n#include \"arguments.h\"\n#include \"own.h\"\nusing namespace metal;\n\
                 kernel void k({parameter}* y [[buffer(0)]]) {{ y[0] = ONE; }}\n"
            )
        };
        let path = kernel.to_str().unwrap();
        std::fs::write(&kernel, text("device float")).unwrap();
        let missing = metal(&["lint", path]).expect_code(2);
        assert!(
            missing.stderr.contains("no file `own.h` to include"),
            "{missing:?}"
        );
        std::fs::write(folder.path().join("own.h"), "#define ONE 1.0f\n").unwrap();
        metal(&["lint", path]).expect_code(0);
        std::fs::write(&kernel, text("float")).unwrap();
        let found = metal(&["lint", path]).expect_code(1);
        assert!(found.stdout.starts_with("k.metal:5:"), "{found:?}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let run = over(MODEL, "check", &["--layers", "0"]).expect_code(2);
        assert!(run.stderr.contains("nor `all`"), "{run:?}");
        let most = usize::MAX.to_string();
        let run = over(MODEL, "check", &["--decode-steps", &most]).expect_code(2);
        assert!(run.stderr.contains(&format!("{most} cells")), "{run:?}");
        for (place, complaint) in [
            ("norm.metal:1", "not FILE:LINE:COLUMN"),
            (
                "norm.metal:1:1",
                "no barrier of the kernels is at norm.metal:1:1",
            ),
        ] {
            let run = over(MODEL, "check", &["--without-barrier", place]).expect_code(2);
            assert!(run.stderr.contains(complaint), "{run:?}");
        }
        let no_bundle = tempfile::tempdir().unwrap();
        let run = metal(&["replay", no_bundle.path().to_str().unwrap()]).expect_code(2);
        assert!(run.stderr.contains("bundle.json"), "{run:?}");
    }
}
