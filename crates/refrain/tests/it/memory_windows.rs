//! `refrain mem` of a part of a run: from one function to another, and as `MPI_Pcontrol` says.

use crate::memory_recorded::FrontEnd::{self, Compiled};
use crate::memory_recorded::{Recorded, build, build_with, record, succeed};
use refrain_testing::{Mpi, refrain_binary, turn};
use tempfile::TempDir;

#[test]
fn recording_can_begin_with_a_function() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "sorting.c", Some(Compiled));
    let all = record(&program, &[], Compiled, 1, &["--raw"]).verify();
    let recorded = record(&program, &[], Compiled, 1, &["--raw", "--from", "compare"]);
    let some = recorded.verify();
    assert!(some > 0 && some < all, "{some} of {all}");
    assert_eq!(recorded.info()["complete"], false);
}

/// How many references are in each range of addresses that a line of the program's output gives.
fn references_in(recorded: &Recorded, options: &[&str], line: &str) -> Vec<usize> {
    let (is_shown, text) = recorded.refrain(&[&["show"], options].concat());
    assert!(is_shown, "{text}");
    let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let addresses: Vec<u64> = text
        .lines()
        .filter_map(|line| number(line.split(' ').find(|word| word.starts_with("0x"))?))
        .collect();
    let ends: Vec<u64> = line.split(' ').filter_map(number).collect();
    let within = |ends: &[u64]| {
        addresses.iter().filter(|address| (ends[0]..ends[1]).contains(address)).count()
    };
    ends.chunks_exact(2).map(within).collect()
}

#[test]
fn recording_goes_from_one_function_to_another_in_all_threads() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "marked.c", Some(front_end));
        let options = ["--from", "begin_here", "--until", "end_here"];
        let recorded = record(&program, &[], front_end, 1, &options);
        let said = String::from_utf8_lossy(&recorded.output.stderr);
        assert!(!said.contains("begin_here"), "{said}");
        let output = String::from_utf8_lossy(&recorded.output.stdout);
        let mut lines = output.lines();
        for line in [lines.next(), lines.next()] {
            // Ranges used before, between and after the two functions; the second thread has the same.
            let counts = references_in(&recorded, &[], line.expect("three ranges"));
            assert_eq!(counts, [0, 100, 0], "{front_end:?}: {output}");
        }
    }
}

/// The compiler does not instrument a function that neither uses memory nor calls another function.
#[test]
fn a_function_that_is_not_instrumented_is_named() {
    let folder = TempDir::new().expect("a folder");
    let program = build(folder.path(), "window.c", Some(Compiled));
    for (option, function) in [("--from", "begin_here"), ("--until", "end_here")] {
        let recorded = record(&program, &[], Compiled, 1, &[option, function]);
        assert!(recorded.output.status.success());
        let said = String::from_utf8_lossy(&recorded.output.stderr);
        let expected = format!("{function} accesses no memory and calls nothing");
        assert!(said.contains(&expected) && said.contains("--frontend dynamorio"), "{said}");
    }
}

#[test]
fn a_function_that_is_never_called_is_named_with_similar_ones() {
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build(folder.path(), "sorting.c", Some(front_end));
        let recorded = record(&program, &["100"], front_end, 1, &["--from", "comprae"]);
        assert!(recorded.output.status.success(), "the exit code is the program's");
        let said = String::from_utf8_lossy(&recorded.output.stderr).into_owned();
        let warning =
            said.lines().find(|line| line.starts_with("refrain: warning: --from comprae"));
        let warning = warning.expect(&said);
        assert!(warning.contains("nothing was recorded"), "{said}");
        assert!(warning.contains("did you mean compare"), "{said}");
        let (_, info) = recorded.refrain(&["info"]);
        assert!(info.contains("did you mean compare"), "{info}");
    }
}

#[test]
fn nothing_is_recorded_between_pcontrol_0_and_1() {
    let mpi = Mpi::installed().remove(0);
    let folder = TempDir::new().expect("a folder");
    for front_end in FrontEnd::all() {
        let program = build_with(&mpi, folder.path(), "pcontrol.c", front_end);
        let trace = folder.path().join("pcontrol.refrain");
        let _turn = turn();
        let mut command = mpi.command(refrain_binary());
        command.args(["mem", "--frontend", front_end.word(), "-o"]).arg(&trace);
        let output = succeed(command.args(["--", "mpirun", "-n", "1"]).arg(&program));
        let recorded = Recorded { trace, output };
        let output = String::from_utf8_lossy(&recorded.output.stdout).into_owned();
        let counts = references_in(&recorded, &["--thread", "0"], output.trim());
        assert_eq!(counts, [100, 0, 100], "{front_end:?}: {output}");
    }
}
