#!/usr/bin/env bash
# Everything the project promises, from a fresh clone: format, lints, build, models, tests, docs.
# Needs Rust, gcc, Python 3 with pip, and package registries for crates and PyPI; on Linux also clang 19 for the Metal
# kernels, which it installs where it is missing and apt is there.
set -euo pipefail
cd "$(dirname "$0")"

step() { printf '\n== %s (%d s)\n' "$1" "$SECONDS"; }

step "clang"
if [ "$(uname)" = Linux ] && ! command -v clang++-19 >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "clang++-19 is missing, and there is no apt-get to install it" >&2
        exit 1
    fi
    sudo=$([ "$(id -u)" -eq 0 ] || echo sudo)
    $sudo apt-get update -q
    $sudo apt-get install -qy --no-install-recommends clang-19
fi

step "format"
cargo fmt --all --check

step "lints"
cargo clippy --workspace --all-targets --features minfer/softmetal --locked -- -D warnings

step "Apple device"
scripts/check_apple.sh

step "build"
cargo build --release --locked
dependencies=$(cargo tree --locked -p minfer -e normal,build --prefix none)
if grep '^minfer-softmetal' <<<"$dependencies"; then
    echo "the binary depends on the software Metal device without being told to" >&2
    exit 1
fi
if refusal=$(target/release/minfer metal lint 2>&1) || ! grep -q "built without" <<<"$refusal"; then
    echo "\`minfer metal\` without the device does not say so: $refusal" >&2
    exit 1
fi

step "models"
for model in smollm2 qwen2.5-coder:0.5b; do
    target/release/minfer pull "$model"
done

step "tests"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --workspace --features minfer/softmetal --locked --no-fail-fast 2>&1 | tee "$log" || status=$?

step "docs"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

step "done"
awk '/^test result:/ { passed += $4; failed += $6 }
     END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
