#!/usr/bin/env bash
# `make test`: sets up, builds, lints and tests, and prints the times of the phases and of the slowest tests.
#
# Leaves target/test-times.txt (the phases), target/nextest/*/junit.xml (each test),
# target/launches.tsv (each job) and target/skipped-tests.txt (each skip).
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

times=target/test-times.txt
junit=target/nextest/*/junit.xml
launches=target/launches.tsv
skipped=target/skipped-tests.txt
# A fresh clone is built only once, so incremental compilation is not worth its cost.
[[ -d target/debug ]] || export CARGO_INCREMENTAL=0
mkdir -p target
rm -f "$times" $junit "$launches" "$skipped"

# phase NAME COMMAND… runs a command, and notes its time and the processor time it took.
phase() {
    local name=$1 code=0 spent
    shift
    local TIMEFORMAT='%R %U %S'
    echo "== $name"
    # The command keeps its outputs; what `time` says goes to the file.
    { time "$@" >&3 2>&4; } 3>&1 4>&2 2>"$times.new" || code=$?
    spent=$(awk 'END { printf "%6.0f s %6.0f s of processor time", $1, $2 + $3 }' "$times.new")
    rm -f "$times.new"
    printf '%-14s %s\n' "$name" "$spent" >>"$times"
    return "$code"
}

# The packages whose tests start jobs, which take turns and leave the cores partly idle.
jobs=(refrain refrain-testing refrain-mpi refrain-mpilib)
packages=() others=(--workspace)
for package in "${jobs[@]}"; do
    packages+=(-p "$package")
    others+=(--exclude "$package")
done

# nextest runs each test as a process and writes its time. Without nextest there is no list of times.
# It runs the tests from a list of programs: `cargo` would wait for the builds that run at the same time.
if cargo nextest --version >/dev/null 2>&1; then
    metadata=target/cargo-metadata.json
    # build_tests NAME PACKAGES… builds the test programs of packages.
    build_tests() {
        cargo nextest list "${@:2}" --list-type binaries-only --message-format json >"target/$1-programs.json" &&
            cargo metadata --format-version 1 --locked \
                --filter-platform "$(rustc -vV | sed -n "s/^host: //p")" >"$metadata"
    }
    run_tests() {
        cargo nextest run --profile "$1" --binaries-metadata "target/$1-programs.json" --cargo-metadata "$metadata"
    }
else
    build_tests() { cargo test "${@:2}" --no-run; }
    run_tests() {
        if [[ $1 == jobs ]]; then cargo test "${packages[@]}"; else cargo test "${others[@]}"; fi
    }
fi

# Builds and runs the tests that only compute, and lints.
test_others() {
    local code=0
    build_tests computing "${others[@]}" && run_tests computing || code=$?
    "${MAKE:-make}" --no-print-directory lint || code=$?
    return "$code"
}

# All of that takes what the jobs leave of the cores. It prints when the jobs have ended.
test_and_lint() {
    local other code=0
    renice -n 19 $BASHPID >/dev/null && test_others >target/other-tests.log 2>&1 &
    other=$!
    run_tests jobs || code=$?
    wait "$other" || code=$?
    cat target/other-tests.log
    return "$code"
}

# The release is built while packages are fetched and compiled, if there is a C compiler for it.
setup_and_build() {
    local setup
    if ! command -v cc >/dev/null; then
        scripts/setup.sh test && "${MAKE:-make}" --no-print-directory build
        return
    fi
    scripts/setup.sh test &
    setup=$!
    # Wait for both, even if one fails.
    "${MAKE:-make}" --no-print-directory build && wait "$setup" || {
        wait "$setup" || true
        return 1
    }
}

summary() {
    local code=$?
    echo
    if compgen -G "$junit" >/dev/null; then
        echo "slowest tests:"
        grep -oh '<testcase name="[^"]*" classname="[^"]*"[^>]* time="[^"]*"' $junit |
            sed 's/<testcase name="\([^"]*\)" classname="\([^"]*\)".* time="\([^"]*\)"/\3 \2 \1/' |
            sort -rn | awk 'NR <= 15 { printf "%8.1f s  %s %s\n", $1, $2, $3 }'
    fi
    if [[ -e $launches ]]; then
        awk -F '\t' '{ ran += $5; waited += $4 }
            END { printf "%d jobs ran %.0f s, and waited %.0f s for each other\n", NR, ran / 1000, waited / 1000 }' \
            "$launches"
    fi
    if [[ -e $skipped ]]; then
        sort "$skipped" | uniq | sed 's/^/skipped: /'
    fi
    echo "skipped: $(if [[ -e $skipped ]]; then sort "$skipped" | uniq | wc -l; else echo 0; fi)"
    [[ ! -e $times ]] || cat "$times"
    return "$code"
}
trap summary EXIT

phase 'setup, release' setup_and_build
phase 'build of jobs' build_tests jobs "${packages[@]}"
phase 'tests, lint' test_and_lint
phase 'doc tests' cargo test --workspace --doc --quiet
