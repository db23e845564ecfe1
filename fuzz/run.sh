#!/usr/bin/env bash
# Fuzzes the readers with libFuzzer, on the stable toolchain; see README.md.
#
#   fuzz/run.sh                   each target for FUZZ_SECONDS seconds (60)
#   fuzz/run.sh TARGET            one of them
#   fuzz/run.sh TARGET FILE...    runs inputs again
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

host=$(rustc -vV | sed -n 's/^host: //p')
home=${CARGO_TARGET_DIR:-$PWD/target}
# What `cargo fuzz` passes, without a sanitizer.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"

targets=(container structure grammar columns state memory orders clocks times rings)
if (($#)); then targets=("$1"); shift; fi
build() { CARGO_TARGET_DIR=$home cargo build --release --quiet "$@"; }

build --bin seeds
# With --target, cargo does not apply the flags to build scripts and macros.
RUSTFLAGS=$coverage build --target "$host" "${targets[@]/#/--bin=}"
"$home/release/seeds"
for target in "${targets[@]}"; do
    mkdir -p "artifacts/$target"
    limits=(-rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=20 "-artifact_prefix=artifacts/$target/")
    if (($#)); then
        "$home/$host/release/$target" "${limits[@]}" "$@"
        continue
    fi
    log=artifacts/$target.log
    echo "fuzz: $target for ${FUZZ_SECONDS:-60} s"
    if ! "$home/$host/release/$target" "${limits[@]}" -max_total_time="${FUZZ_SECONDS:-60}" \
        -print_final_stats=1 "corpus/$target" &>"$log"; then
        tail -n 30 "$log" >&2
        echo "fuzz: $target fails; its log is fuzz/$log" >&2
        exit 1
    fi
    sed -n 's/^Done \(.*\) runs in .*/fuzz: '"$target"': \1 inputs, no failure/p' "$log"
done
