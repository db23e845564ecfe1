//! `refrain record` and `refrain replay` on real programs: what was recorded is replayed bit for
//! bit, what diverges is stopped, and what was killed is replayed up to where it was.

mod order_programs;

use order_programs::{Victim, assert_same, mpis, ranks, replays_bit_for_bit, times};
use refrain_testing::{Outcome, sorted_lines};
use std::collections::BTreeSet;

#[test]
fn particles_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_montecarlo.c", &["300"]);
}

#[test]
fn a_master_and_its_workers_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_master.c", &["500"]);
}

#[test]
fn pipelines_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_waitany.c", &["200"]);
}

#[test]
fn a_rank_that_looks_for_messages_replays_bit_for_bit() {
    replays_bit_for_bit("causal", "order_iprobe.c", &["100"]);
}

#[test]
fn threads_that_call_mpi_at_the_same_time_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_threads.c", &["30"]);
}

/// Particles whose receives complete together, out of the order they were posted in: none is asked for
/// when it is gone.
#[test]
fn receives_that_complete_together_replay_bit_for_bit() {
    for mpi in mpis() {
        let mut victim = Victim::new(&mpi, "order_montecarlo.c", &["3000"]);
        victim.words[2] = "2".to_owned();
        let recorded = victim.record("run.refrain").expect_success();
        assert_same(&recorded, &victim.replay("run.refrain").expect_success());
    }
}

#[test]
fn every_way_to_receive_replays_bit_for_bit() {
    replays_bit_for_bit("causal", "order_paths.c", &["all", "10"]);
}

#[test]
fn fortran_replays_bit_for_bit() {
    replays_bit_for_bit("causal", "order_fortran.F90", &[]);
}

#[test]
fn clocks_and_random_numbers_are_replayed_if_that_is_wanted() {
    for mpi in mpis() {
        let victim = Victim::new(&mpi, "order_random.c", &[]);
        let recorded = victim.run(&["record", "--rand", "-o", "run.refrain", "--"], &victim.words);
        for _ in 0..times() {
            assert_same(&recorded, &victim.replay("run.refrain").expect_success());
        }
    }
}

/// A victim that prints the same every time would show nothing.
#[test]
fn the_programs_differ_from_run_to_run() {
    for mpi in mpis() {
        for (source, arguments) in [
            ("order_montecarlo.c", &["300"][..]),
            ("order_master.c", &["500"]),
            ("order_waitany.c", &["200"]),
            ("order_crash.c", &["1000"]),
            ("order_iprobe.c", &["100"]),
            ("order_threads.c", &["30"]),
            ("order_paths.c", &["all", "5"]),
        ] {
            let victim = Victim::new(&mpi, source, arguments);
            let program = &victim.words[3];
            let ranks = ranks().parse().expect("a number");
            let mut seen = BTreeSet::new();
            for _ in 0..10 {
                let run = mpi.run(ranks).program(program).args(arguments).output();
                let lines: Vec<String> =
                    sorted_lines(&run.stdout).into_iter().map(str::to_owned).collect();
                seen.insert(lines);
                if seen.len() > 1 {
                    break;
                }
            }
            assert!(seen.len() > 1, "{source} prints the same with {} every time", mpi.name());
        }
    }
}

#[test]
fn a_program_that_does_something_else_is_stopped() {
    for mpi in mpis() {
        let victim = Victim::new(&mpi, "order_montecarlo.c", &["100", "1"]);
        victim.record("run.refrain").expect_success();
        let other = victim.with(&["100", "2"]);
        let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other);
        assert!(!stopped.timed_out && [94, 95].contains(&stopped.code), "{stopped}");
        assert!(stopped.stderr.contains("refrain: rank "), "{stopped}");

        let master = Victim::new(&mpi, "order_master.c", &[]);
        let record = victim.folder.path().join("run.refrain");
        let stopped = master.replay(record.to_str().expect("a plain path"));
        assert_eq!(stopped.code, 94, "{stopped}");
        for word in ["rank ", "diverged", "expected", "got", "recorded", "order_montecarlo"] {
            assert!(stopped.stderr.contains(word), "no `{word}` in\n{stopped}");
        }
    }
}

#[test]
fn who_computes_for_long_is_waited_for() {
    let Some(mpi) = mpis().into_iter().next() else { return };
    let victim = Victim::new(&mpi, "order_slow.c", &["3"]);
    let recorded = victim.record("run.refrain").expect_success();
    let replayed = victim.run(&["replay", "--stall", "1s", "run.refrain", "--"], &victim.words);
    assert_same(&recorded, &replayed.expect_success());
}

#[test]
fn a_program_that_ends_early_or_late_is_stopped() {
    for mpi in mpis() {
        let victim = Victim::new(&mpi, "order_master.c", &["100"]);
        victim.record("run.refrain").expect_success();
        for tasks in ["50", "200"] {
            let other = victim.with(&[tasks]);
            let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other);
            assert!(!stopped.timed_out && (94..=96).contains(&stopped.code), "{stopped}");
        }
    }
}

#[test]
fn a_killed_run_replays_up_to_where_it_was() {
    for mpi in mpis() {
        for messages in ["700", "20011"] {
            let victim = Victim::new(&mpi, "order_crash.c", &[messages]);
            let recorded = victim.record("run.refrain");
            let last = |outcome: &Outcome| -> String {
                let line = outcome.stdout.lines().find(|line| line.starts_with("after"));
                line.unwrap_or_else(|| panic!("it did not get there\n{outcome}")).to_owned()
            };
            assert!(recorded.stderr.contains("cut short"), "{recorded}");
            for _ in 0..times() {
                let replayed = victim.replay("run.refrain");
                assert!(!replayed.timed_out && replayed.code != 0, "{replayed}");
                assert_eq!(last(&recorded), last(&replayed), "{replayed}");
            }
        }
    }
}

#[test]
fn another_number_of_ranks_is_refused() {
    let Some(mpi) = mpis().into_iter().next() else { return };
    let victim = Victim::new(&mpi, "order_master.c", &[]);
    victim.record("run.refrain").expect_success();
    let mut words = victim.words.clone();
    words[2] = "3".to_owned();
    let refused = victim.run(&["replay", "run.refrain", "--"], &words);
    assert_eq!(refused.code, 125, "{refused}");
    let said = format!("3 ranks are asked for, but run.refrain has {}", ranks());
    assert!(refused.stderr.contains(&said), "{refused}");
    let none = victim.run(&["replay", "nothing.refrain", "--"], &victim.words);
    assert_eq!(none.code, 125, "{none}");
}

#[test]
fn a_record_can_be_looked_at() {
    let Some(mpi) = mpis().into_iter().next() else { return };
    let victim = Victim::new(&mpi, "order_montecarlo.c", &["200"]);
    victim.record("one.refrain").expect_success();
    victim.record("two.refrain").expect_success();

    let info = victim.look(&["info", "one.refrain", "--json"]).expect_success();
    let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
    assert_eq!(info["ranks"].to_string(), ranks());
    assert_eq!(info["complete"], true);
    let receives = info["receives"].as_u64().expect("a number");
    assert!(receives > 1000, "{info}");
    assert!(info["bytes_per_receive"].as_f64().is_some_and(|each| each < 1.0), "{info}");
    assert!(info["failed_polls"].as_u64().is_some(), "{info}");

    let shown = victim.look(&["show", "one.refrain", "--rank", "1"]).expect_success();
    assert!(shown.stdout.contains("receive 0: any source"), "{shown}");
    assert!(shown.stdout.contains("Testsome at main order_montecarlo.c:"), "{shown}");

    let same = victim.look(&["diff", "one.refrain", "one.refrain"]).expect_success();
    assert_eq!(same.stdout, "no difference\n");
    let other = victim.look(&["diff", "one.refrain", "two.refrain"]);
    assert!(other.code == 1 && other.stdout.contains("one.refrain: "), "{other}");

    let races = victim.look(&["races", "one.refrain"]).expect_success();
    assert!(races.stdout.contains("could have got another message"), "{races}");
}
