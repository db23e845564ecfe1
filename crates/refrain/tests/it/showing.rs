//! `refrain show` prints only values that MPI defines.

use refrain_testing::{Mpi, refrain, refrain_binary, require_mpi};
use std::path::{Path, PathBuf};

/// Traces a program, without its records.
fn traced(mpi: &Mpi, folder: &Path, ranks: &str, program: &Path, args: &[&str]) -> PathBuf {
    let program = program.to_str().expect("a path");
    let words = ["trace", "-o", "t.refrain", "--", "mpirun", "-n", ranks, program];
    let run = mpi.run(1).program(refrain_binary()).bare().args(words).args(args);
    run.current_dir(folder).output().expect_success();
    folder.join("t.refrain")
}

fn show(trace: &Path, options: &[&str]) -> String {
    let path = trace.to_str().expect("a path");
    refrain([&["show", path], options].concat()).expect_success().stdout
}

#[test]
fn fields_of_a_status_that_mpi_does_not_define_are_shown_as_undefined() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = traced(&mpi, folder.path(), "1", &mpi.compile("file_status.c"), &["x.dat"]);
        let all = show(&trace, &[]);
        assert!(!all.contains("-2147483648"), "{}: {all}", mpi.name());
        let waited = show(&trace, &["--function", "Wait"]);
        let status = "status={source=undefined, tag=undefined, bytes=4}";
        assert!(waited.contains(status), "{}: {waited}", mpi.name());
        let asked = show(&trace, &["--function", "Get_count"]);
        assert!(asked.contains(status), "{}: {asked}", mpi.name());
    }
}

#[test]
fn polls_that_fail_in_a_row_are_one_line() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = traced(&mpi, folder.path(), "2", &mpi.compile("polls.c"), &["20"]);
        let (all, folded) = (show(&trace, &["--all"]), show(&trace, &[]));
        let calls = |line: &str| -> usize {
            let times = line.strip_suffix(" failed").and_then(|line| line.rsplit_once("  × "));
            times.map_or(1, |(_, times)| times.replace(',', "").parse().expect("a number"))
        };
        let who = mpi.name();
        assert!(all.lines().all(|line| calls(line) == 1), "{who}: {all}");
        assert!(folded.lines().any(|line| calls(line) > 1), "{who}: {folded}");
        assert_eq!(folded.lines().map(calls).sum::<usize>(), all.lines().count(), "{who}");
        let json = show(&trace, &["--json"]);
        assert_eq!(json.lines().count(), all.lines().count(), "{who}: each is an object");
        let failed = json.lines().filter(|line| line.contains("\"failed_poll\":true")).count();
        let in_lines: usize = folded.lines().map(calls).filter(|calls| *calls > 1).sum();
        assert!(failed >= in_lines, "{who}: {failed}, {in_lines}");
        let limited = show(&trace, &["--limit", "30"]);
        assert!(folded.starts_with(&limited) && limited.lines().count() == 30, "{who}: {limited}");
    }
}

#[test]
fn a_thread_can_be_shown_by_itself() {
    let Some(mpi) = require_mpi("openmpi-4.1") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = mpi.compile_with("threads_many.c", &["-pthread"]);
    let trace = traced(&mpi, folder.path(), "2", &program, &["5", "3"]);
    let second = show(&trace, &["--rank", "1", "--thread", "2"]);
    assert!(!second.is_empty() && second.lines().all(|l| l.starts_with("rank 1.2  ")), "{second}");
    let path = trace.to_str().expect("a path");
    let none = refrain(["show", path, "--thread", "77"]);
    assert_eq!(none.code, 125, "{none}");
    assert!(none.stderr.contains("no thread 77"), "{none}");
}
