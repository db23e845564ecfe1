//! mpi4py's own test suite: the same tests pass, fail and are skipped with and without the agent, and on one
//! rank every call is decoded as it was recorded.

use refrain_testing::{
    Mpi, refrain, require, require_full, require_mpi, require_path, sorted_lines, workspace,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the set-up puts the suite.
pub fn suite() -> Option<PathBuf> {
    let folder = std::fs::read_dir(workspace().join("target/mpi")).into_iter().flatten().flatten();
    let mut suites = folder.map(|entry| entry.path().join("test/main.py"));
    require("mpi4py", suites.find(|main| main.is_file()))
}

/// An MPI that mpi4py was built for.
pub fn mpi(name: &str) -> Option<Mpi> {
    let folder = std::fs::read_dir(workspace().join("target/mpi")).into_iter().flatten().flatten();
    let mut pythons = folder.map(|entry| entry.path().join(name).join("bin/python3"));
    let thing = format!("mpi4py-{name}");
    require(&thing, pythons.find(|python| python.is_file())).and_then(|_| require_mpi(name))
}

/// Tests that start processes of their own, or that a machine with few cores cannot run.
fn excluded(mpi: &Mpi, ranks: usize) -> Vec<&'static str> {
    let mut modules = vec!["test_spawn", "test_dynproc", "test_util_pool"];
    if mpi.name().starts_with("mpich") && ranks > 1 {
        modules.push("test_util_sync");
    }
    modules
}

/// The verdicts of each test on all ranks, sorted, by name.
fn verdicts(output: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in output.lines() {
        let Some((test, verdict)) = line.rsplit_once(" ... ") else { continue };
        let verdict = verdict.split_whitespace().next().unwrap_or_default();
        all.entry(test.to_owned()).or_default().push(verdict.to_owned());
    }
    all.values_mut().for_each(|v| v.sort());
    all
}

struct Suite {
    summaries: BTreeSet<String>,
    verdicts: BTreeMap<String, Vec<String>>,
    code: i32,
}

fn run(mpi: &Mpi, main: &Path, ranks: usize, trace: Option<&Path>) -> Suite {
    let folder = tempfile::tempdir().unwrap();
    let mut args = vec![main.as_os_str().to_owned(), "-v".into()];
    for module in excluded(mpi, ranks) {
        args.extend(["-x".into(), module.into()]);
    }
    let run = mpi.run(ranks);
    // On several ranks, the ranks poll millions of times: raw records of that would fill the disk.
    let run = if ranks == 1 { run } else { run.without_records() };
    let outcome = run
        .program("python3")
        .args(&args)
        .current_dir(folder.path())
        .timeout(Duration::from_secs(540))
        .trace_to(trace)
        .output();
    assert!(!outcome.timed_out, "{}: mpi4py's tests on {ranks} ranks hung", mpi.name());
    // unittest prints the verdicts to stderr, where the lines of ranks mix. So the test compares the summaries
    // at the end, and the verdicts whose lines are intact.
    let summaries = outcome
        .stderr
        .lines()
        .filter(|l| l.starts_with("OK") || l.starts_with("FAILED"))
        .map(str::to_owned)
        .collect();
    Suite { summaries, verdicts: verdicts(&outcome.stderr), code: outcome.code }
}

fn same_with_the_agent(name: &str, ranks: usize) {
    let Some((main, mpi)) = suite().zip(mpi(name)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("mpi4py.refrain");
    let plain = run(&mpi, &main, ranks, None);
    let traced = run(&mpi, &main, ranks, Some(&trace));
    assert!(!plain.summaries.is_empty(), "{name}, {ranks} ranks: the suite said nothing");
    assert_eq!(plain.summaries, traced.summaries, "{name}, {ranks} ranks");
    assert_eq!(plain.code, traced.code, "{name}, {ranks} ranks: exit code");
    if ranks == 1 {
        // Lines are certainly intact only with one rank.
        assert!(plain.verdicts.len() > 1500, "only {} verdicts", plain.verdicts.len());
        assert_eq!(plain.verdicts, traced.verdicts);
    }
    if ranks == 1 {
        assert_lossless(name, &trace);
    }
    let stats = refrain(["stats".as_ref(), trace.as_os_str()]).expect_success();
    let functions = stats.stdout.lines().filter(|l| l.starts_with("MPI_")).count();
    println!("{name}, {ranks} ranks: {functions} distinct MPI functions seen");
    assert!(functions > 250, "only {functions} functions seen");
}

fn assert_lossless(name: &str, trace: &Path) {
    let verified = refrain(["verify".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let found: serde_json::Value = serde_json::from_str(&verified.stdout).unwrap_or_default();
    assert!(verified.is_success(), "{name}: not what was recorded\n{verified}");
    assert!(found["events_compared"].as_u64() > Some(10_000), "{name}\n{verified}");
}

/// The wheel refers to hundreds of functions weakly and works without those that its MPI lacks. The agent
/// exports all of them.
#[test]
fn a_wheel_made_for_any_mpi_finds_only_the_functions_its_mpi_has() {
    let wheel = workspace().join("target/mpi/mpi4py-wheel");
    let script = workspace().join("tests/victims/wheel.py");
    let folder = tempfile::tempdir().unwrap();
    for (name, abi) in [("mpich-4.0", "mpich"), ("openmpi-4.1", "openmpi")] {
        let Some(mpi) = require_path("mpi4py-wheel", &wheel).and(require_mpi(name)) else {
            continue;
        };
        let run = |trace: Option<&Path>| {
            mpi.run(2)
                .program(wheel.join("bin/python"))
                .args([&script])
                .env("MPI4PY_MPIABI", abi)
                .env("LD_LIBRARY_PATH", wheel.join("mpich"))
                .trace_to(trace)
                .output()
                .expect_success()
        };
        let trace = folder.path().join(format!("{name}.refrain"));
        let (plain, traced) = (run(None), run(Some(&trace)));
        assert!(plain.stdout.contains("NotImplementedError"), "{name} lacks nothing: {plain}");
        assert_eq!(sorted_lines(&plain.stdout), sorted_lines(&traced.stdout), "{name}");
        let calls = refrain(["stats".as_ref(), trace.as_os_str()]).expect_success().stdout;
        assert!(calls.contains("MPI_Mprobe"), "{name}: {calls}");
    }
}

#[test]
fn mpich_runs_the_suite_with_the_same_results_on_1_rank() {
    same_with_the_agent("mpich-4.0", 1);
}

#[test]
fn openmpi_runs_the_suite_with_the_same_results_on_1_rank() {
    same_with_the_agent("openmpi-4.1", 1);
}

#[test]
fn both_run_the_suite_with_the_same_results_on_2_and_3_ranks() {
    if require_full() {
        for ranks in [2, 3] {
            same_with_the_agent("mpich-4.0", ranks);
            same_with_the_agent("openmpi-4.1", ranks);
        }
    }
}
