//! `refrain record` and `refrain replay` on real programs: a replay has the recorded results bit for bit,
//! a program that diverges is stopped, and a killed run is replayed up to where its record ends.

use crate::order_programs::{Victim, assert_same, ranks, replays_bit_for_bit, times};
use refrain_testing::{Mpi, Outcome, is_full, sorted_lines};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn particles_replay_bit_for_bit() {
    // Enough for several blocks.
    replays_bit_for_bit("causal", "order_montecarlo.c", &["2000"]);
}

#[test]
fn a_master_and_its_workers_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_master.c", &["5000"]);
}

#[test]
fn pipelines_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_waitany.c", &["200"]);
}

#[test]
fn a_rank_that_looks_for_messages_replays_bit_for_bit() {
    // Enough for several blocks: a block may end between a probe and its result.
    replays_bit_for_bit("causal", "order_iprobe.c", &["4000"]);
}

#[test]
fn threads_that_call_mpi_at_the_same_time_replay_bit_for_bit() {
    replays_bit_for_bit("causal", "order_threads.c", &["30"]);
}

/// The scheduler also decides which thread gets a lock of the program. A thread that waits for its turn while it
/// holds a lock must not wait for a thread that needs the lock.
#[test]
fn threads_that_call_mpi_under_locks_of_their_own_replay_bit_for_bit() {
    for mpi in Mpi::usual() {
        for how in ["mutex", "try", "queue", "semaphore", "serialized"] {
            let victim = Victim::new(&mpi, "order_locks.c", &[how, "20"]);
            let recorded = victim.record("run.refrain").expect_success();
            for _ in 0..if is_full() { 20 } else { 1 } {
                assert_same(&recorded, &victim.replay("run.refrain").expect_success());
            }
        }
    }
}

/// Particles whose receives complete together, not in the order in which they were posted. The replay must not
/// use a request after it has completed.
#[test]
fn receives_that_complete_together_replay_bit_for_bit() {
    for mpi in Mpi::usual() {
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

/// New in MPI 4: Isendrecv, partitioned receives, MPI_Request_get_status for several requests.
#[test]
fn the_newer_ways_to_receive_replay_bit_for_bit() {
    let is_newer = |mpi: &Mpi| ["mpich-5.0", "mpich-5.0-abi", "openmpi-5.0"].contains(&mpi.name());
    for mpi in Mpi::with("an MPI of version 4 or later", is_newer) {
        let victim = Victim::new(&mpi, "order_paths.c", &["all", "5"]);
        let recorded = victim.record("run.refrain").expect_success();
        if mpi.name().starts_with("mpich") {
            for path in ["isendrecv 0:", "partitioned 0:", "get_status_of_several 0:"] {
                assert!(recorded.stdout.contains(path), "no `{path}` in\n{recorded}");
            }
        }
        assert_same(&recorded, &victim.replay("run.refrain").expect_success());
    }
}

/// Sessions instead of MPI_Init, one of which outlives the other.
#[test]
fn programs_with_sessions_alone_replay_bit_for_bit() {
    let has_sessions = |mpi: &Mpi| match mpi.name() {
        "mpich-4.0" | "openmpi-5.0" => true,
        "openmpi-4.1" | "path" => false,
        _ => is_full(),
    };
    for mpi in Mpi::with("an MPI with sessions", has_sessions) {
        let victim = Victim::new(&mpi, "order_sessions.c", &["50"]);
        let recorded = victim.record("run.refrain").expect_success();
        assert!(!recorded.stderr.contains("note:"), "{recorded}");
        for _ in 0..times() {
            assert_same(&recorded, &victim.replay("run.refrain").expect_success());
        }
        let other = victim.with(&["60"]);
        let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other);
        assert!(!stopped.timed_out && [94, 95].contains(&stopped.code), "{stopped}");
        let clocks = victim.run(&["record", "--method", "clock", "--"], &victim.words);
        assert!(clocks.stderr.contains("sessions"), "{clocks}");
    }
}

#[test]
fn fortran_replays_bit_for_bit() {
    replays_bit_for_bit("causal", "order_fortran.F90", &[]);
}

#[test]
fn times_and_random_numbers_are_replayed_if_requested() {
    for mpi in Mpi::usual() {
        for source in ["order_random.c", "order_draws.cpp"] {
            let victim = Victim::new(&mpi, source, &[]);
            let record = ["record", "--rand", "-o", "run.refrain", "--"];
            let recorded = victim.run(&record, &victim.words).expect_success();
            for _ in 0..times() {
                assert_same(&recorded, &victim.replay("run.refrain").expect_success());
            }
        }
    }
}

/// The other tests prove nothing if the victims print the same every time.
#[test]
fn the_programs_differ_from_run_to_run() {
    for mpi in Mpi::usual() {
        for (source, arguments) in [
            ("order_montecarlo.c", &["300"][..]),
            ("order_master.c", &["500"]),
            ("order_waitany.c", &["200"]),
            ("order_crash.c", &["1000"]),
            ("order_iprobe.c", &["100"]),
            ("order_threads.c", &["30"]),
            ("order_locks.c", &["mutex", "30"]),
            ("order_locks.c", &["queue", "30"]),
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
fn a_program_that_diverges_is_stopped() {
    for mpi in Mpi::usual() {
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

/// The calls in which the ranks hang are not recorded, so no rank checks for progress itself.
#[test]
fn ranks_that_all_hang_in_unrecorded_calls_are_named() {
    let hangs = [
        ("barriers", ["rank 0 is in MPI_Barrier", "rank 3 is in MPI_Barrier"]),
        ("send", ["rank 0 is in MPI_Ssend", "rank 1 is in MPI_Barrier"]),
        ("finalize", ["rank 0 is in MPI_Barrier", "rank 1 is in MPI_Finalize"]),
    ];
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_hang.c", &["meet"]);
        let recorded = victim.record("run.refrain").expect_success();
        for (how, told) in hangs.iter().take(if is_full() { 3 } else { 1 }) {
            let other = victim.with(&[how]);
            let stopped = victim.run(&["replay", "--stall", "0.1s", "run.refrain", "--"], &other);
            assert_eq!(stopped.code, 95, "{stopped}");
            for line in told {
                assert!(stopped.stderr.contains(line), "no `{line}` in\n{stopped}");
            }
        }
        assert_same(&recorded, &victim.replay("run.refrain").expect_success());
        assert!(victim.is_clean(), "something was left behind");
        // The message that came in place of the recorded one.
        let other = victim.with(&["tag"]);
        let stopped = victim.run(&["replay", "--stall", "1s", "run.refrain", "--"], &other);
        assert_eq!(stopped.code, 95, "{stopped}");
        let told = "for a message from 0 with tag 2; there is one with tag 3";
        assert!(stopped.stderr.contains(told), "{stopped}");
    }
}

/// A trace of calls is replayed without times.
#[test]
fn a_trace_of_calls_is_replayed_too() {
    let untimed = |outcome: &Outcome| {
        let line = |line: &&str| line.split(" in ").next().unwrap_or_default().to_owned();
        sorted_lines(&outcome.stdout).iter().map(line).collect::<Vec<String>>()
    };
    for mpi in Mpi::usual() {
        for (source, arguments) in [
            ("order_montecarlo.c", &["100"][..]),
            ("order_master.c", &["300"]),
            ("order_waitany.c", &["50"]),
            ("order_iprobe.c", &["100"]),
            ("order_paths.c", &["traced", "3"]),
        ] {
            let victim = Victim::new(&mpi, source, arguments);
            // Call sites add data; no call is missing.
            let sites = if source == "order_master.c" { "return" } else { "none" };
            let trace = ["trace", "--callsite", sites, "-o", "run.refrain", "--"];
            let traced = victim.run(&trace, &victim.words).expect_success();
            for _ in 0..if is_full() { 20 } else { 2 } {
                let replayed = victim.replay("run.refrain").expect_success();
                assert_eq!(untimed(&traced), untimed(&replayed), "{replayed}");
            }
            assert!(victim.is_clean(), "something was left behind");
        }
    }
}

#[test]
fn a_trace_with_missing_calls_is_refused() {
    let mpi = Mpi::any();
    let traced = |victim: &Victim, options: &[&str]| {
        let options = [&["trace", "-o", "run.refrain"], options, &["--"]].concat();
        victim.run(&options, &victim.words).expect_success();
        victim.replay("run.refrain")
    };
    let master = Victim::new(&mpi, "order_master.c", &["20"]);
    let paths = Victim::new(&mpi, "order_paths.c", &["freed", "1"]);
    let threads = Victim::new(&mpi, "order_threads.c", &["3"]);
    for (refused, why) in [
        (traced(&master, &["--functions", "Recv"]), "recorded with `--functions Recv`"),
        (traced(&master, &["--ranks", "0-1"]), "recorded with `--ranks 0-1`"),
        (traced(&paths, &[]), "freed before it completes"),
        (traced(&threads, &[]), "does not have the order among them"),
    ] {
        assert_eq!(refused.code, 125, "{refused}");
        assert!(refused.stderr.contains(why), "no `{why}` in\n{refused}");
    }
}

/// A program that diverges is stopped, with the position of the divergence.
#[test]
fn a_program_that_diverges_from_its_trace_is_stopped() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_montecarlo.c", &["100"]);
    victim.run(&["trace", "-o", "run.refrain", "--"], &victim.words).expect_success();
    let other = Victim::new(&mpi, "order_master.c", &["100"]);
    let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other.words);
    assert_eq!(stopped.code, 94, "{stopped}");
    for word in ["diverged", "expected", "got", "which is at order_master", "MPI_Wtime"] {
        assert!(stopped.stderr.contains(word), "no `{word}` in\n{stopped}");
    }
}

#[test]
fn a_replay_waits_for_a_rank_that_computes_for_long() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_slow.c", &["3"]);
    let recorded = victim.record("run.refrain").expect_success();
    let replayed = victim.run(&["replay", "--stall", "1s", "run.refrain", "--"], &victim.words);
    assert_same(&recorded, &replayed.expect_success());
}

#[test]
fn a_program_that_ends_early_or_late_is_stopped() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_master.c", &["100"]);
        victim.record("run.refrain").expect_success();
        for tasks in ["50", "200"] {
            let other = victim.with(&[tasks]);
            let stopped = victim.run(&["replay", "--stall", "2s", "run.refrain", "--"], &other);
            assert!(!stopped.timed_out && (94..=95).contains(&stopped.code), "{stopped}");
        }
        let nothing = [&victim.words[..3], &["true".to_owned()]].concat();
        let stopped = victim.run(&["replay", "run.refrain", "--"], &nothing);
        assert_eq!(stopped.code, 94, "{stopped}");
        assert!(stopped.stderr.contains("all ranks ended without MPI_Finalize"), "{stopped}");
    }
}

#[test]
fn a_killed_run_replays_up_to_the_end_of_its_record() {
    for mpi in Mpi::usual() {
        for messages in ["700", "20011"] {
            let victim = Victim::new(&mpi, "order_crash.c", &[messages]);
            let recorded = victim.record("run.refrain");
            let last = |outcome: &Outcome| -> String {
                let line = outcome.stdout.lines().find(|line| line.starts_with("after"));
                line.unwrap_or_else(|| panic!("it did not get there\n{outcome}")).to_owned()
            };
            assert!(recorded.stderr.contains("truncated"), "{recorded}");
            for _ in 0..times() {
                let replayed = victim.replay("run.refrain");
                assert!(!replayed.timed_out && replayed.code != 0, "{replayed}");
                assert_eq!(last(&recorded), last(&replayed), "{replayed}");
            }
        }
    }
}

/// Programs read MPI_Wtime in loops: each value takes less than a byte, and `refrain info` gives their bytes
/// separately from those of receives.
#[test]
fn times_that_are_read_very_often_take_less_than_a_byte_per_value() {
    for mpi in Mpi::usual() {
        for (method, how) in [("causal", "spin"), ("causal", "timers"), ("clock", "spin")] {
            let victim = Victim::new(&mpi, "order_spin.c", &[how, "200000"]).by(method).on("2");
            let recorded = victim.record("run.refrain").expect_success();
            let warning = "of clocks and random numbers: the program reads MPI_Wtime very often";
            assert!(recorded.stderr.contains(warning), "{method} {how}: {recorded}");
            let info = victim.look(&["info", "run.refrain", "--json"]).expect_success();
            let info: serde_json::Value = serde_json::from_str(&info.stdout).expect("JSON");
            let number =
                |name: &str| info[name].as_f64().unwrap_or_else(|| panic!("{name}: {info}"));
            assert!(number("clock_values") >= 400_000.0, "{info}");
            let each = number("value_bytes") / number("clock_values");
            assert!((0.01..0.8).contains(&each), "{method} {how}: {each} bytes a value");
            if method == "causal" {
                let others = number("order_bytes") - number("value_bytes");
                let told = number("bytes_per_receive") * number("receives");
                assert!((others - told).abs() < 1.0, "{info}");
            }
            assert_same(&recorded, &victim.replay("run.refrain").expect_success());
        }
    }
}

#[test]
fn the_clock_can_be_left_out_of_a_record() {
    for mpi in Mpi::usual() {
        for method in ["causal", "clock"] {
            let victim = Victim::new(&mpi, "order_spin.c", &["spin", "200000", "quiet"]).by(method);
            let record = ["record", "--no-clock", "--method", method, "-o", "run.refrain", "--"];
            let recorded = victim.run(&record, &victim.words).expect_success();
            assert!(!recorded.stderr.contains("very often"), "{recorded}");
            let info = victim.look(&["info", "run.refrain"]).expect_success();
            assert!(info.stdout.contains("values     0 of clocks"), "{info}");
            assert!(info.stdout.contains("(--no-clock)"), "{info}");
            victim.replay("run.refrain").expect_success();
        }
    }
}

/// Whether a call writes MPI_ERROR of a status depends on the MPI library, the function and the request. A
/// replay completes requests with other functions, and must leave the same values.
#[test]
fn statuses_have_the_same_mpi_error_in_a_replay() {
    for mpi in Mpi::usual() {
        for method in ["causal", "clock"] {
            for arguments in [&[][..], &["multiple"]] {
                let victim = Victim::new(&mpi, "order_status_errors.c", arguments).by(method);
                let plain = victim.plain().expect_success();
                assert!(plain.stdout.contains("0 both waitall 6: 0 0 0 0 0 0"), "{plain}");
                assert!(plain.stdout.contains("0 both wait 2: untouched untouched"), "{plain}");
                let recorded = victim.record("run.refrain").expect_success();
                assert_eq!(plain.stdout, recorded.stdout, "{method}: recording differs");
                let replayed = victim.replay("run.refrain").expect_success();
                assert_eq!(plain.stdout, replayed.stdout, "{method}: a replay differs");
            }
        }
    }
}

/// A program that makes no more recorded calls continues to MPI_Finalize.
#[test]
fn a_truncated_record_ends_the_replay_even_if_no_recorded_call_follows() {
    for mpi in Mpi::usual() {
        for method in ["causal", "clock"] {
            let victim = Victim::new(&mpi, "order_collectives_after.c", &["killed"]).by(method);
            let recorded = victim.record("run.refrain");
            assert!(recorded.code != 0, "{recorded}");
            let whole = victim.with(&["whole"]);
            let replayed = victim.run(&["replay", "--stall", "20s", "run.refrain", "--"], &whole);
            assert_eq!(replayed.code, 96, "{method}: {replayed}");
            assert!(replayed.stderr.contains("the record ends here, after "), "{replayed}");
            assert!(replayed.stderr.contains("the recorded run went no further"), "{replayed}");
            if method == "causal" {
                assert!(replayed.stderr.contains("calls, in MPI_Finalize"), "{replayed}");
            }
        }
    }
}

/// Launchers may end before their ranks do, and the next recording may have the same name.
#[test]
fn a_rank_that_outlives_its_folder_does_not_write_to_the_next_one() {
    for method in ["causal", "clock"] {
        let mpi = Mpi::any();
        let victim = Victim::new(&mpi, "order_slow.c", &["2"]);
        let _turn = refrain_testing::turn();
        let record = ["record", "--method", method, "-o", "run.refrain", "--"];
        let mut command = victim.command(&record, &victim.words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut job = command.spawn().expect("it can be started");
        let at = |name: &str| victim.folder.path().join(name);
        let parts = at("run.refrain.parts");
        // The last rank computes and makes no call. The others write the call site of their receive, which is the
        // last thing that any rank writes before the computation ends.
        let last: u32 = ranks().parse::<u32>().expect("a number") - 1;
        let is_at_work = |rank: u32| {
            let facts = std::fs::read(parts.join(format!("rank-{rank}.facts"))).unwrap_or_default();
            let wanted = if rank == last { b"size " } else { b"site " };
            facts.windows(5).any(|word| word == wanted)
        };
        while !(0..=last).all(is_at_work) {
            assert!(job.try_wait().expect("it runs").is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::rename(&parts, at("before")).expect("it can be moved");
        std::fs::create_dir(&parts).expect("a new one");
        let files = ["rank-0.order", "rank-0.facts", "rank-1.order", "rank-1.facts"];
        for name in files {
            std::fs::write(parts.join(name), "").expect("a file");
            std::fs::hard_link(parts.join(name), at(name)).expect("another name");
        }
        assert!(job.wait().expect("it ends").success());
        for name in files {
            assert_eq!(std::fs::read(at(name)).expect("it is there"), b"", "{method}: {name}");
        }
    }
}

/// Receives that stay pending while others complete are sealed with later blocks, if they are few.
#[test]
fn receives_that_stay_pending_replay_bit_for_bit() {
    for pending in ["60", "65", "300"] {
        replays_bit_for_bit("causal", "order_pending.c", &[pending, "5000"]);
    }
}

/// The messages before the observed one are known, however many receives wait for other messages.
#[test]
fn messages_that_a_killed_rank_has_not_observed_are_known() {
    for mpi in Mpi::usual() {
        let victim = Victim::new(&mpi, "order_pending.c", &["0", "200", "killed"]);
        let seen = |outcome: &Outcome| -> Vec<String> {
            let lines = outcome.stdout.lines().filter(|line| line.starts_with("receive"));
            lines.map(str::to_owned).collect()
        };
        let recorded = victim.record("run.refrain");
        assert_eq!(seen(&recorded).len(), 2, "{recorded}");
        let replayed = victim.replay("run.refrain");
        assert_eq!(seen(&recorded), seen(&replayed), "{replayed}");
    }
}

#[test]
fn another_number_of_ranks_is_refused() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_master.c", &[]);
    victim.record("run.refrain").expect_success();
    let mut words = victim.words.clone();
    words[2] = "3".to_owned();
    let refused = victim.run(&["replay", "run.refrain", "--"], &words);
    assert_eq!(refused.code, 125, "{refused}");
    let said = format!("the command starts 3 ranks, but run.refrain has {}", ranks());
    assert!(refused.stderr.contains(&said), "{refused}");
    let none = victim.run(&["replay", "nothing.refrain", "--"], &victim.words);
    assert_eq!(none.code, 125, "{none}");
    for (until, why) in [("99:0", "there is no rank 99"), ("0:1000000", "numbered from 0")] {
        let refused = victim.run(&["replay", "run.refrain", "--until", until, "--"], &victim.words);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{refused}");
    }
    let stats = victim.look(&["stats", "run.refrain"]);
    assert!(stats.code == 125 && stats.stderr.contains("holds receive orders"), "{stats}");
}

/// Everything that can be replayed can also be analysed.
#[test]
fn traces_can_be_analysed_for_races_and_differences() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_master.c", &["300"]);
    for (name, sites) in
        [("one.refrain", "return"), ("two.refrain", "return"), ("none.refrain", "none")]
    {
        let trace = ["trace", "--callsite", sites, "-o", name, "--"];
        victim.run(&trace, &victim.words).expect_success();
    }
    let races = victim.look(&["races", "one.refrain"]).expect_success();
    assert!(races.stdout.contains("main order_master.c:"), "{races}");
    assert!(races.stdout.contains("could have matched another message"), "{races}");
    let races = victim.look(&["races", "none.refrain"]).expect_success();
    assert!(races.stdout.contains("MPI_Recv: receives of any source"), "{races}");
    let same = victim.look(&["diff", "--receives", "one.refrain", "one.refrain"]).expect_success();
    assert_eq!(same.stdout, "no difference\n");
    let other = victim.look(&["diff", "--receives", "one.refrain", "two.refrain"]);
    assert_eq!(other.code, 1, "{other}");
    assert!(other.stdout.contains(" receives differ; the first:"), "{other}");
    assert!(other.stdout.contains(&format!(" of {} ranks differ: ", ranks())), "{other}");
    victim.record("record.refrain").expect_success();
    let refused = victim.look(&["diff", "one.refrain", "record.refrain"]);
    assert!(
        refused.code == 125 && refused.stderr.contains("two records, or two traces"),
        "{refused}"
    );
    // Blocking receives have the number of the receive that they post.
    let shown = victim.look(&["show", "record.refrain", "--rank", "0"]).expect_success();
    let linked = |list: &str, other: &str| {
        let of_list = |line: &&str| line.contains(&format!("  {list} 0: "));
        shown.stdout.lines().find(of_list).is_some_and(|line| line.contains(&format!(" ({other} ")))
    };
    assert!(linked("receive", "call") && linked("call", "receive"), "{shown}");
}

#[test]
fn a_record_says_which_receives_a_call_completed() {
    for mpi in Mpi::representatives() {
        let victim = Victim::new(&mpi, "completed_receives.c", &[]).on("4");
        let run = victim.record("r.refrain").expect_success();
        let shown = victim.look(&["show", "r.refrain", "--rank", "0", "--json"]).expect_success();
        let lines: Vec<serde_json::Value> =
            shown.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        // As the program prints them.
        let call = |line: &serde_json::Value| {
            let number = line["call"].as_u64()?;
            let mut text = format!("call {number} {}", line["kind"].as_str()?);
            for one in line["completed_receives"].as_array()? {
                text += &format!(" {}:{}", one["request"], one["receive"]);
            }
            Some(text)
        };
        let calls: Vec<String> = lines.iter().filter_map(call).collect();
        let told: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(calls, told, "{}", mpi.name());
        assert!(told.len() > 40, "{run}");
        for kind in ["Waitany", "Waitsome", "Waitall"] {
            assert!(run.stdout.contains(kind), "{kind}: {run}");
        }
        // Every receive names the call that names it.
        let completed_by = |receive: u64| {
            let of_receive = |line: &&serde_json::Value| line["receive"] == receive;
            lines.iter().find(of_receive).and_then(|line| line["completed_by"].as_u64())
        };
        let mut receives = 0;
        for line in &lines {
            for one in line["completed_receives"].as_array().into_iter().flatten() {
                let receive = one["receive"].as_u64().expect("a number");
                assert_eq!(completed_by(receive), line["call"].as_u64(), "{}", mpi.name());
                receives += 1;
            }
        }
        assert_eq!(receives, 3 * 40 + 3, "{}", mpi.name());
        let shown = victim.look(&["show", "r.refrain", "--rank", "0"]).expect_success();
        let last = format!(" (receives {}, {}, {})", receives - 3, receives - 2, receives - 1);
        assert!(shown.stdout.lines().last().is_some_and(|line| line.ends_with(&last)), "{shown}");
        // What readers need does not concern a replay.
        victim.replay("r.refrain").expect_success();
    }
}

#[test]
fn info_show_diff_and_races_describe_a_record() {
    let mpi = Mpi::any();
    let victim = Victim::new(&mpi, "order_montecarlo.c", &["200"]);
    victim.record("one.refrain").expect_success();
    // With another seed, so that it differs for certain.
    let other = victim.with(&["200", "2"]);
    victim.run(&["record", "-o", "two.refrain", "--"], &other).expect_success();

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

    let calls =
        victim.look(&["show", "one.refrain", "--function", "MPI_Testsome"]).expect_success();
    assert!(calls.stdout.lines().all(|line| line.contains(": Testsome at ")), "{calls}");
    let none = victim.look(&["show", "one.refrain", "--function", "Send"]);
    assert!(none.code == 2 && none.stderr.contains("no other calls than these"), "{none}");

    let same = victim.look(&["diff", "one.refrain", "one.refrain"]).expect_success();
    assert_eq!(same.stdout, "no difference\n");
    let other = victim.look(&["diff", "one.refrain", "two.refrain"]);
    assert!(other.code == 1 && other.stdout.contains("one.refrain: "), "{other}");

    let races = victim.look(&["races", "one.refrain"]).expect_success();
    assert!(races.stdout.contains("could have matched another message"), "{races}");
}
