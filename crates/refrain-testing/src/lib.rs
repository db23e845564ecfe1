//! The harness of Refrain's integration tests.
//!
//! A test asks which MPIs this machine has, compiles one of the programs in `tests/victims`
//! for each, runs it, plain or traced, and checks its output:
//!
//! ```no_run
//! use std::path::Path;
//! use refrain_testing::{Mpi, sorted_lines};
//!
//! for mpi in Mpi::installed() {
//!     let hello = mpi.compile("hello.c");
//!     let plain = mpi.run(2).program(&hello).output().expect_success();
//!     let traced = mpi
//!         .run(2)
//!         .program(&hello)
//!         .trace_to(Some(Path::new("hello.refrain")))
//!         .output()
//!         .expect_success();
//!     assert_eq!(sorted_lines(&plain.stdout), sorted_lines(&traced.stdout));
//! }
//! ```
//!
//! `scripts/mpi` knows how each MPI is started (as root, in a container, with more ranks than cores);
//! all jobs are started with it. Jobs take turns, however many tests run in parallel: ranks that share their
//! cores with many ranks of other jobs are extremely slow.

#[cfg(feature = "records")]
pub mod program;
pub mod random;
#[cfg(feature = "records")]
pub mod records;
#[cfg(feature = "samples")]
pub mod sample;
#[cfg(feature = "samples")]
pub mod walk;

pub mod built;

mod exports;
mod job;
mod mpi;
mod outcome;
mod plain_runs;
mod requirement;
mod run;
mod small_file_system;
mod turn;

pub use exports::{exported_functions, is_procedure};
pub use mpi::{Family, Mpi};
pub use outcome::{Outcome, sorted_lines};
pub use requirement::{require, require_full, require_mpi, require_path, require_program, skip};
pub use run::Run;
pub use small_file_system::SmallFileSystem;
pub use turn::{Turn, turn};

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a command may run unless [`Run::timeout`] says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether the long tests were asked for: `REFRAIN_TEST_FULL=1`, as `make test-full` sets it.
pub fn is_full() -> bool {
    env::var_os("REFRAIN_TEST_FULL").is_some_and(|value| value == "1")
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    // Two levels above this crate, whose path is known at compile time.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("crates/refrain-testing is two levels deep")
}

/// The `refrain` binary under test: `REFRAIN_BIN`, or the workspace's release build.
///
/// # Panics
///
/// When it has not been built.
pub fn refrain_binary() -> PathBuf {
    let binary = match env::var_os("REFRAIN_BIN") {
        Some(binary) => PathBuf::from(binary),
        None => workspace().join("target/release/refrain"),
    };
    assert!(
        binary.is_file(),
        "there is no {}: run `make build`, or set REFRAIN_BIN",
        binary.display()
    );
    binary
}

/// Runs `refrain` with these arguments, outside any MPI.
pub fn refrain<I, S>(args: I) -> Outcome
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    job::execute(Command::new(refrain_binary()).args(args), DEFAULT_TIMEOUT)
}
