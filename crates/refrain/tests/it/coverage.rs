//! Nearly every function of MPI, called under the agent: results are the same as without it, and functions
//! that are not called are listed.

use refrain_mpi::interface::is_wrapped;
use refrain_testing::{Mpi, exported_functions, refrain, require_full, require_mpi};
use std::collections::BTreeSet;
use std::path::Path;

/// The victims that call functions area by area, with the ranks they are written for.
const VICTIMS: [(&str, usize); 16] = [
    ("coverage_point_to_point.c", 2),
    ("coverage_completion.c", 2),
    ("coverage_collectives.c", 3),
    ("coverage_neighbors.c", 3),
    ("coverage_communicators.c", 4),
    ("coverage_datatypes.c", 2),
    ("coverage_windows.c", 2),
    ("coverage_files.c", 2),
    ("coverage_objects.c", 2),
    ("coverage_removed.c", 2),
    ("coverage_errors.c", 2),
    ("coverage_environment.c", 2),
    ("coverage_tools.c", 2),
    ("coverage_sessions.c", 2),
    ("coverage_processes.c", 2),
    ("coverage_spawn.c", 2),
];

/// The part of an MPI's functions that must be called, in percent.
const REQUIRED: usize = 95;

/// The names of the functions in a trace.
fn functions_in(trace: &Path) -> BTreeSet<String> {
    let stats = refrain(["stats".as_ref(), trace.as_os_str()]).expect_success();
    let names = stats.stdout.lines().filter_map(|l| l.split_whitespace().next());
    names.filter(|name| name.starts_with("MPI_")).map(str::to_owned).collect()
}

/// Runs all victims with and without the agent. Returns the recorded functions.
fn functions_seen(mpi: &Mpi) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = BTreeSet::new();
    for (victim, ranks) in VICTIMS {
        let trace = folder.path().join(format!("{victim}.refrain"));
        let program = mpi.compile(victim);
        let run = |trace: Option<&Path>| {
            mpi.run(ranks).program(&program).current_dir(folder.path()).trace_to(trace).output()
        };
        let (plain, traced) = (run(None), run(Some(&trace)));
        assert!(plain.stdout.lines().count() > 3, "{}, {victim}: {plain}", mpi.name());
        assert_eq!(plain.code, traced.code, "{}, {victim}: {traced}", mpi.name());
        assert_eq!(plain.stdout, traced.stdout, "{}, {victim}", mpi.name());
        seen.extend(functions_in(&trace));
    }
    seen
}

fn assert_covered(mpi: &Mpi) {
    let countable: BTreeSet<_> =
        exported_functions(mpi).into_iter().filter(|name| is_wrapped(name)).collect();
    let seen = functions_seen(mpi);
    let missing: Vec<_> = countable.difference(&seen).collect();
    let covered = countable.len() - missing.len();
    println!(
        "{}: {covered} of {} functions called under the agent; not called: {missing:?}",
        mpi.name(),
        countable.len()
    );
    assert!(
        covered * 100 >= countable.len() * REQUIRED,
        "{}: only {covered} of {}; not called: {missing:?}",
        mpi.name(),
        countable.len()
    );
}

#[test]
fn nearly_every_function_of_debian_s_mpich_is_called_with_the_same_results() {
    if let Some(mpi) = require_mpi("mpich-4.0") {
        assert_covered(&mpi);
    }
}

#[test]
fn nearly_every_function_of_every_other_mpi_is_called_with_the_same_results() {
    if !require_full() {
        return;
    }
    for mpi in Mpi::installed().iter().filter(|mpi| mpi.name() != "mpich-4.0") {
        assert_covered(mpi);
    }
}
