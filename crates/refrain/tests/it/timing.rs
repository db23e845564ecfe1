//! The times of every call: within their error bounds, for all kinds of programs, and on aligned clocks.

use crate::background::{self, Job};
use refrain_container::{Codec, Container, Writer};
use refrain_testing::{Mpi, Outcome, refrain, workspace};
use refrain_timing::Mode;
use refrain_trace::Trace;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const STENCIL: &str = "../../bench/programs/stencil2d.c";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Traces a program with these options. Returns the trace.
fn record(mpi: &Mpi, folder: &Path, ranks: usize, options: &[&str], program: &[&str]) -> PathBuf {
    let file = mpi.compile_with(program[0], &["-pthread"]);
    let file = file.to_str().expect("a plain path");
    let ranks = ranks.to_string();
    let mut words = vec!["trace", "-o", "t.refrain"];
    words.extend(options);
    words.extend(["--", "mpirun", "-n", &ranks, file]);
    words.extend(&program[1..]);
    let outcome = mpi.refrain_in(folder, words);
    let trace = folder.join("t.refrain");
    assert!(trace.is_file(), "{} {options:?}\n{outcome}", mpi.name());
    trace
}

/// The JSON output of a command on a trace.
fn json(command: &str, trace: &Path) -> (Outcome, Json) {
    let outcome = refrain([command.as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let found = serde_json::from_str(&outcome.stdout).unwrap_or_default();
    (outcome, found)
}

/// Asserts that the times of a trace equal those of its raw records within their error bounds.
fn assert_within(who: &str, trace: &Path) -> Json {
    let (outcome, found) = json("verify", trace);
    assert!(outcome.is_success(), "{who}\n{outcome}");
    let times = &found["times"];
    assert_eq!(times["beyond"], 0, "{who}\n{outcome}");
    assert_eq!(times["compared"], found["calls"], "{who}\n{outcome}");
    assert_eq!(times["calls"], found["calls"], "{who}\n{outcome}");
    assert!(found["calls"].as_u64() > Some(0), "{who}\n{outcome}");
    found
}

/// A copy of a trace with each section replaced by the result of `change`, or left out if that is `None`.
fn changed(trace: &Path, name: &str, change: impl Fn(&str, Vec<u8>) -> Option<Vec<u8>>) -> PathBuf {
    let container = Container::open(trace).expect("a trace");
    let copy = trace.with_file_name(name);
    let mut writer = Writer::create(&copy).expect("a new file");
    for section in container.sections() {
        let mut content = Vec::new();
        let mut input = container.read(&section.name).expect("a section");
        std::io::Read::read_to_end(&mut input, &mut content).expect("a section");
        if let Some(content) = change(&section.name, content) {
            writer.add(&section.name, Codec::Stored, &mut content.as_slice()).expect("room");
        }
    }
    writer.finish().expect("room");
    copy
}

/// The same trace without its raw records.
fn without_records(trace: &Path) -> PathBuf {
    changed(trace, "only.refrain", |name, content| (!name.starts_with("raw/")).then_some(content))
}

/// Rank, thread, number, function, start and end of all calls that `refrain show` prints.
fn shown(trace: &Path) -> Vec<Vec<String>> {
    let outcome = refrain(["show".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let outcome = outcome.expect_success();
    let line = |line: &str| {
        let call: Json = serde_json::from_str(line).expect("a line of JSON");
        let keys = ["rank", "thread", "call", "function", "start", "end", "duration"];
        keys.iter().map(|key| call[key].to_string()).collect()
    };
    outcome.stdout.lines().map(line).collect()
}

#[test]
fn every_mode_keeps_its_error_bound() {
    for mpi in Mpi::representatives() {
        for mode in Mode::ALL.into_iter().filter(|mode| mode.is_available()) {
            let folder = folder();
            let who = format!("{mode} under {}", mpi.name());
            let options = ["--raw", "--timing", mode.word()];
            let trace = record(&mpi, folder.path(), 4, &options, &[STENCIL, "hand", "300"]);
            let found = assert_within(&who, &trace);
            let times = &found["times"];
            assert_eq!(times["mode"], mode.word(), "{who}");
            if mode == Mode::Lossless {
                let exact = (&times["worst_duration_error"], &times["worst_interval_error"]);
                assert_eq!(exact, (&0.0.into(), &0.0.into()), "{who}");
            }
            let messages = &found["messages"];
            // Two messages in each direction between four pairs of neighbours.
            assert_eq!(messages["paired"], 8 * 300, "{who}: {messages}");
            assert_eq!(messages["unpaired"], 0, "{who}: {messages}");
            assert_eq!(messages["beyond_clocks"], 0, "{who}: {messages}");
            println!("{who}: {times} {messages}");
            // The same without raw records.
            let (outcome, found) = json("verify", &without_records(&trace));
            assert!(outcome.is_success(), "{who}\n{outcome}");
            assert_eq!(found["times"]["calls"], found["calls"], "{who}\n{outcome}");
            assert_eq!(found["times"]["compared"], 0, "{who}\n{outcome}");
            assert_eq!(found["messages"]["paired"], 8 * 300, "{who}\n{outcome}");
            println!("{who}, without records: {}", found["messages"]);
        }
    }
}

#[test]
fn a_function_can_have_its_own_error_bound_which_info_prints() {
    let mpi = Mpi::any();
    let folder = folder();
    let options = ["--raw", "--timing", "loop", "--error", "0.2,Waitall=0.001"];
    let trace = record(&mpi, folder.path(), 2, &options, &[STENCIL, "hand", "300"]);
    let found = assert_within("bounds of functions", &trace);
    assert_eq!((&found["times"]["mode"], &found["times"]["error"]), (&"loop".into(), &0.2.into()));
    // The wider bound is used: some durations are off by more than 2 %.
    assert!(found["times"]["worst_duration_error"].as_f64() > Some(0.02), "{found}");
    let (outcome, info) = json("info", &trace);
    let times = &info["times"];
    assert_eq!((&times["mode"], &times["error"]), (&"loop".into(), &0.2.into()), "{outcome}");
    assert_eq!(times["bytes"], info["sections"]["times"], "{outcome}");
    assert!(times["bytes_per_call"].as_f64() < Some(4.0), "{outcome}");
    let text = refrain(["info".as_ref(), trace.as_os_str()]).expect_success().stdout;
    let line = text.lines().find(|line| line.starts_with("times ")).unwrap_or_default();
    assert!(line.contains("loop, within 20 %, MPI_Waitall 0.1 %: "), "{text}");
    assert!(line.ends_with(" times smaller than 16 bytes a call"), "{text}");
    // If the trace claims a tighter bound than it keeps, verification fails.
    let tight = changed(&trace, "tight.refrain", |name, content| match name {
        "timing-setting" => Some(b"loop 0.001\n10000\n".to_vec()),
        _ => Some(content),
    });
    let (outcome, found) = json("verify", &tight);
    assert_eq!(outcome.code, 1, "{outcome}");
    assert!(found["times"]["beyond"].as_u64() > Some(0), "{outcome}");
    assert_eq!(found["different"], 0, "{outcome}");
    let untold = changed(&trace, "untold.refrain", |name, content| {
        (name != "timing-setting").then_some(content)
    });
    assert_eq!(json("verify", &untold).0.code, 1);
}

#[test]
fn callbacks_polls_and_threads_have_times() {
    let programs: [(&[&str], usize); 6] = [
        (&["callbacks.c"], 2),
        (&["polls.c", "20"], 2),
        (&["threads.c"], 2),
        (&["longjmp.c"], 1),
        (&["recursion.c"], 1),
        (&["matrix_point_to_point.c"], 2),
    ];
    for mpi in Mpi::representatives() {
        for (program, ranks) in programs {
            for mode in ["lossless", "loop"] {
                let folder = folder();
                let who = format!("{} {mode} under {}", program[0], mpi.name());
                let options = ["--raw", "--timing", mode];
                let trace = record(&mpi, folder.path(), ranks, &options, program);
                let found = assert_within(&who, &trace);
                println!("{who}: {} {}", found["times"], found["messages"]);
                if mode == "lossless" {
                    assert_eq!(shown(&without_records(&trace)), shown(&trace), "{who}");
                }
            }
        }
    }
}

#[test]
fn lossy_times_never_overlap() {
    let mpi = Mpi::any();
    let folder = folder();
    let options = ["--timing", "loop", "--error", "0.3"];
    let trace = record(&mpi, folder.path(), 4, &options, &[STENCIL, "hand", "300"]);
    let outcome = refrain(["show".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let mut ends = [0; 4];
    let mut calls = 0;
    for line in outcome.expect_success().stdout.lines() {
        let call: Json = serde_json::from_str(line).expect("a line of JSON");
        let number = |key: &str| call[key].as_u64().expect("a number");
        let end = &mut ends[number("rank") as usize];
        assert!(number("start") >= *end, "the call before ended at {end}: {call}");
        *end = number("end");
        calls += 1;
    }
    assert!(calls > 4 * 9 * 300, "{calls} calls");
}

#[test]
fn the_trace_of_a_killed_job_has_the_times_of_its_calls() {
    for mpi in Mpi::representatives() {
        for options in [&["--timing", "lossless"][..], &["--raw", "--timing", "loop"]] {
            let folder = folder();
            let counts = folder.path().join("counts");
            std::fs::write(&counts, vec![0; 4096]).expect("a new file");
            let program = mpi.compile_with("counts_calls.c", &["-pthread"]);
            let args = [counts.to_str().expect("a plain path"), "0", "1"];
            let job = Job::start_with(&mpi, folder.path(), options, 2, &program, &args);
            // More than a few blocks.
            let returned = || {
                let bytes = std::fs::read(&counts).expect("the file is there");
                bytes[8..16].iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte))
            };
            background::wait_until("the program gets on", || returned() > 60_000);
            job.signal_all("KILL");
            let parts = job.parts();
            job.outcome();
            let trace = folder.path().join("run.refrain");
            let words = ["merge".as_ref(), parts.as_os_str(), "-o".as_ref(), trace.as_os_str()];
            let mut words = words.to_vec();
            words.extend(options.contains(&"--raw").then_some(std::ffi::OsStr::new("--raw")));
            refrain(words).expect_success();
            let who = format!("{options:?} under {}", mpi.name());
            let (outcome, found) = json("verify", &trace);
            assert!(outcome.is_success(), "{who}\n{outcome}");
            assert_eq!(found["times"]["calls"], found["calls"], "{who}\n{outcome}");
            assert!(found["calls"].as_u64() > Some(120_000), "{who}\n{outcome}");
            if found["raw"] == true {
                assert_eq!(found["times"]["compared"], found["calls"], "{who}\n{outcome}");
            }
        }
    }
}

#[test]
fn damaged_times_are_reported_and_harm_nothing_else() {
    let mpi = Mpi::any();
    let folder = folder();
    let options = ["--raw", "--timing", "lossless"];
    let trace = record(&mpi, folder.path(), 3, &options, &[STENCIL, "hand", "100"]);
    let calls = assert_within("undamaged", &trace)["calls"].clone();
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 5] = [
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.clear(),
        |bytes| bytes[0] = 0,
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
        },
        |bytes| bytes.fill(0xff),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let damaged = changed(&trace, "damaged.refrain", |name, mut content| {
            if name == "times/1" {
                damage(&mut content);
            }
            Some(content)
        });
        let (outcome, found) = json("verify", &damaged);
        assert_eq!(outcome.code, 1, "damage {number}\n{outcome}");
        assert_eq!((&found["calls"], &found["different"]), (&calls, &0.into()), "{outcome}");
        assert_eq!(found["events_compared"], calls, "{outcome}");
        let problems = found["problems"].as_array().expect("a list");
        assert!(!problems.is_empty(), "damage {number}\n{outcome}");
        for problem in problems {
            assert!(problem.to_string().contains("rank 1, thread 0: "), "{problem}");
        }
        let only = without_records(&damaged);
        for rank in ["0", "2"] {
            let words = ["show".as_ref(), only.as_os_str(), "--rank".as_ref(), rank.as_ref()];
            refrain(words).expect_success();
        }
    }
}

/// The library that skews the clock of each rank.
fn skew(folder: &Path) -> PathBuf {
    let library = folder.join("skew.so");
    let source = workspace().join("tests/preload/skew.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().expect("a compiler").success());
    library
}

/// By rank, when each of its barriers began and ended; `clock` makes a tick comparable.
fn barriers(trace: &Trace, clock: impl Fn(usize, u64) -> u64) -> Vec<Vec<(u64, u64)>> {
    let of = |stream: usize| {
        let events = trace.decoded(stream).expect("a stream").map(|event| event.expect("a call"));
        let barriers = events.filter(|event| event.function.name == "MPI_Barrier");
        let time = |tick: Option<u64>| clock(stream, tick.expect("a call that returned"));
        barriers.map(|event| (time(Some(event.start)), time(event.end))).collect()
    };
    (0..trace.meta().streams.len()).map(of).collect()
}

/// The longest time by which a rank seems to enter a barrier after another has left it.
fn latest(barriers: &[Vec<(u64, u64)>]) -> u64 {
    let late = |n: usize| {
        let start = barriers.iter().map(|rank| rank[n].0).max().unwrap_or(0);
        let end = barriers.iter().map(|rank| rank[n].1).min().unwrap_or(0);
        start.saturating_sub(end)
    };
    (0..barriers[0].len()).map(late).max().unwrap_or(0)
}

/// A trace of four ranks whose clocks are skewed.
fn skewed(mpi: &Mpi, folder: &Path) -> PathBuf {
    let program = mpi.compile("barriers.c");
    let program = program.to_str().expect("a plain path");
    let words = ["trace", "-o", "t.refrain", "--timing", "lossless", "--", "mpirun", "-n", "4"];
    let run = mpi.run(1).bare().program(refrain_testing::refrain_binary()).args(words);
    let run = run.args([program, "100"]).current_dir(folder);
    let run = run.env("LD_PRELOAD", skew(folder)).env("REFRAIN_CLOCK", "system");
    run.output().expect_success();
    folder.join("t.refrain")
}

#[test]
fn skewed_clocks_are_aligned() {
    for mpi in Mpi::representatives() {
        let folder = folder();
        let trace = skewed(&mpi, folder.path());
        let opened = Trace::open(&trace).expect("a trace");
        let streams = &opened.meta().streams;
        assert_eq!(streams.len(), 4, "{}", mpi.name());
        let by_ticks = barriers(&opened, |_, tick| tick);
        assert!(by_ticks.iter().all(|rank| rank.len() == 100), "{}", mpi.name());
        let aligned = latest(&barriers(&opened, |stream, tick| streams[stream].nanos(tick)));
        let off = streams.iter().map(|s| s.uncertainty).max().unwrap_or(0);
        let unaligned = latest(&by_ticks);
        // With the offsets of the clocks at the beginning, but without their drift.
        let drifting = latest(&barriers(&opened, |stream, tick| {
            let [(ticks, nanos), _] = streams[stream].clock;
            nanos.wrapping_add(tick.wrapping_sub(ticks))
        }));
        println!(
            "{}: {unaligned} ns late, without drift {drifting}, aligned {aligned}, may be {off}",
            mpi.name()
        );
        // With a clock that is 50 ms off, one rank seems to leave long before another enters.
        assert!(unaligned > 40_000_000, "{}: {unaligned}", mpi.name());
        assert!(drifting > 200_000, "{}: {drifting}", mpi.name());
        assert!(aligned <= 2 * off, "{}: {aligned} > 2 * {off}", mpi.name());
        assert!(off > 0 && off < 20_000_000, "{}: {off}", mpi.name());
        let (outcome, found) = json("verify", &trace);
        let messages = &found["messages"];
        assert_eq!((&messages["paired"], &messages["unpaired"]), (&400.into(), &0.into()));
        assert_eq!(messages["beyond_clocks"], 0, "{outcome}");
    }
}

#[test]
fn messages_received_before_they_were_sent_are_reported() {
    let mpi = Mpi::any();
    let folder = folder();
    let options = ["--timing", "lossless"];
    let trace = record(&mpi, folder.path(), 3, &options, &["barriers.c", "20"]);
    let mut meta = Trace::open(&trace).expect("a trace").meta().clone();
    // The clock of rank 1 is half a second ahead: its messages seem to be received before they are sent.
    meta.streams[1].clock.iter_mut().for_each(|(_, nanos)| *nanos += 500_000_000);
    let ahead = changed(&trace, "ahead.refrain", |name, content| match name {
        "clocks" => Some(refrain_trace::clocks::to_bytes(&meta)),
        _ => Some(content),
    });
    let (outcome, found) = json("verify", &ahead);
    assert!(outcome.is_success(), "a remark is no error\n{outcome}");
    let messages = &found["messages"];
    assert_eq!((&messages["paired"], &messages["early"]), (&60.into(), &20.into()), "{outcome}");
    assert_eq!(messages["beyond_clocks"], 20, "{outcome}");
    assert!(messages["worst_ns"].as_u64() > Some(300_000_000), "{outcome}");
    let remark = found["remarks"].to_string();
    assert!(remark.contains("20 of 60 messages received before they were sent"), "{outcome}");
}
