//! `refrain where` for a job that hangs, for its parts after it was killed, and for its trace.

use crate::background::{Job, wait_until};
use refrain_testing::{Mpi, refrain, workspace};
use std::path::Path;

/// The output of `refrain where`.
fn told(place: &Path) -> String {
    refrain(["where".as_ref(), place.as_os_str()]).expect_success().stdout
}

/// Starts a program that hangs, waits until all ranks hang, and passes the output of `refrain where` to `check`:
/// while it hangs, for its parts after all processes were killed, and for the trace made of them.
fn hang(victim: &str, ranks: usize, check: impl Fn(&str, &str)) {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = mpi.compile(victim);
        let job = Job::start::<&str>(&mpi, folder.path(), ranks, &program, &[]);
        let parts = job.parts();
        wait_until("all ranks hang", || {
            std::fs::read_to_string(folder.path().join("stdout"))
                .is_ok_and(|out| out.matches("about to deadlock").count() == ranks)
                && told(&parts).contains(&format!("stuck: ranks 0-{}", ranks - 1))
        });
        let who = |when: &str| format!("{victim} under {}, {when}", mpi.name());
        check(&who("running"), &told(&parts));
        assert_ages(&mpi, &parts);
        job.signal_all("KILL");
        job.outcome();
        check(&who("killed"), &told(&parts));
        refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
        check(&who("merged"), &told(&folder.path().join("run.refrain")));
    }
}

/// Asserts that the calls of a running job have an age.
fn assert_ages(mpi: &Mpi, parts: &Path) {
    let json = refrain(["where".as_ref(), parts.as_os_str(), "--json".as_ref()]).expect_success();
    let json: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    for rank in json["ranks"].as_array().expect("ranks") {
        let seconds = rank["threads"][0]["in"][0]["seconds"].as_f64();
        assert!(seconds.is_some_and(|s| (0.1..600.0).contains(&s)), "{}: {rank}", mpi.name());
    }
}

#[test]
fn ranks_that_wait_in_a_cycle_are_named_with_their_calls() {
    hang("deadlock_cycle.c", 4, |who, said| {
        let cycle = "cycle: rank 0 waits for rank 1 (MPI_Recv, source=1, tag=2) → \
                     rank 1 waits for rank 2 (MPI_Recv, source=2, tag=2) → \
                     rank 2 waits for rank 3 (MPI_Recv, source=3, tag=2) → \
                     rank 3 waits for rank 0 (MPI_Recv, source=0, tag=2) → rank 0\n";
        assert!(said.contains(cycle), "{who}:\n{said}");
        assert_eq!(said.matches("MPI_Recv(buf=").count(), 4, "{who}:\n{said}");
        assert_eq!(said.matches("status=MPI_STATUS_IGNORE").count(), 4, "{who}:\n{said}");
    });
}

#[test]
fn a_message_that_a_cancelled_receive_did_not_get_is_still_there() {
    hang("deadlock_cancelled.c", 3, |who, said| {
        let mismatch = "mismatch: rank 1 sent tag 5 to rank 0 ";
        assert!(said.contains(mismatch), "{who}:\n{said}");
        assert!(said.contains("which waits for tag 7"), "{who}:\n{said}");
    });
}

#[test]
fn a_collective_names_the_ranks_that_have_not_called_it() {
    hang("deadlock_collective.c", 3, |who, said| {
        let collective = "MPI_Barrier, comm=MPI_COMM_WORLD: rank 0; missing: ranks 1, 2\n";
        assert!(said.contains(collective), "{who}:\n{said}");
        assert!(said.contains("cycle: rank 0 waits for rank 1 (MPI_Barrier"), "{who}:\n{said}");
    });
}

#[test]
fn requests_are_followed_to_their_peers_on_any_communicator() {
    hang("deadlock_requests.c", 3, |who, said| {
        // Backwards: the left neighbour of rank 0 is rank 1.
        for (rank, peer) in [(0, 1), (1, 2), (2, 0)] {
            let edge =
                format!("rank {rank} waits for rank {peer} (MPI_Waitall: MPI_Irecv, source=");
            assert!(said.contains(&edge), "{who}:\n{said}");
        }
        assert!(!said.contains("tag=1"), "{who}: these messages were sent\n{said}");
        assert!(said.contains("tag=2, comm=comm1"), "{who}:\n{said}");
        assert!(said.contains("cycle: rank 0 waits for rank 1"), "{who}:\n{said}");
        // Ranks in the same state share a line.
        let calls = said.matches("MPI_Waitall(count=3").count();
        let ignored = said.matches("array_of_statuses=MPI_STATUSES_IGNORE").count();
        assert!(calls > 0 && ignored == calls, "{who}:\n{said}");
    });
}

/// The line of a victim with that mark, from 1.
fn line_of(victim: &str, mark: &str) -> usize {
    let source = std::fs::read_to_string(workspace().join("tests/victims").join(victim));
    let source = source.expect("the victim's source");
    let mark = format!("/* {mark} */");
    source.lines().position(|line| line.contains(&mark)).expect("a line with the mark") + 1
}

#[test]
fn a_wrong_tag_is_named_with_the_message_and_the_call_site() {
    let victim = "deadlock_tag.c";
    let check = |who: &str, said: &str| {
        let mismatch = format!(
            "mismatch: rank 2 sent tag 10 to rank 3 (#15 MPI_Send at main {victim}:{}), which waits \
             for tag 9: no receive takes it\n",
            line_of(victim, "wrong")
        );
        assert!(said.contains(&mismatch), "{who}:\n{said}");
        assert_eq!(said.matches("mismatch:").count(), 1, "{who}:\n{said}");
        for (function, mark) in [("wait_for_it", "wait"), ("main", "barrier")] {
            let site = format!("  at {function} {victim}:{}\n", line_of(victim, mark));
            assert!(said.contains(&site), "{who}, {site}:\n{said}");
        }
        assert!(!said.contains("=?"), "{who}: what MPI has not set yet is left out\n{said}");
        assert!(said.contains("stuck: ranks 0-3\n"), "{who}:\n{said}");
    };
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = mpi.compile_with(victim, &["-g", "-O0"]);
        let options = ["--callsite", "return"];
        let job = Job::start_with::<&str>(&mpi, folder.path(), &options, 4, &program, &[]);
        let parts = job.parts();
        // Before the first call is recorded, there is nothing to explain.
        wait_until("all ranks hang", || {
            let said = refrain(["where".as_ref(), parts.as_os_str()]);
            said.is_success() && said.stdout.contains("stuck: ranks 0-3")
        });
        let who = |when: &str| format!("{}, {when}", mpi.name());
        check(&who("running"), &told(&parts));
        let json = refrain(["where".as_ref(), parts.as_os_str(), "--json".as_ref()]);
        let json: serde_json::Value =
            serde_json::from_str(&json.expect_success().stdout).expect("JSON");
        let found = &json["mismatches"][0];
        assert_eq!((&found["sender"], &found["receiver"]), (&2.into(), &3.into()), "{json}");
        assert_eq!((&found["tag"], &found["wanted"]), (&10.into(), &9.into()), "{json}");
        assert_eq!(found["sent_in"]["call"], 15, "{json}");
        assert_eq!(found["sent_in"]["site"][0]["line"], line_of(victim, "wrong"), "{json}");
        assert_eq!(found["odd"], serde_json::Value::Null, "neither tag is common: {json}");
        let line = &json["ranks"][3]["threads"][0]["in"][0]["site"][0]["line"];
        assert_eq!(*line, line_of(victim, "wait"), "{json}");
        job.signal_all("KILL");
        job.outcome();
        refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
        check(&who("merged"), &told(&folder.path().join("run.refrain")));
    }
}

#[test]
fn the_rank_whose_tag_nothing_else_uses_is_named_and_every_cycle_is_printed() {
    let victim = "deadlock_odd_tag.c";
    let site = |mark: &str| format!("pass {victim}:{}", line_of(victim, mark));
    let odd = |rank: u32| {
        format!(
            "no receive takes it; rank {rank} is the odd one: no other message or receive on this \
             communicator has tag 130, and 7 messages have tag 120\n"
        )
    };
    let check = |who: &str, said: &str| {
        let sent = format!("(#58 MPI_Send at {})", site("send"));
        for mismatch in [
            format!("rank 0 sent tag 130 to rank 1 {sent}, which waits for tag 120: {}", odd(0)),
            format!("rank 2 sent tag 120 to rank 3 {sent}, which waits for tag 130: {}", odd(3)),
        ] {
            assert!(said.contains(&format!("mismatch: {mismatch}")), "{who}: {mismatch}\n{said}");
        }
        let cause = "likely cause: rank 0 sent tag 130 where others use tag 120; \
            rank 3 waits for tag 130 where others use tag 120\n";
        assert!(said.ends_with(cause), "{who}: {said}");
        for (rank, peer, tag) in [(1, 0, 120), (3, 2, 130)] {
            let wait = format!(
                "rank {rank} waits for rank {peer} (MPI_Recv, source=0 (rank {peer}), tag={tag}, comm=comm1)"
            );
            assert!(said.contains(&wait), "{who}: {wait}\n{said}");
            let cycle = format!("cycle: rank {peer} waits for rank {rank} (MPI_Barrier");
            assert!(said.contains(&cycle), "{who}: {cycle}\n{said}");
        }
    };
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = mpi.compile_with(victim, &["-g", "-O0"]);
        let options = ["--callsite", "return"];
        let job = Job::start_with::<&str>(&mpi, folder.path(), &options, 4, &program, &[]);
        let parts = job.parts();
        wait_until("all ranks hang", || {
            let said = refrain(["where".as_ref(), parts.as_os_str()]);
            said.is_success() && said.stdout.contains("stuck: ranks 0-3")
        });
        check(&format!("{}, running", mpi.name()), &told(&parts));
        job.signal_all("KILL");
        job.outcome();
        let merged = refrain(["merge".as_ref(), parts.as_os_str()]).expect_success();
        assert!(merged.stderr.contains("refrain where "), "{merged}");
        check(&format!("{}, merged", mpi.name()), &told(&folder.path().join("run.refrain")));
    }
}

#[test]
fn a_job_that_makes_progress_is_not_reported_as_hung() {
    for mpi in Mpi::representatives() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let job = Job::start(&mpi, folder.path(), 4, &mpi.compile("long_run.c"), &["0"]);
        let parts = job.parts();
        wait_until("it runs", || job.headers().iter().filter(|h| h.size == 4).count() == 4);
        for _ in 0..3 {
            let said = told(&parts);
            assert!(!said.contains("cycle"), "{}:\n{said}", mpi.name());
            assert!(!said.contains("stuck"), "{}:\n{said}", mpi.name());
        }
        // Nor is a job that was killed while it made progress.
        job.signal_all("KILL");
        job.outcome();
        let said = told(&parts);
        assert!(!said.contains("cycle"), "{}:\n{said}", mpi.name());
        assert!(!said.contains("may still"), "{}: they have ended\n{said}", mpi.name());
    }
}

#[test]
fn ranks_in_different_collectives_wait_for_each_other() {
    hang("deadlock_mismatch.c", 4, |who, said| {
        let different = "different collectives at once: \
                         MPI_Allreduce, comm=MPI_COMM_WORLD: ranks 0, 2; \
                         MPI_Barrier, comm=MPI_COMM_WORLD: ranks 1, 3\n";
        assert!(said.contains(different), "{who}:\n{said}");
        assert!(said.contains("ranks 0, 2 wait for ranks 1, 3 (MPI_Allreduce"), "{who}:\n{said}");
        assert!(said.contains("cycle: rank 0 waits for rank 1 (MPI_Allreduce"), "{who}:\n{said}");
        // Ranks in the same call are named together.
        assert_eq!(said.matches("MPI_Barrier(comm=").count(), 1, "{who}:\n{said}");
    });
}

#[test]
fn a_trace_made_while_the_job_runs_is_a_snapshot() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a temporary folder"));
    let job = Job::start(&mpi, folder.path(), 2, &mpi.compile("long_run.c"), &["0"]);
    wait_until("it runs", || job.headers().iter().filter(|h| h.size == 2).count() == 2);
    let merged = refrain(["merge".as_ref(), job.parts().as_os_str()]).expect_success();
    assert!(merged.stderr.contains("a snapshot: every rank still runs"), "{merged}");
    assert!(merged.stderr.contains("so far: rank 0 ("), "{merged}");
    assert!(!merged.stderr.contains("truncated:"), "{merged}");
    let info = refrain(["info".as_ref(), folder.path().join("run.refrain").as_os_str()]);
    assert!(info.stdout.contains("ended      2 not yet: a snapshot"), "{info}");
}

#[test]
fn if_a_job_ends_while_it_is_inspected_its_trace_is_inspected_instead() {
    let (mpi, folder) = (Mpi::any(), tempfile::tempdir().expect("a temporary folder"));
    let job = Job::start(&mpi, folder.path(), 2, &mpi.compile("long_run.c"), &["20000"]);
    let parts = job.parts();
    wait_until("it runs", || job.headers().iter().filter(|h| h.size == 2).count() == 2);
    let look = || refrain(["where".as_ref(), parts.as_os_str()]);
    wait_until("it ends", || {
        look().expect_success();
        !parts.exists()
    });
    job.outcome();
    let said = look().expect_success();
    assert!(said.stderr.contains("the job has ended; reading its trace"), "{said}");
    assert!(said.stdout.contains("ranks 0, 1  in no call"), "{said}");
    assert!(said.stdout.ends_with("all ranks have ended\n"), "{said}");
}
