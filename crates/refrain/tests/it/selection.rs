//! A trace that lacks calls because of a selection says so, and says what was selected.

use crate::background::{Job, wait_until};
use refrain_testing::{Mpi, Outcome, refrain};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// Traces two ranks of a program with options. Returns the trace and the outcome.
fn traced(mpi: &Mpi, folder: &Path, victim: &str, options: &[&str]) -> (PathBuf, Outcome) {
    let program = mpi.compile(victim);
    let program = program.to_str().expect("a path");
    let command = [&["trace", "-o", "t.refrain"], options, &["--", "mpirun", "-n", "2", program]];
    let outcome = mpi.refrain_in(folder, command.concat()).expect_success();
    (folder.join("t.refrain"), outcome)
}

fn info(trace: &Path) -> (String, Json) {
    let text = refrain(["info".as_ref(), trace.as_os_str()]).expect_success().stdout;
    let json = refrain(["info".as_ref(), trace.as_os_str(), "--json".as_ref()]).expect_success();
    (text, serde_json::from_str(&json.stdout).expect("JSON"))
}

#[test]
fn a_trace_of_selected_calls_is_not_complete_and_says_what_was_selected() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let options = ["--functions", "Comm_*", "--exclude", "Comm_size", "--callsite", "return"];
    let (trace, said) = traced(&mpi, folder.path(), "hello.c", &options);
    assert!(!said.stderr.contains("warning"), "{said}");
    let (text, json) = info(&trace);
    let selected = "selected   --functions Comm_* --exclude Comm_size --callsite return\n";
    assert!(text.contains(selected) && text.contains("complete   no\n"), "{text}");
    assert_eq!(json["complete"], false);
    assert_eq!(json["selected"]["functions"], "Comm_*");
    assert_eq!(json["selected"]["exclude"], "Comm_size");

    // Call sites leave nothing out.
    let (trace, _) = traced(&mpi, folder.path(), "hello.c", &["--callsite", "return"]);
    let (_, json) = info(&trace);
    assert_eq!(
        (&json["complete"], &json["selected"]["callsite"]),
        (&true.into(), &"return".into())
    );
}

#[test]
fn a_selection_that_matches_nothing_is_warned_about() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    for (options, why) in [
        (["--ranks", "1,9"], "--ranks 9: the job has ranks 0-1 only"),
        (["--functions", "Send,Win_*"], "nothing matched --functions Send,Win_*"),
    ] {
        let (trace, said) = traced(&mpi, folder.path(), "hello.c", &options);
        assert!(said.stderr.contains(why), "{said}");
        assert_eq!(info(&trace).1["complete"], false);
    }
}

#[test]
fn invalid_options_are_refused_with_exit_code_2() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    for options in [
        &["--ranks", "abc"][..],
        &["--functions", "Foo*"],
        &["--functions", "Wtime"],
        &["--functions", "Send", "--exclude", "*send"],
        &["--callsite", "foo"],
        &["--merge", "foo"],
    ] {
        let command = [&["trace"], options, &["--", "true"]].concat();
        let outcome = mpi.refrain_in(folder.path(), command);
        assert_eq!(outcome.code, 2, "{outcome}");
        assert!(outcome.stderr.contains(options[0]), "{outcome}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

#[test]
fn the_trace_of_a_program_that_switches_recording_off_is_not_complete() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let (trace, _) = traced(&mpi, folder.path(), "switches.c", &[]);
    let (text, json) = info(&trace);
    assert!(text.contains("paused     recording was switched off by 2 ranks\n"), "{text}");
    assert_eq!((&json["complete"], &json["paused"]), (&false.into(), &serde_json::json!([0, 1])));
    let said = refrain(["where".as_ref(), trace.as_os_str()]).expect_success().stdout;
    assert!(said.contains("the program switched recording off"), "{said}");
}

/// Traces a program that hangs. Returns the output of `refrain where` while it hangs, and the info of the merged
/// trace.
fn hang(options: &[&str], said_is: impl Fn(&str) -> bool) -> (String, String) {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a folder"));
    let program = mpi.compile("deadlock_cycle.c");
    let job = Job::start_with::<&str>(&mpi, folder.path(), options, 3, &program, &[]);
    let parts = job.parts();
    wait_until("all ranks hang", || {
        std::fs::read_to_string(folder.path().join("stdout"))
            .is_ok_and(|out| out.matches("about to deadlock").count() == 3)
    });
    let mut said = String::new();
    wait_until("the expected output", || {
        said = refrain(["where".as_ref(), parts.as_os_str()]).expect_success().stdout;
        said_is(&said)
    });
    job.signal_all("KILL");
    job.outcome();
    refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
    (said, info(&folder.path().join("run.refrain")).0)
}

#[test]
fn a_hang_in_calls_that_are_not_recorded_is_reported_as_unknown() {
    let selected = ["--functions", "Send,Barrier"];
    let (said, info) = hang(&selected, |said| said.contains("in no recorded call"));
    assert!(said.contains("only Send, Barrier are recorded"), "{said}");
    let why = "it is not known which rank waits for which: \
               not all calls are recorded (--functions Send,Barrier)\n";
    assert!(said.ends_with(why), "{said}");
    // The parts also say what was selected and which command was run.
    assert!(info.contains("selected   --functions Send,Barrier\n"), "{info}");
    assert!(info.contains("command    mpirun -n 3 "), "{info}");

    let (said, _) = hang(&["--ranks", "0"], |said| said.contains("its calls are not recorded"));
    assert!(said.contains("MPI_Recv(") && !said.contains("waits for rank"), "{said}");
    assert!(said.contains("ranks 1, 2  in no recorded call"), "{said}");

    // Calls that cannot wait may be missing.
    let (said, _) = hang(&["--exclude", "Comm_rank"], |said| said.contains("cycle: "));
    assert!(said.ends_with("stuck: ranks 0-2\n"), "{said}");
}
