#!/usr/bin/env bash
# Everything the project promises, from a fresh clone: format, lints, build, models, tests, docs.
# Needs Rust, gcc, Python 3 with pip, and package registries for crates and PyPI; on Linux also clang 19 for the Metal
# kernels, which it installs where it is missing and apt is there.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

step "clang"
if ! command -v clang++-19 >/dev/null && command -v apt-get >/dev/null; then
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -q
    $sudo apt-get install -qy --no-install-recommends clang-19
fi

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --locked -- -D warnings

step "Apple device"
scripts/check_apple.sh

step "build"
cargo build --release --locked

step "models"
for model in smollm2 qwen2.5-coder:0.5b; do
    target/release/minfer pull "$model"
done

step "tests"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --workspace --locked --no-fail-fast 2>&1 | tee "$log" || status=$?

step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

step "done"
awk '/^test result:/ { passed += $4; failed += $6 }
     END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
