//! Runs clang on a translated library, and keeps what it built.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use sha2::{Digest, Sha256};

use crate::shim;

/// How a library is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Build {
    /// Every memory access calls the checker.
    Checked,
    /// For speed.
    Unchecked,
}

/// The compiler and the place for its products.
#[derive(Clone, Debug)]
pub(crate) struct Compiler {
    pub(crate) program: PathBuf,
    /// Products are looked for and left here. Without a folder nothing is kept.
    pub(crate) cache: Option<PathBuf>,
}

/// Why a library could not be compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    #[error("cannot run `{}` ({error}): install clang 19, for example the package clang-19", .program.display())]
    NoCompiler { program: PathBuf, error: io::Error },
    #[error("{0}")]
    Rejected(String),
    #[error("{}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
}

/// A shared object, which lives as long as the value when it is not in the cache.
pub(crate) struct Product {
    pub(crate) path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

/// Options for both builds. Their bits are the same: no contraction of products and sums.
const COMMON: &[&str] = &[
    "-std=c++17",
    "-fPIC",
    "-O2",
    "-gline-tables-only",
    "-fdeclspec",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-fno-optimize-sibling-calls",
    // A loop without an end stays one.
    "-fno-finite-loops",
    // A thread's stack is as large as `exec::STACK`; no array reaches beyond the page that guards it.
    "-fstack-clash-protection",
    "-Wframe-larger-than=131072",
    "-Werror=frame-larger-than",
    "-ffp-contract=off",
    // Every operation on half or bfloat rounds.
    "-Xclang",
    "-ffloat16-excess-precision=none",
    "-Xclang",
    "-fbfloat16-excess-precision=none",
    // `1.0` is a float.
    "-Xclang",
    "-cl-single-precision-constant",
    // As the hardware does it: integers wrap, and numbers out of an integer's range become the nearest.
    "-fwrapv",
    "-fno-strict-float-cast-overflow",
    // The language is that of Metal 3.2, on macOS.
    "-D__METAL__=1",
    "-D__METAL_VERSION__=320",
    "-D__METAL_MACOS__=1",
    "-D__HAVE_BFLOAT__=1",
    // The processor would end the process.
    "-fsanitize=integer-divide-by-zero",
    "-fno-sanitize-recover=integer-divide-by-zero",
    // As `module::places` expects it.
    "-fdebug-compilation-dir=/kernel",
    "-nostdinc",
    "-nostdinc++",
    "-Wno-unknown-attributes",
    "-Wno-ignored-attributes",
    "-Wno-user-defined-literals",
    "-Wno-duplicate-decl-specifier",
];

const _: () = assert!(crate::exec::STACK == 131_072, "`-Wframe-larger-than`");

/// Thread sanitizer's instrumentation, without its runtime, and an optimizer that leaves accesses where and
/// as wide as they are: neither merged across lines, nor moved behind a guard or out of a loop, nor split.
const CHECKED: &[&str] = &[
    "-fsanitize=thread",
    // Arrays of a thread, and program-scope constants.
    "-fsanitize=bounds",
    "-fsanitize-recover=array-bounds",
    // Vectors of which the optimizer loads single components.
    "-fsanitize=alignment",
    "-fsanitize-recover=alignment",
    // C++ gives such shifts no value, and the optimizer relies on it.
    "-fsanitize=shift-exponent",
    "-fno-sanitize-recover=shift-exponent",
    "-mllvm",
    "-enable-tail-merge=false",
    "-fno-vectorize",
    "-fno-slp-vectorize",
    "-mllvm",
    "-disable-licm-promotion",
    "-mllvm",
    "-disable-vector-combine",
    "-mllvm",
    "-instcombine-code-sinking=false",
    "-mllvm",
    "-simplifycfg-sink-common=false",
    "-mllvm",
    "-simplifycfg-hoist-common=false",
    "-mllvm",
    "-simplifycfg-merge-cond-stores=false",
    "-mllvm",
    "-tsan-instrument-func-entry-exit=0",
    "-mllvm",
    "-tsan-instrument-read-before-write=1",
    "-mllvm",
    "-tsan-instrument-atomics=0",
];

/// What `-O3` adds to `-O2` must not make two barriers of one, each on a path of its own: a call that is split for its
/// arguments takes along what stands before it, and so does a block that is copied to its ends.
const UNSPLIT: &[&str] = &[
    "-mllvm",
    "-callsite-splitting-duplication-threshold=0",
    "-mllvm",
    "-tail-dup-placement-aggressive-threshold=2",
];

/// For speed. A processor's vectors and conversions change no bits: no sum is reordered, no product contracted.
fn unchecked() -> &'static [&'static str] {
    #[cfg(target_arch = "x86_64")]
    {
        let has = [
            std::arch::is_x86_feature_detected!("avx2"),
            std::arch::is_x86_feature_detected!("bmi1"),
            std::arch::is_x86_feature_detected!("bmi2"),
            std::arch::is_x86_feature_detected!("f16c"),
            std::arch::is_x86_feature_detected!("fma"),
            std::arch::is_x86_feature_detected!("lzcnt"),
            std::arch::is_x86_feature_detected!("movbe"),
        ];
        if has.iter().all(|has| *has) {
            return &["-O3", "-march=x86-64-v3"];
        }
    }
    &["-O3"]
}

impl Compiler {
    /// Compiles C++ from the front end to a shared object.
    pub(crate) fn compile(&self, unit: &str, build: Build) -> Result<Product, CompileError> {
        let options = match build {
            Build::Checked => [COMMON, CHECKED].concat(),
            Build::Unchecked => [COMMON, UNSPLIT, unchecked()].concat(),
        };
        let cached = match &self.cache {
            Some(folder) => Some(folder.join(self.key(unit, &options)?)),
            None => None,
        };
        if let Some(path) = cached.as_ref().filter(|path| path.exists()) {
            let path = path.clone();
            return Ok(Product {
                path,
                _folder: None,
            });
        }
        let folder =
            tempfile::tempdir().map_err(|error| file_error(&std::env::temp_dir(), error))?;
        let built = self.build(folder.path(), unit, &options)?;
        match cached {
            Some(path) => keep(&built, path),
            None => Ok(Product {
                path: built,
                _folder: Some(folder),
            }),
        }
    }

    fn build(&self, folder: &Path, unit: &str, options: &[&str]) -> Result<PathBuf, CompileError> {
        for (name, text) in shim::HEADERS {
            write(&folder.join(name), text)?;
        }
        write(&folder.join("runtime.cpp"), shim::RUNTIME)?;
        write(&folder.join("unit.cpp"), unit)?;
        self.run(folder, &[options, &["-I.", "-c", "unit.cpp"]].concat())?;
        // A function that forwards a call jumps: its return address was taken before.
        let forward = [
            "-I.",
            "-g0",
            "-foptimize-sibling-calls",
            "-c",
            "runtime.cpp",
        ];
        self.run(folder, &[COMMON, &forward].concat())?;
        let product = "library.so";
        self.run(
            folder,
            // Symbols are bound at once: an interruption finds no loader at work.
            &[
                "-shared",
                "-Wl,-z,now",
                "-o",
                product,
                "unit.o",
                "runtime.o",
                "-lm",
            ],
        )?;
        Ok(folder.join(product))
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Result<String, CompileError> {
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(folder)
            .output();
        let output = output.map_err(|error| CompileError::NoCompiler {
            program: self.program.clone(),
            error,
        })?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let messages = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(CompileError::Rejected(messages))
    }

    /// What the compiler says about itself, asked once in the process. Products depend on it, so that a full cache
    /// does not stand for a compiler.
    fn version(&self) -> Result<String, CompileError> {
        static KNOWN: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());
        // The map is whole between statements.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known.get(&self.program) {
            return Ok(version.clone());
        }
        let version = self.run(Path::new("."), &["--version"])?;
        known.insert(self.program.clone(), version.clone());
        Ok(version)
    }

    /// A file name that changes with everything the product depends on.
    fn key(&self, unit: &str, options: &[&str]) -> Result<String, CompileError> {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        add(&self.version()?);
        options.iter().for_each(|option| add(option));
        for (name, text) in shim::HEADERS {
            add(name);
            add(text);
        }
        add(shim::RUNTIME);
        add(unit);
        let mut name = String::new();
        for byte in hash.finalize() {
            // Writing to a string does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        Ok(name + ".so")
    }
}

/// Moves a product into the cache, in one step: others may be doing the same.
fn keep(built: &Path, path: PathBuf) -> Result<Product, CompileError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
    let mut staged =
        tempfile::NamedTempFile::new_in(folder).map_err(|error| file_error(folder, error))?;
    let mut from = fs::File::open(built).map_err(|error| file_error(built, error))?;
    io::copy(&mut from, &mut staged).map_err(|error| file_error(&path, error))?;
    staged
        .persist(&path)
        .map_err(|failed| file_error(&path, failed.error))?;
    Ok(Product {
        path,
        _folder: None,
    })
}

fn write(path: &Path, text: &str) -> Result<(), CompileError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| file_error(folder, error))?;
    }
    fs::write(path, text).map_err(|error| file_error(path, error))
}

fn file_error(path: &Path, error: io::Error) -> CompileError {
    CompileError::File {
        path: path.to_owned(),
        error,
    }
}
