#!/usr/bin/env bash
# Tries the queue of the clock encoder under every order of memory accesses (the loom model checker).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# A folder of its own: the flag is one of the compiler's, and would build everything anew.
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p refrain-order --test it clock_queue_loom "$@"
