//! `refrain record` of programs that may not write large files: the program lives, and the record is truncated
//! and says why. `transparency.rs` has the same for `refrain trace`.

use crate::order_programs::Victim;
use refrain_testing::{Family, Mpi, Outcome, sorted_lines};
use std::process::Command;

const WHY: &str = "the limit on file sizes is reached, see ulimit -f";

/// The output and the exit code are those of a run without Refrain.
#[track_caller]
fn assert_as_plain(victim: &Victim, outcome: &Outcome) {
    let plain = victim.plain();
    let expected = (sorted_lines(&plain.stdout), plain.code);
    assert_eq!((sorted_lines(&outcome.stdout), outcome.code), expected, "{outcome}");
    assert_eq!(outcome.code, 3, "{outcome}");
}

#[test]
fn a_limit_on_file_sizes_truncates_the_record_and_not_the_program() {
    for mpi in Mpi::representatives() {
        for method in ["causal", "clock"] {
            let victim = Victim::new(&mpi, "order_file_limit.c", &["65536"]).on("2").by(method);
            let recorded = victim.record("r.refrain");
            assert_as_plain(&victim, &recorded);
            assert!(recorded.stderr.contains(WHY), "{method}: {recorded}");
            let info = victim.look(&["info", "r.refrain"]).expect_success();
            let complete = info.stdout.lines().find(|line| line.starts_with("complete"));
            assert!(complete.is_some_and(|line| line.contains(WHY)), "{method}: {info}");
            let verified = victim.look(&["verify", "r.refrain"]).expect_success();
            assert!(verified.stdout.contains(WHY), "{method}: {verified}");
            // What was recorded before is replayed: the truncated record ends the replay.
            let replayed = victim.replay("r.refrain");
            assert_eq!(replayed.code, 96, "{method}: {replayed}");
        }
    }
}

#[test]
fn a_limit_below_the_smallest_file_leaves_no_record_and_the_program_alone() {
    for mpi in Mpi::representatives() {
        let victim = Victim::new(&mpi, "order_file_limit.c", &["0"]).on("2");
        assert_as_plain(&victim, &victim.record("r.refrain"));
        assert_as_plain(&victim, &victim.run(&["trace", "-o", "t.refrain", "--"], &victim.words));
    }
}

/// With a limit from the beginning, which MPICH itself can live with on two ranks.
#[test]
fn a_limit_of_the_shell_truncates_the_record_and_not_the_program() {
    let Some(mpi) = Mpi::representatives().into_iter().find(|mpi| mpi.family() == Family::Mpich)
    else {
        return;
    };
    let victim = Victim::new(&mpi, "order_file_limit.c", &["65536"]).on("2");
    let refrain = victim.command(&["record", "-o", "r.refrain", "--"], &victim.words);
    let mut limited = Command::new("bash");
    limited.args(["-c", "ulimit -f 20000; exec \"$@\"", "bash"]).arg(refrain.get_program());
    limited.args(refrain.get_args()).current_dir(victim.folder.path());
    let output = limited.output().expect("bash runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(WHY), "{said}");
}
