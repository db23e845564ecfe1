#!/usr/bin/env bash
# Traces a 2-D stencil on 4 ranks, and shows the trace.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

read -r mpi < <(scripts/mpi --list)
demo=$PWD/target/demo
rm -rf "$demo"
mkdir -p "$demo"
scripts/mpi "$mpi" mpicc -O2 -w -o "$demo/stencil2d" examples/stencil2d.c -lm
PATH=$PWD/target/release:$PATH
cd "$demo"

# Prints a command as a user would type it, then runs it.
try() {
    echo
    echo "\$ $*"
    "$PWD/../../scripts/mpi" "$mpi" "$@"
}

echo "The MPI is $mpi."
try refrain trace -- mpirun -n 4 ./stencil2d
try refrain stats stencil2d.refrain
try refrain show stencil2d.refrain --structure
try refrain show stencil2d.refrain --rank 3 --limit 12
echo
echo "The trace is target/demo/stencil2d.refrain; \`target/release/refrain --help\` lists all commands."
