#!/usr/bin/env bash
# Tries the queue of the clock encoder under every order of memory accesses (the loom model checker).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
# In a separate folder: the compiler flag would otherwise cause everything to be rebuilt.
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom" \
    cargo test --release -p refrain-order --test it clock_queue_loom "$@"
