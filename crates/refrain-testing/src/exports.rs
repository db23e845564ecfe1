//! The functions that an MPI library exports.

use crate::Mpi;
use std::collections::BTreeSet;
use std::process::Command;

/// Whether an exported name is that of a procedure. Predefined callbacks (`MPI_DUP_FN` …) are
/// written in capitals.
pub fn is_procedure(name: &str) -> bool {
    name.trim_start_matches("MPI_").chars().any(|c| c.is_ascii_lowercase())
}

/// The `MPI_` functions that the library behind a compiled program exports.
///
/// # Panics
///
/// When the library cannot be found or read.
pub fn exported_functions(mpi: &Mpi) -> BTreeSet<String> {
    let program = mpi.compile("hello.c");
    let ldd = mpi.command("ldd").arg(program).output().expect("ldd runs");
    let ldd = String::from_utf8_lossy(&ldd.stdout).into_owned();
    let library = ldd
        .lines()
        .filter(|line| line.trim_start().starts_with("libmpi"))
        .find_map(|line| line.split_whitespace().nth(2))
        .unwrap_or_else(|| panic!("{}: no libmpi in\n{ldd}", mpi.name()));
    let nm = Command::new("nm").args(["-D", "--defined-only", library]).output().expect("nm runs");
    String::from_utf8_lossy(&nm.stdout)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (kind, name) = (words.next()?, words.next()?);
            let name = name.split('@').next()?;
            ("TW".contains(kind) && name.starts_with("MPI_")).then(|| name.to_owned())
        })
        .filter(|name| is_procedure(name))
        .collect()
}
