#!/usr/bin/env bash
# Builds what `refrain mem` needs for unmodified programs, to target/dynamorio: DynamoRIO, whose
# source cargo fetches with the crate dynamorio-sys, and our client of it (dynamorio/client).
# Prints nothing if everything is built. DynamoRIO takes a minute, once; the client two seconds.
set -euo pipefail

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
home=$PWD/target/dynamorio
build=$home/build
# Without annotations: with them, programs that ask whether they run under Valgrind get the answer yes.
settings=(-DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2
    -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -DANNOTATIONS=NO -DBUILD_CLIENTS=NO -DBUILD_DOCS=NO
    -DBUILD_SAMPLES=NO -DBUILD_TESTS=NO -DBUILD_TOOLS=NO -DBUILD_DRSTATS=NO)
targets=(dynamorio drmgr_static drreg_static drutil_static drwrap_static)
extensions=(drwrap drutil drreg drmgr)

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

# Runs a command, and prints its output only if it fails.
quietly() {
    "$@" >"$home/log" 2>&1 </dev/null || {
        tail -n 20 "$home/log" >&2
        return 1
    }
}

# The folder of the source that cargo has fetched.
source_of_dynamorio() {
    local manifest=dynamorio/Cargo.toml platform=x86_64-unknown-linux-gnu
    cargo fetch --quiet --locked --target "$platform" --manifest-path "$manifest" >&2
    cargo metadata --quiet --locked --offline --format-version 1 --filter-platform "$platform" \
        --manifest-path "$manifest" |
        grep -o '"manifest_path":"[^"]*/dynamorio-sys-[^"]*/Cargo.toml"' |
        sed 's/^"manifest_path":"//; s/Cargo.toml"$/dynamorio/'
}

build_dynamorio() {
    local source version built
    version=$(grep -A1 'name = "dynamorio-sys"' dynamorio/Cargo.lock | sed -n 's/^version = "\(.*\)"/\1/p')
    built="$version ${settings[*]} ${targets[*]}"
    [[ -e $home/built && $(<"$home/built") == "$built" ]] && return
    for tool in cmake make gcc g++; do
        command -v "$tool" >/dev/null || fail "DynamoRIO cannot be built: there is no $tool here"
    done
    say "building DynamoRIO $version to target/dynamorio (a minute)"
    source=$(source_of_dynamorio)
    [[ -d $source ]] || fail "cargo could not fetch the source of DynamoRIO"
    rm -rf "$build"
    mkdir -p "$build"
    rm -f "$home/built"
    quietly cmake -S "$source" -B "$build" "${settings[@]}"
    quietly make -C "$build" -j "$(nproc)" "${targets[@]}"
    install -m 755 "$build/lib64/release/libdynamorio.so" "$home/libdynamorio.so"
    echo "$built" >"$home/built"
}

# No C library: the client must not share one with the program.
build_client() {
    local client=$home/librefrain_memory_client.so libraries=() extension
    if [[ -e $client && -z $(find dynamorio/client crates/refrain-rings/include scripts/dynamorio.sh \
        "$home/libdynamorio.so" -newer "$client") ]]; then
        return
    fi
    say "building the memory client to target/dynamorio"
    for extension in "${extensions[@]}"; do
        libraries+=("$build/ext/lib64/release/lib${extension}_static.a")
    done
    gcc -std=gnu11 -O2 -g -Wall -Wextra -Wno-unused-parameter \
        -Wno-missing-field-initializers -Werror -fPIC -shared -nostdlib \
        -ffreestanding -fno-tree-loop-distribute-patterns -fno-stack-protector -mgeneral-regs-only \
        -DLINUX -DX86_64 -isystem "$build/include" -isystem "$build/ext/include" \
        -Icrates/refrain-rings/include dynamorio/client/*.c \
        -Wl,-z,now -Wl,--version-script,dynamorio/client/exports.map "${libraries[@]}" \
        "$build/ext/lib64/release/libdrcontainers.a" "$home/libdynamorio.so" -o "$client.new"
    mv "$client.new" "$client"
}

[[ $(uname -sm) == "Linux x86_64" ]] || fail "the DynamoRIO front end is for Linux on x86-64"
mkdir -p "$home"
exec 9>"$home/lock"
flock 9 # one at a time in this checkout
build_dynamorio
build_client
