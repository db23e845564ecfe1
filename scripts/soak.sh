#!/usr/bin/env bash
# Replays many times: runs programs whose output differs from run to run, records each once, and
# replays it; every replay must print what the recorded run printed, bit for bit.
#
#   scripts/soak.sh [--load] [--method clock] [--times N] [--ranks "4 8 16 32"]
#                   [--programs "master paths …"] [MPI…]
#
# With --load a busy loop runs on each core meanwhile. Prints a line for each program, and fails if
# the output does not differ in 10 plain runs, or if a replay differs from its record.
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
refrain=${REFRAIN:-$root/target/release/refrain}
times=20 ranks="4 8 16 32" load='' method=causal mpis=()
programs="montecarlo master waitany iprobe paths fortran threads locks"
while (($# > 0)); do
    case $1 in
    --load) load=yes ;;
    --method) method=$2 && shift ;;
    --times) times=$2 && shift ;;
    --ranks) ranks=$2 && shift ;;
    --programs) programs=$2 && shift ;;
    *) mpis+=("$1") ;;
    esac
    shift
done
((${#mpis[@]})) || mapfile -t mpis < <("$root/scripts/mpi" --list | grep -E '^(mpich-4.0|openmpi-4.1|path)$')

work=$(mktemp -d)
busy=()
trap '((${#busy[@]} == 0)) || kill "${busy[@]}"; rm -rf "$work"' EXIT
if [[ -n $load ]]; then
    for _ in $(seq "$(nproc)"); do
        while :; do :; done &
        busy+=($!)
    done
fi

# The arguments of a program: large enough that its output differs, and small enough to be fast.
arguments() {
    case $1 in
    montecarlo) echo 1000 ;;
    master) echo 500 ;;
    waitany) echo 20 ;;
    iprobe) echo 100 ;;
    paths) echo all 3 ;;
    threads) echo 20 ;;
    locks) echo mutex 20 ;;
    esac
}

run() { timeout 120 "$root/scripts/mpi" "$mpi" "$@" 2>>"$work/said" | LC_ALL=C sort; }

failures=0
for mpi in "${mpis[@]}"; do
    for program in $programs; do
        source=$(echo "$root/tests/victims/order_$program".*)
        compiler=mpicc && [[ $source == *.c ]] || compiler=mpifort
        if ! "$root/scripts/mpi" "$mpi" $compiler -O2 -w -pthread -o "$work/order_$program" "$source" -lm; then
            echo "$mpi: cannot compile $source"
            failures=$((failures + 1))
            continue
        fi
        read -ra given < <(arguments "$program") || true
        for n in $ranks; do
            command=(mpirun -n "$n" "$work/order_$program" "${given[@]}")
            : >"$work/said"
            distinct=$(for _ in $(seq 10); do run "${command[@]}" | md5sum; done | sort -u | wc -l)
            record=$work/run.refrain
            run "$refrain" record --method "$method" -o "$record" -- "${command[@]}" >"$work/recorded"
            same=0
            for _ in $(seq "$times"); do
                run "$refrain" replay "$record" -- "${command[@]}" >"$work/replayed" || true
                if [[ -s $work/recorded ]] && cmp -s "$work/recorded" "$work/replayed"; then
                    same=$((same + 1))
                fi
            done
            verdict=ok
            if ((same < times || distinct < 2)); then
                verdict=FAILED
                failures=$((failures + 1))
                cp "$work/said" "${SOAK_LOG:-/dev/null}" 2>/dev/null || true
            fi
            echo "$mpi $program $n ranks by $method${load:+ under load}: $distinct of 10 plain runs differ," \
                "$same of $times replays are the same: $verdict"
        done
    done
done
((failures == 0)) || { echo "$failures failed" >&2 && exit 1; }
