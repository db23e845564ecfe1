//! The libraries that `make build` makes: their symbols, dependencies and sizes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{refrain_binary, workspace};

/// A library in the folder of the `refrain` under test.
///
/// # Panics
///
/// When it has not been built.
pub fn built_library(name: &str) -> PathBuf {
    let library = refrain_binary().with_file_name(name);
    assert!(library.is_file(), "there is no {}: run `make build`", library.display());
    library
}

/// The crates that a package depends on, by `cargo tree`.
///
/// # Panics
///
/// When `cargo` fails.
pub fn dependencies(package: &str) -> BTreeSet<String> {
    let tree = printed(
        Command::new(env!("CARGO"))
            .args(["tree", "--offline", "-p", package, "-e", "normal", "--prefix", "none"])
            .args(["--target", "x86_64-unknown-linux-gnu", "-f", "{p}"])
            .current_dir(workspace()),
    );
    tree.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// The symbols that a library exports.
///
/// # Panics
///
/// When `nm` cannot read it.
pub fn exported_symbols(library: &Path) -> BTreeSet<String> {
    let nm = printed(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    nm.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect()
}

/// All symbols that a library defines, demangled.
///
/// # Panics
///
/// When `nm` cannot read it.
pub fn defined_symbols(library: &Path) -> Vec<String> {
    let nm = printed(Command::new("nm").args(["-C", "--defined-only"]).arg(library));
    // A line is an address of 16 digits, a letter, and the name.
    nm.lines().filter_map(|line| line.get(19..)).map(str::to_owned).collect()
}

/// The shared libraries that a library is linked to.
///
/// # Panics
///
/// When `readelf` cannot read it.
pub fn needed_libraries(library: &Path) -> BTreeSet<String> {
    let readelf = printed(Command::new("readelf").args(["-d", "-W"]).arg(library));
    let needed = readelf.lines().filter(|line| line.contains("(NEEDED)"));
    needed.filter_map(|line| line.split(['[', ']']).nth(1)).map(str::to_owned).collect()
}

/// The size of a library as `scripts/install.sh` installs it.
///
/// # Panics
///
/// When `strip` fails.
pub fn installed_bytes(library: &Path) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stripped = folder.path().join("stripped");
    printed(Command::new("strip").args(["--strip-unneeded", "-o"]).arg(&stripped).arg(library));
    stripped.metadata().expect("strip has written it").len()
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
