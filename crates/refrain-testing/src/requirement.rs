//! Requirements of tests that a machine may lack: an MPI, a real program, the permission to mount.
//!
//! A test that lacks something must not pass in silence. `scripts/setup.sh` lists what it found or
//! installed in `target/installed.txt`. If a listed thing is missing, the test fails. If it is not
//! listed, the test is skipped: it prints why, and adds a line to `target/skipped-tests.txt`, which
//! `make test` counts and prints in the end.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{Mpi, is_full, workspace};

/// The MPI of this name, or `None` after the test was counted as skipped.
///
/// # Panics
///
/// When the set-up lists it and it is not there.
#[track_caller]
pub fn require_mpi(name: &str) -> Option<Mpi> {
    require(name, Mpi::named(name))
}

/// The program of this name on the `PATH`, or `None` after the test was counted as skipped.
///
/// # Panics
///
/// When the set-up lists it and it is not there.
#[track_caller]
pub fn require_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    require(name, found)
}

/// A file or a folder that comes with something, or `None` after the test was counted as skipped.
///
/// # Panics
///
/// When the set-up lists the thing and the path does not exist.
#[track_caller]
pub fn require_path(thing: &str, path: impl Into<PathBuf>) -> Option<PathBuf> {
    let path = path.into();
    require(thing, path.exists().then_some(path))
}

/// What was found, or `None` after the test was counted as skipped.
///
/// # Panics
///
/// When the set-up lists the thing and it was not found.
#[track_caller]
pub fn require<T>(thing: &str, found: Option<T>) -> Option<T> {
    if found.is_none() {
        assert!(
            !is_listed(thing),
            "{thing} is missing, but target/installed.txt lists it: run `make setup`"
        );
        skip(&format!("there is no {thing} here"));
    }
    found
}

/// Whether the long tests were asked for. If not, the test is counted as skipped.
pub fn require_full() -> bool {
    if !is_full() {
        skip("`make test-full` runs it");
    }
    is_full()
}

/// Counts the test, or a part of it, as skipped, and prints the reason.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    let list = workspace().join("target/skipped-tests.txt");
    let file = OpenOptions::new().create(true).append(true).open(&list);
    // In one write, so that lines of tests that run in parallel do not mix.
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("cannot write {}: {error}", list.display()));
}

/// Whether the set-up lists something as found or installed.
fn is_listed(thing: &str) -> bool {
    lists(&workspace().join("target/installed.txt"), thing)
}

fn lists(file: &Path, thing: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|list| list.lines().any(|line| line == thing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_listed_by_its_whole_name() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("installed.txt");
        assert!(!lists(&list, "mpich-5.0"), "without a list nothing is required");
        fs::write(&list, "mpich-5.0-abi\nlmp\n").unwrap();
        assert!(lists(&list, "lmp") && lists(&list, "mpich-5.0-abi"));
        assert!(!lists(&list, "mpich-5.0"));
    }

    #[test]
    fn a_requirement_that_is_met_skips_nothing() {
        assert_eq!(require("anything", Some(7)), Some(7));
    }
}
