//! Traces of jobs that are killed, of full disks, and of folders that are removed: the program is never affected,
//! and the trace has every call that had returned.
//!
//! The victim `counts_calls` counts the calls that it began and the calls that returned in a mapped
//! file, so the test knows exactly what the trace must have, whenever the victim is killed.

use crate::background::{Job, signal, wait_until};
use refrain_reader::view::TaskView;
use refrain_testing::{Mpi, Outcome, SmallFileSystem, refrain, sorted_lines};
use refrain_trace::{Ended, Trace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const THREADS: &[&str] = &["-pthread"];

fn counter(mpi: &Mpi) -> PathBuf {
    mpi.compile_with("counts_calls.c", THREADS)
}

/// The file in which a job of `counts_calls` counts.
struct Counts {
    path: PathBuf,
    ranks: usize,
    threads: usize,
}

impl Counts {
    fn new(folder: &Path, ranks: usize, threads: usize) -> Counts {
        let path = folder.join("counts");
        std::fs::write(&path, vec![0; 4096]).expect("a new file");
        Counts { path, ranks, threads }
    }

    /// By rank and thread, calls begun and calls returned.
    fn read(&self) -> Vec<Vec<(u64, u64)>> {
        let bytes = std::fs::read(&self.path).expect("the file is there");
        let number = |at: usize| bytes[8 * at..8 * at + 8].iter().rev();
        let number = |at: usize| number(at).fold(0, |n, byte| n << 8 | u64::from(*byte));
        let pair = |at: usize| (number(2 * at), number(2 * at + 1));
        let rank = |r: usize| (0..self.threads).map(|t| pair(r * self.threads + t)).collect();
        (0..self.ranks).map(rank).collect()
    }

    /// Waits until every thread of every rank has made this many calls.
    fn wait_for(&self, calls: u64) {
        wait_until("the program gets on", || {
            self.read().iter().flatten().all(|(_, returned)| *returned >= calls)
        });
    }

    fn args(&self, iterations: u64) -> [String; 3] {
        let path = self.path.to_str().expect("a plain path").to_owned();
        [path, iterations.to_string(), self.threads.to_string()]
    }

    /// Asserts that the trace has every call that returned, and no others except those that were returning
    /// when the job ended.
    fn assert_recorded(&self, who: &str, trace: &Path) {
        let recorded = recorded(trace);
        for (rank, counted) in self.read().into_iter().enumerate() {
            let mut counted = counted;
            let mut calls = recorded.get(&(rank as i32)).cloned().unwrap_or_default();
            // Threads are numbered by their first call.
            counted[1..].sort_by_key(|(_, returned)| *returned);
            if let Some(others) = calls.get_mut(1..) {
                others.sort();
            }
            assert_eq!(calls.len(), counted.len(), "{who}, rank {rank}: {calls:?} {counted:?}");
            for (calls, (begun, returned)) in calls.iter().zip(&counted) {
                assert!(
                    (*returned..=*begun.max(returned)).contains(calls),
                    "{who}, rank {rank}: {calls} recorded, {returned} returned, {begun} begun"
                );
            }
        }
    }
}

impl Counts {
    /// Asserts that `refrain where` names the call that each rank was in, or its last call, with its number, and does
    /// not report a hang of a job that was making progress.
    fn assert_located(&self, who: &str, place: &Path) {
        let told = refrain(["where".as_ref(), place.as_os_str()]).expect_success().stdout;
        assert!(!told.contains("cycle"), "{who}:\n{told}");
        // As JSON it is by rank.
        let json = refrain(["where".as_ref(), place.as_os_str(), "--json".as_ref()]);
        let json: serde_json::Value =
            serde_json::from_str(&json.expect_success().stdout).expect("JSON");
        for (rank, counted) in self.read().into_iter().enumerate() {
            let (begun, returned) = counted[0];
            let mut ranks = json["ranks"].as_array().expect("ranks").iter();
            let told = ranks.find(|told| told["rank"] == rank);
            let at = &told.unwrap_or_else(|| panic!("{who}: {json}"))["threads"][0];
            let call = at["in"][0]["call"].as_u64().or(at["last"]["call"].as_u64());
            let is_right = call.is_some_and(|call| (returned - 1..=begun).contains(&call));
            assert!(is_right, "{who}: {at}, {counted:?}");
        }
    }
}

/// Calls that returned, by rank and thread. Those of the first stream are also decoded one by one.
fn recorded(trace: &Path) -> BTreeMap<i32, Vec<u64>> {
    let trace = Trace::open(trace).expect("a trace");
    let mut recorded: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for (stream, meta) in trace.meta().streams.iter().enumerate() {
        let task = trace.view(stream).expect("a task that reads");
        let calls = task.map_or(0, |task| complete(&task));
        if stream == 0 {
            let events = trace.decoded(stream).expect("a stream that reads");
            let events = events.map(|event| event.expect("a call that reads"));
            let complete =
                events.filter(|event| !event.is_note() && event.result.is_some()).count();
            assert_eq!(complete as u64, calls, "as many as are decoded");
        }
        recorded.entry(meta.rank).or_default().push(calls);
    }
    recorded
}

/// How many calls of a task returned.
fn complete(task: &TaskView<'_>) -> u64 {
    let open: u64 = (0..)
        .zip(task.occurrences())
        .filter(|(signature, _)| task.head(*signature).is_some_and(|head| !head.returned))
        .map(|(_, occurrences)| occurrences)
        .sum();
    task.calls_by_function().values().sum::<u64>() - open
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Makes a trace of parts.
fn merge(parts: &Path, trace: &Path) -> Outcome {
    refrain(["merge".as_ref(), parts.as_os_str(), "-o".as_ref(), trace.as_os_str()])
}

/// The lines of the program, sorted.
fn said(outcome: &Outcome) -> Vec<&str> {
    sorted_lines(&outcome.stdout).into_iter().filter(|line| line.starts_with("> ")).collect()
}

/// A different number in every run.
fn any_number(below: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| u64::from(now.subsec_nanos()) / 7) % below
}

#[test]
fn every_call_of_a_killed_rank_and_of_the_others_is_in_the_trace() {
    for mpi in Mpi::representatives() {
        let folder = folder();
        let counts = Counts::new(folder.path(), 4, 1);
        let job = Job::start(&mpi, folder.path(), 4, &counter(&mpi), &counts.args(0));
        counts.wait_for(2000 + any_number(20_000));
        let pid = job.pid_of(2).expect("the process of rank 2");
        signal("KILL", &[pid]);
        let outcome = job.outcome();
        assert_ne!(outcome.code, 0, "{}\n{outcome}", mpi.name());
        let trace = folder.path().join("run.refrain");
        assert!(trace.is_file(), "{}\n{outcome}", mpi.name());
        counts.assert_recorded(mpi.name(), &trace);
        let truncated = "truncated: rank 2 (";
        let line = outcome.stderr.lines().find(|line| line.contains(truncated));
        let line = line.unwrap_or_else(|| panic!("{}\n{outcome}", mpi.name()));
        assert!(line.contains(&format!("pid {pid}): ")), "{line}");
        assert!(line.contains(" calls complete, the last #"), "{line}");
    }
}

#[test]
fn every_call_of_a_job_that_is_killed_at_any_moment_is_in_the_trace() {
    for mpi in Mpi::representatives() {
        // From the first window up to many states.
        for (round, most) in [3000, 20_000, 80_000, 200_000, 400_000].into_iter().enumerate() {
            let folder = folder();
            let counts = Counts::new(folder.path(), 3, 1);
            let job = Job::start(&mpi, folder.path(), 3, &counter(&mpi), &counts.args(0));
            counts.wait_for(most / 2 + any_number(most / 2));
            job.signal_all("KILL");
            let (headers, parts) = (job.headers(), job.parts());
            job.outcome();
            if most >= 400_000 {
                let anew = headers.iter().filter(|header| header.base > 8 << 20).count();
                assert_eq!(anew, 3, "{}: the logs have restarted", mpi.name());
            }
            let trace = folder.path().join("run.refrain");
            let merged = merge(&parts, &trace).expect_success();
            assert!(merged.stderr.contains("truncated: rank 0 ("), "{merged}");
            let who = format!("{}, round {round}", mpi.name());
            counts.assert_recorded(&who, &trace);
            for place in [&parts, &trace] {
                counts.assert_located(&who, place);
            }
        }
    }
}

#[test]
fn every_call_of_each_thread_of_a_killed_job_is_in_the_trace() {
    for mpi in Mpi::representatives() {
        for (round, calls) in [1000, 30_000, 60_000].into_iter().enumerate() {
            let folder = folder();
            let counts = Counts::new(folder.path(), 2, 4);
            let job = Job::start(&mpi, folder.path(), 2, &counter(&mpi), &counts.args(0));
            counts.wait_for(calls / 2 + any_number(calls / 2));
            job.signal_all("KILL");
            let parts = job.parts();
            job.outcome();
            let trace = folder.path().join("run.refrain");
            merge(&parts, &trace).expect_success();
            counts.assert_recorded(&format!("{}, round {round}", mpi.name()), &trace);
        }
    }
}

#[test]
fn every_call_of_a_job_that_gets_sigterm_is_in_the_trace() {
    for mpi in Mpi::representatives() {
        let folder = folder();
        let counts = Counts::new(folder.path(), 3, 1);
        let job = Job::start(&mpi, folder.path(), 3, &counter(&mpi), &counts.args(0));
        counts.wait_for(5000);
        job.signal_refrain("TERM");
        // The exit code depends on the launcher.
        job.outcome();
        counts.assert_recorded(mpi.name(), &folder.path().join("run.refrain"));
    }
}

#[test]
fn the_trace_of_a_program_that_aborts_or_exits_without_finalize_has_its_calls() {
    for mpi in Mpi::representatives() {
        for (way, code) in [("abort", 42), ("exit", 3)] {
            let folder = folder();
            let program = mpi.compile("leaves_early.c");
            let outcome = Job::start(&mpi, folder.path(), 2, &program, &[way]).outcome();
            let who = format!("{way} under {}\n{outcome}", mpi.name());
            assert_eq!(outcome.code, code, "{who}");
            let trace = folder.path().join("run.refrain");
            // MPI_Init, MPI_Comm_rank, MPI_Allreduce and MPI_Barrier, on both.
            assert_eq!(recorded(&trace), BTreeMap::from([(0, vec![4]), (1, vec![4])]), "{who}");
            let last = "4 calls complete, the last #3 MPI_Barrier";
            let is_truncated = |rank: &str, rest: &str| {
                let is_it = |line: &&str| line.contains(rank) && line.contains(last);
                outcome.stderr.lines().find(is_it).is_some_and(|line| line.ends_with(rest))
            };
            let end = if way == "abort" { "; in #4 MPI_Abort" } else { last };
            assert!(is_truncated("truncated: rank 0 (", end), "{who}");
            assert!(is_truncated("truncated: rank 1 (", "; in #4 MPI_Recv"), "{who}");
        }
    }
}

#[test]
fn a_folder_that_is_removed_while_the_program_runs_does_not_harm_it() {
    for mpi in Mpi::representatives() {
        let folder = folder();
        let counts = Counts::new(folder.path(), 2, 1);
        let job = Job::start(&mpi, folder.path(), 2, &counter(&mpi), &counts.args(4000));
        counts.wait_for(1000);
        // A rank may write to it meanwhile.
        while job.parts().exists() {
            let _ = std::fs::remove_dir_all(job.parts());
        }
        let outcome = job.outcome();
        assert_eq!(said(&outcome), ["> rank 0: done", "> rank 1: done"], "{outcome}");
        assert!(outcome.stderr.contains("run.refrain.parts"), "{outcome}");
    }
}

/// Runs the counter with its trace on a small file system.
fn run_on_small(mpi: &Mpi, small: &SmallFileSystem, counts: &Counts, options: &[&str]) -> Outcome {
    let args = counts.args(3000);
    let run = mpi.run(2).program(counter(mpi)).args(&args);
    let plain = run.clone().output().expect_success();
    let mut traced: Vec<std::ffi::OsString> = ["trace", "-o", "run.refrain"].map(Into::into).into();
    traced.extend(options.iter().map(Into::into));
    traced.push("--".into());
    traced.extend(["mpirun", "-n", "2"].map(Into::into));
    traced.push(counter(mpi).into());
    traced.extend(args.iter().map(Into::into));
    let traced = mpi.refrain_in(small.path(), traced);
    assert_eq!(said(&plain), said(&traced), "{}\n{traced}", mpi.name());
    traced
}

#[test]
fn a_full_disk_ends_the_log_at_a_call_that_is_named() {
    for mpi in Mpi::representatives() {
        for bytes in [1 << 20, 3 << 20] {
            let Some(small) = SmallFileSystem::new(bytes) else { return };
            let folder = folder();
            let counts = Counts::new(folder.path(), 2, 1);
            // With `--raw` the records stay, so that the disk fills up.
            let traced = run_on_small(&mpi, &small, &counts, &["--raw"]);
            let who = format!("{bytes} bytes under {}\n{traced}", mpi.name());
            assert!(traced.stderr.contains("No space left on device"), "{who}");
            let trace = folder.path().join("run.refrain");
            let merged = merge(&small.path().join("run.refrain.parts"), &trace).expect_success();
            let recorded = recorded(&trace);
            let opened = Trace::open(&trace).expect("a trace");
            for (rank, counted) in counts.read().iter().enumerate() {
                let calls = recorded[&(rank as i32)][0];
                let stream = &opened.meta().streams[rank];
                assert!(matches!(stream.ended, Ended::LogStopped(_)), "{who}");
                // The call in which the log ended may be incomplete.
                let seen = calls + u64::from(stream.unrecorded);
                assert!(
                    (1..=2).contains(&(counted[0].1 + 1 - seen)),
                    "{who}: {calls}, {counted:?}"
                );
                let complete = format!("{calls} calls complete, the last #{} ", calls - 1);
                let is_it = |line: &str| {
                    line.contains(&format!("truncated: rank {rank} (")) && line.contains(&complete)
                };
                let line = merged.stderr.lines().find(|line| is_it(line));
                let line = line.unwrap_or_else(|| panic!("{who}\n{merged}"));
                assert!(
                    line.contains("its log stopped there: the disk is full (No space left"),
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn a_disk_without_room_for_a_first_window_does_not_harm_the_program() {
    for mpi in Mpi::representatives() {
        for bytes in [8 << 10, 100 << 10] {
            let Some(small) = SmallFileSystem::new(bytes) else { return };
            let folder = folder();
            let counts = Counts::new(folder.path(), 2, 1);
            let traced = run_on_small(&mpi, &small, &counts, &[]);
            assert_eq!(traced.code, 0, "{}\n{traced}", mpi.name());
            assert!(traced.stderr.contains("there is no trace"), "{}\n{traced}", mpi.name());
            // The message blames the disk, not the program.
            assert!(traced.stderr.contains("No space left on device"), "{}\n{traced}", mpi.name());
            assert!(!traced.stderr.contains("use MPI"), "{}\n{traced}", mpi.name());
        }
    }
}

#[test]
fn calls_that_were_sealed_during_the_run_are_in_the_trace() {
    const CALLS: u64 = 600_000;
    for mpi in Mpi::representatives() {
        let folder = TempDir::new().expect("a folder");
        let trace = folder.path().join("t.refrain");
        let program = mpi.compile("scattered_tags.c");
        let run = mpi.run(1).program(&program).args([CALLS.to_string()]);
        // Loop nests do not show how the grammar was made.
        run.trace_to(Some(&trace)).trace_options(["--structure", "grammar"]).output();
        let opened = Trace::open(&trace).expect("a trace");
        let task = opened.view(0).expect("a trace").expect("a task");
        assert!(task.grammars().len() > 3, "{}: nothing was sealed", mpi.name());
        assert_eq!(recorded(&trace)[&0], [CALLS + 1], "{}", mpi.name());
    }
}
