#!/usr/bin/env bash
# Type-checks and lints the Apple device of minfer-metal, the tests that run on it and the engine that opens it, on a
# machine that is not Apple's. Nothing is linked or run.
#
# objc2-metal compiles elsewhere but for its `#[link(kind = "framework")]`, which rustc refuses off Apple. A copy
# without that attribute stands in for it, in a workspace of symbolic links under target/, so that neither the
# repository's Cargo.lock nor its build is touched. Where Rust's standard library for Apple silicon is installed
# (`rustup target add aarch64-apple-darwin`), the same is checked for that target, with nothing replaced.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
if [ "$(uname)" = Darwin ]; then
    echo "check_apple: nothing to do, here every build has the Apple device"
    exit 0
fi
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/check-apple"
check=$(cd "$target/check-apple" && pwd)
export CARGO_TARGET_DIR=$check/target
lint=(cargo clippy --quiet --package minfer-metal --lib)
lint_engine=(cargo clippy --quiet --package minfer-engine --lib)

fail() {
    echo "check_apple: $1" >&2
    exit 1
}

# Downloads what the lock file names, and says where.
metadata=$(cargo metadata --format-version 1 --locked --filter-platform aarch64-apple-darwin)
manifest=$(grep -o '"[^"]*/objc2-metal-[0-9.]*/Cargo.toml"' <<<"$metadata" | sort -u | tr -d '"') ||
    fail "objc2-metal is not among the dependencies"
[ -f "$manifest" ] || fail "there are several of objc2-metal: $manifest"

workspace=$check/workspace
rm -rf "$workspace"
mkdir -p "$workspace"
cp -R "$(dirname "$manifest")" "$workspace/objc2-metal"
chmod -R u+w "$workspace/objc2-metal"
attribute='^#\[link(name = "[A-Za-z]*", kind = "framework")\]$'
sources=$(grep -rl "$attribute" "$workspace/objc2-metal/src") || fail "$manifest links no framework: is a copy needed?"
while read -r source; do
    grep -v "$attribute" "$source" >"$source.unlinked"
    mv "$source.unlinked" "$source"
done <<<"$sources"

ln -s "$root/crates" "$workspace/crates"
cp Cargo.lock "$workspace/Cargo.lock"
{
    cat Cargo.toml
    printf '\n[patch.crates-io]\nobjc2-metal = { path = "objc2-metal" }\n'
} >"$workspace/Cargo.toml"

# A target that is named keeps the flag from macros and build scripts, which both checks then share.
host=$(rustc -vV | sed -n 's/^host: //p')
(
    cd "$workspace"
    export RUSTFLAGS="--cfg minfer_check_apple"
    "${lint[@]}" --test device --test backend --example replay --target "$host" -- -D warnings
    "${lint_engine[@]}" --target "$host" -- -D warnings
)
echo "check_apple: the Apple device, the tests that run on it and the replay pass clippy against $(basename "$(dirname "$manifest")") without its link attribute"

apple=aarch64-apple-darwin
if [ -d "$(rustc --print sysroot)/lib/rustlib/$apple/lib" ]; then
    # Without the tests: a dependency of the benchmarks compiles C, for which this machine has no Apple headers.
    "${lint[@]}" --locked --target "$apple" -- -D warnings
    "${lint_engine[@]}" --locked --target "$apple" -- -D warnings
    echo "check_apple: the device passes for $apple too, with nothing replaced"
fi
