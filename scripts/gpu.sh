#!/usr/bin/env bash
# Checks on a machine with an NVIDIA GPU that `show` names buffers in its memory. Needs nvcc, an
# mpicc on the PATH, and a built Refrain; `make gpu` calls it.
#
#   scripts/gpu.sh [refrain]     the command to check [target/release/refrain]
set -euo pipefail

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
refrain=$(realpath "${1:-$root/target/release/refrain}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cuda=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
mpicc -g -I"$cuda/include" "$root/tests/gpu/cuda_buffers.c" -o "$work/buffers" \
    -L"$cuda/lib64" -Wl,-rpath,"$cuda/lib64" -lcudart
cd "$work"
"$work/buffers"
"$refrain" trace --raw -o t.refrain -- "$work/buffers"
"$refrain" verify t.refrain
"$refrain" trace -o t.refrain -- "$work/buffers"

# The memory that each tag's buffer must be in.
expected=('1 gpu0\.[0-9]+\+0x40' '2 gpu0\.[0-9]+\+0x80' '3 managed[0-9]+\+0x10' '4 pinned[0-9]+\+0x20'
    '5 gpu0\.[0-9]+\+0x30' '6 gpu0\.[0-9]+\+0x50' '7 gpu0\.[0-9]+(\+0x0)?')
shown=$("$refrain" show t.refrain --function Sendrecv)
echo "$shown"
for line in "${expected[@]}"; do
    read -r tag place <<<"$line"
    grep -Eq "sendbuf=$place, .*sendtag=$tag," <<<"$shown" ||
        { echo "the buffer of tag $tag is not shown as $place" >&2; exit 1; }
done
echo "all buffers in GPU memory are named"
