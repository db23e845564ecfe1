//! `refrain record --method clock` and the replay of such records on real programs.

use crate::order_programs::{Victim, assert_same, ranks, replays, replays_bit_for_bit, times};
use refrain_testing::{Mpi, Outcome, is_full};

const CLOCK: &str = "clock";

/// The numbers of ranks that are tried.
fn sizes() -> &'static [&'static str] {
    if is_full() { &["4", "8", "16"] } else { &["4"] }
}

/// With every number of ranks.
fn replays_at_every_size(source: &str, arguments: &[&str]) {
    for mpi in Mpi::usual() {
        for ranks in sizes() {
            replays(&Victim::new(&mpi, source, arguments).by(CLOCK).on(ranks));
        }
    }
}

#[test]
fn particles_replay_by_clocks() {
    replays_at_every_size("order_montecarlo.c", &["300"]);
}

#[test]
fn a_master_and_its_workers_replay_by_clocks() {
    replays_at_every_size("order_master.c", &["500"]);
}

#[test]
fn pipelines_replay_by_clocks() {
    replays_at_every_size("order_waitany.c", &["200"]);
}

#[test]
fn a_rank_that_looks_for_messages_replays_by_clocks() {
    replays_at_every_size("order_iprobe.c", &["100"]);
}

#[test]
fn every_way_to_receive_replays_by_clocks() {
    replays_at_every_size("order_paths.c", &["all", "10"]);
}

#[test]
fn wildcard_receives_without_a_choice_replay_by_clocks() {
    replays_at_every_size("order_jacobi.c", &["200", "8"]);
}

#[test]
fn threads_that_call_mpi_at_the_same_time_replay_by_clocks() {
    replays_bit_for_bit(CLOCK, "order_threads.c", &["30"]);
}

#[test]
fn threads_that_call_mpi_under_locks_of_their_own_replay_by_clocks() {
    let all = ["mutex", "queue", "try", "semaphore", "serialized"];
    for mpi in Mpi::usual() {
        for how in &all[..if is_full() { all.len() } else { 2 }] {
            let victim = Victim::new(&mpi, "order_locks.c", &[how, "20"]).by(CLOCK);
            let recorded = victim.record("run.refrain").expect_success();
            for _ in 0..if is_full() { 20 } else { 1 } {
                assert_same(&recorded, &victim.replay("run.refrain").expect_success());
            }
        }
    }
}

#[test]
fn fortran_replays_by_clocks() {
    replays_bit_for_bit(CLOCK, "order_fortran.F90", &[]);
}

#[test]
fn clocks_and_random_numbers_are_replayed_by_clocks() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_random.c", &[]).by(CLOCK);
        let words = ["record", "--rand", "--method", CLOCK, "-o", "run.refrain", "--"];
        let recorded = victim.run(&words, &victim.words);
        for _ in 0..times() {
            assert_same(&recorded, &victim.replay("run.refrain").expect_success());
        }
    }
}

/// Clocks are sent in separate messages: counts, probes, truncation and statuses are as without recording.
#[test]
fn piggybacked_clocks_are_invisible_to_the_program() {
    let victims = [
        ("statuses.c", "2"),
        ("truncation.c", "2"),
        ("ignored_statuses.c", "3"),
        ("pending_at_finalize.c", "2"),
        ("callbacks.c", "2"),
    ];
    for mpi in Mpi::usual() {
        for (source, ranks) in victims {
            let victim = Victim::new(&mpi, source, &[]).by(CLOCK).on(ranks);
            let plain = victim.plain().expect_success();
            assert!(!plain.stdout.is_empty(), "{plain}");
            assert_same(&plain, &victim.record("run.refrain").expect_success());
        }
    }
}

/// The text after the class of an error names calls inside MPI, which differ in a replay.
fn classes(outcome: &Outcome) -> Vec<String> {
    let short = |line: &str| match line.find(": class ") {
        Some(at) => line[..at + 10].to_owned(),
        None => line.to_owned(),
    };
    outcome.stdout.lines().map(short).collect()
}

/// If a message is too long, MPICH completes some requests of a Waitall and leaves others pending.
#[test]
fn messages_that_are_too_long_replay_by_clocks() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "truncation.c", &[]).by(CLOCK).on("2");
        let recorded = victim.record("run.refrain").expect_success();
        let replayed = victim.replay("run.refrain").expect_success();
        assert!(recorded.stdout.contains("Waitall status 3"), "{recorded}");
        assert_eq!(classes(&recorded), classes(&replayed), "{replayed}");
    }
}

#[test]
fn a_replay_waits_for_a_rank_that_computes_for_long() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_slow.c", &["3"]).by(CLOCK);
    let recorded = victim.record("run.refrain").expect_success();
    let replayed = victim.run(&["replay", "--stall", "1s", "run.refrain", "--"], &victim.words);
    assert_same(&recorded, &replayed.expect_success());
}

#[test]
fn a_program_that_diverges_is_stopped() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_montecarlo.c", &["100", "1"]).by(CLOCK);
        victim.record("run.refrain").expect_success();
        let other = victim.with(&["100", "2"]);
        let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other);
        assert!(!stopped.timed_out && [94, 95].contains(&stopped.code), "{stopped}");
        assert!(stopped.stderr.contains("refrain: rank "), "{stopped}");
    }
}

/// A communicator may be freed while receives on it are pending, and ranks may create communicators of different
/// parents in different orders.
#[test]
fn communicators_that_are_freed_early_replay_by_clocks() {
    replays_bit_for_bit(CLOCK, "order_comms.c", &["5"]);
}

/// Little is lost even if the program seldom calls MPI, and if a rank only sends.
#[test]
fn the_record_of_a_slow_run_that_is_killed_lacks_at_most_a_second() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_trickle.c", &["20"]).by(CLOCK);
        let recorded = victim.record("run.refrain");
        assert!(recorded.stderr.contains("truncated"), "{recorded}");
        let replayed = victim.replay("run.refrain");
        assert!(!replayed.timed_out, "{replayed}");
        assert_eq!(replayed.code, 96, "{replayed}");
        let told = ["completing call", ", in MPI_", " order_trickle.c:"];
        assert!(told.iter().all(|word| replayed.stderr.contains(word)), "{replayed}");
        let lines = |outcome: &Outcome| -> Vec<String> {
            outcome.stdout.lines().map(str::to_owned).collect()
        };
        let (recorded, replayed) = (lines(&recorded), lines(&replayed));
        assert!(replayed.len() > recorded.len() / 3, "{} of {}", replayed.len(), recorded.len());
        assert!(recorded.starts_with(&replayed), "{replayed:?} of {recorded:?}");
    }
}

#[test]
fn a_killed_run_replays_and_ends_where_its_record_does() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_crash.c", &["20011"]).by(CLOCK);
        let recorded = victim.record("run.refrain");
        assert!(recorded.stderr.contains("truncated"), "{recorded}");
        let replayed = victim.replay("run.refrain");
        assert!(!replayed.timed_out, "{replayed}");
        assert_eq!(replayed.code, 96, "{replayed}");
    }
}

#[test]
fn a_record_by_clocks_can_be_shown_and_compared() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_montecarlo.c", &["200"]).by(CLOCK);
    victim.record("one.refrain").expect_success();
    victim.record("two.refrain").expect_success();

    let info = victim.look(&["info", "one.refrain", "--json"]).expect_success();
    let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["method"], CLOCK);
    assert_eq!(info["ranks"].to_string(), ranks());
    assert_eq!(info["complete"], true);
    let messages = info["messages"].as_u64().expect("a number");
    let permuted = info["permuted"].as_u64().expect("a number");
    assert!(messages > 1000 && (1..messages).contains(&permuted), "{info}");
    let text = victim.look(&["info", "one.refrain"]).expect_success();
    assert!(text.stdout.contains("method     clock"), "{text}");

    let shown = victim.look(&["show", "one.refrain", "--rank", "1"]).expect_success();
    assert!(shown.stdout.contains("Testsome at main order_montecarlo.c:"), "{shown}");
    assert!(shown.stdout.contains(" by clock"), "{shown}");

    let same = victim.look(&["diff", "one.refrain", "one.refrain"]).expect_success();
    assert_eq!(same.stdout, "no difference\n");
    let other = victim.look(&["diff", "one.refrain", "two.refrain"]);
    assert!(other.code == 1 && other.stdout.contains("one.refrain: "), "{other}");

    let races = victim.look(&["races", "one.refrain"]);
    assert!(races.code != 0 && races.stderr.contains("--method causal"), "{races}");
    let causal = Victim::new(&mpi, "order_montecarlo.c", &["200"]);
    let path = victim.folder.path().join("causal.refrain");
    causal.record(path.to_str().expect("a plain path")).expect_success();
    let mixed = victim.look(&["diff", "one.refrain", "causal.refrain"]);
    assert!(mixed.code != 0 && mixed.stderr.contains("different methods"), "{mixed}");
}
