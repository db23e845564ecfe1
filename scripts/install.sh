#!/usr/bin/env bash
# scripts/install.sh PREFIX installs what `make build` has built to PREFIX/bin and PREFIX/lib.
#
# Symbols and line tables are not installed: they are two thirds of the files, and Refrain does not need
# them. Exported names are kept.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

prefix=${1:?usage: scripts/install.sh PREFIX}
release=target/release

put() {
    local file=$1 folder=$2
    install -D -m 755 "$file" "$folder/${file##*/}"
    strip --strip-unneeded "$folder/${file##*/}"
    echo "$folder/${file##*/}: $(stat -c %s "$folder/${file##*/}") bytes"
}

put "$release/refrain" "$prefix/bin"
put "$release/librefrain_agent.so" "$prefix/lib"
put "$release/librefrain_compiled.so" "$prefix/lib"
# DynamoRIO needs its own symbols, and is already stripped as far as possible.
for library in target/dynamorio/lib*.so; do
    [[ ! -e $library ]] || install -D -m 755 "$library" "$prefix/lib/${library##*/}"
done
