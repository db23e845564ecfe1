//! The matrix: a log has exactly the calls that the program prints, in order, with the same arguments and
//! results; for each area of MPI, under every MPI of this machine.
//!
//! The programs are `tests/victims/matrix_*`. They print their calls with `expect.h`.

use crate::checking::assert_no_findings;
use crate::shown::Shown;
use refrain_testing::{Mpi, refrain};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A call, and how many other calls it was made inside of.
type Call = (usize, String);

/// The calls of each thread in order, by rank and thread.
type Calls = BTreeMap<(u32, u32), Vec<Call>>;

/// A victim of the matrix.
struct Victim {
    file: &'static str,
    flags: &'static [&'static str],
    ranks: usize,
    args: &'static [&'static str],
    /// What `refrain check` is right to find in it.
    known: &'static str,
}

impl Victim {
    fn new(file: &'static str, ranks: usize) -> Victim {
        Victim { file, ranks, flags: &[], args: &[], known: "" }
    }

    /// Runs it under every MPI and compares the printed calls with the recorded ones.
    fn check(&self) {
        for mpi in Mpi::installed() {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let expected_file = folder.path().join("expected");
            let trace = folder.path().join("victim.refrain");
            let outcome = mpi
                .run(self.ranks)
                .program(self.compile(&mpi))
                .args(self.args)
                .env("EXPECT_FILE", &expected_file)
                .current_dir(folder.path())
                .trace_to(Some(&trace))
                .output()
                .expect_success();
            let said = std::fs::read_to_string(&expected_file).unwrap_or_default();
            let (text, json) = (show(&trace, &["--full"]), show(&trace, &["--json"]));
            let who = format!("{} under {}", self.file, mpi.name());
            let (expected, logged) = (expected_calls(&said), logged_calls(&text));
            assert_eq!(
                expected.keys().map(|(rank, _)| rank).max(),
                Some(&(self.ranks as u32 - 1)),
                "{who}: ranks are missing\n{outcome}"
            );
            if let Some(difference) = first_difference(&expected, &logged) {
                panic!("{who}: {difference}");
            }
            assert_json_agrees(&who, &text, &json);
            assert_eq!(show(&trace, &["--full", "--rank", "0"]), of_rank_0(&text), "{who}");
            assert_no_findings(&trace, self.known);
        }
    }

    fn compile(&self, mpi: &Mpi) -> PathBuf {
        mpi.compile_with(self.file, self.flags)
    }
}

/// The calls of a trace as `refrain show` prints them, each failed poll on a line of its own.
fn show(trace: &Path, options: &[&str]) -> String {
    let mut words = vec!["show".as_ref(), trace.as_os_str(), "--all".as_ref()];
    words.extend(options.iter().map(OsStr::new));
    refrain(words).expect_success().stdout
}

/// The lines of rank 0 and its threads.
fn of_rank_0(text: &str) -> String {
    let is_of_it = |line: &&str| line.starts_with("rank 0 ") || line.starts_with("rank 0.");
    text.lines().filter(is_of_it).flat_map(|line| [line, "\n"]).collect()
}

/// `expect RANK.THREAD DEPTH CALL`
fn expected_calls(said: &str) -> Calls {
    let mut calls = Calls::new();
    for line in said.lines() {
        let parse = || {
            let mut words = line.strip_prefix("expect ")?.splitn(3, ' ');
            let (rank, thread) = words.next()?.split_once('.')?;
            let task = (rank.parse().ok()?, thread.parse().ok()?);
            Some((task, words.next()?.parse().ok()?, words.next()?.to_owned()))
        };
        let (task, depth, call) = parse().unwrap_or_else(|| panic!("not an expectation: {line}"));
        calls.entry(task).or_default().push((depth, call));
    }
    calls
}

/// `rank RANK.THREAD  #NUMBER  CALL`, where the thread may be missing and calls inside others
/// are indented. Numbers must count up from 0 in each thread.
fn logged_calls(text: &str) -> Calls {
    let mut calls = Calls::new();
    for line in text.lines() {
        let parse = || {
            let (who, rest) = line.strip_prefix("rank ")?.split_once("  #")?;
            let (number, call) = rest.split_once("  ")?;
            let (rank, thread) = who.split_once('.').unwrap_or((who, "0"));
            let task = (rank.parse().ok()?, thread.parse().ok()?);
            Some((task, number.parse::<usize>().ok()?, call))
        };
        let (task, number, call) = parse().unwrap_or_else(|| panic!("not a call: {line}"));
        let of_task = calls.entry(task).or_default();
        assert_eq!(number, of_task.len(), "calls are numbered in order: {line}");
        let plain = call.trim_start();
        of_task.push(((call.len() - plain.len()) / 2, plain.to_owned()));
    }
    calls
}

/// The first call of a thread that is not as expected, with the calls around it.
fn first_difference(expected: &Calls, logged: &Calls) -> Option<String> {
    for (rank, thread) in expected.keys().chain(logged.keys()) {
        let of = |calls: &Calls| calls.get(&(*rank, *thread)).cloned().unwrap_or_default();
        let (expected, logged) = (of(expected), of(logged));
        for at in 0..expected.len().max(logged.len()) {
            let difference = match (expected.get(at), logged.get(at)) {
                (Some(expected), Some(logged)) => difference_of(expected, logged),
                (Some(_), None) => Some("the log ends before it".to_owned()),
                _ => Some("it was never made".to_owned()),
            };
            if let Some(difference) = difference {
                let called = excerpt("called", &expected, at);
                let logged = excerpt("logged", &logged, at);
                return Some(format!(
                    "rank {rank}, thread {thread}, call #{at}: {}\n{called}\n{logged}",
                    cut(&difference)
                ));
            }
        }
    }
    None
}

fn difference_of(expected: &Call, logged: &Call) -> Option<String> {
    if expected == logged {
        return None;
    }
    if expected.0 != logged.0 {
        return Some(format!("inside {} calls, not {}", logged.0, expected.0));
    }
    match (Shown::parse(&expected.1), Shown::parse(&logged.1)) {
        (Ok(expected), Ok(logged)) => expected.difference(&logged),
        (Err(error), _) | (_, Err(error)) => Some(error),
    }
}

/// The calls from two before an index to two after it.
fn excerpt(title: &str, calls: &[Call], at: usize) -> String {
    let around = calls.iter().enumerate().skip(at.saturating_sub(2)).take(at.min(2) + 3);
    let lines = around.map(|(number, (depth, call))| {
        let mark = if number == at { '>' } else { ' ' };
        format!("\n{mark} #{number}  {}{}", "  ".repeat(*depth), cut(call))
    });
    format!("{title} ({} in all):{}", calls.len(), lines.collect::<String>())
}

/// Shortens a text, because arrays may be very long.
fn cut(text: &str) -> String {
    let short: String = text.chars().take(1000).collect();
    if short.len() < text.len() { short + " …" } else { short }
}

/// The calls in JSON are those in the text: rank, number, depth, function, names of arguments,
/// result.
fn assert_json_agrees(who: &str, text: &str, json: &str) {
    assert_eq!(text.lines().count(), json.lines().count(), "{who}: as many lines of JSON");
    let threaded = text.lines().any(|line| {
        let task = line.strip_prefix("rank ").and_then(|rest| rest.split_whitespace().next());
        task.is_some_and(|task| task.contains('.'))
    });
    for (text, json) in text.lines().zip(json.lines()) {
        let value: Json = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("{who}: {error} in the JSON\n{json}"));
        let number = |name: &str| {
            value[name].as_u64().unwrap_or_else(|| panic!("{who}: no {name} in\n{json}"))
        };
        let task = match threaded {
            true => format!("{}.{}", number("rank"), number("thread")),
            false => number("rank").to_string(),
        };
        let indent = "  ".repeat(number("depth") as usize);
        let function = value["function"].as_str().unwrap_or_default();
        let start = format!("rank {task}  #{}  {indent}{function}(", number("call"));
        assert!(text.starts_with(&start), "{who}: the JSON is of another call\n{json}\n{text}");
        let shown = Shown::parse(&text[start.len() - function.len() - 1..]);
        let shown = shown.unwrap_or_else(|error| panic!("{who}: {error}"));
        let names: Vec<&String> = shown.arguments.iter().map(|(name, _)| name).collect();
        let arguments = value["arguments"].as_object().expect("arguments are an object");
        assert_eq!(arguments.keys().collect::<Vec<_>>(), names, "{who}\n{json}");
        let result = value["result"].as_str().unwrap_or("? (never returned)");
        assert_eq!(result, shown.result, "{who}\n{json}");
    }
}

#[test]
fn blocking_messages_wildcards_and_probes_are_logged_as_called() {
    // Rank 1 probes for the third of five messages first, so the others must be buffered.
    let known = "potential-deadlock MPI_Mprobe";
    Victim { known, ..Victim::new("matrix_point_to_point.c", 2) }.check();
}

#[test]
fn requests_are_logged_as_called_however_they_are_completed() {
    // It waits for a persistent request that was never started, and frees receives that are active.
    let known = "never-started MPI_Wait\nactive-request-freed";
    Victim { known, ..Victim::new("matrix_completion.c", 2) }.check();
}

#[test]
fn collectives_are_logged_as_called_with_the_arrays_that_count() {
    Victim::new("matrix_collectives.c", 3).check();
}

#[test]
fn groups_communicators_and_topologies_are_logged_as_called() {
    Victim::new("matrix_communicators.c", 3).check();
}

#[test]
fn datatypes_are_logged_as_called() {
    Victim::new("matrix_datatypes.c", 1).check();
}

#[test]
fn windows_are_logged_as_called() {
    Victim::new("matrix_windows.c", 2).check();
}

#[test]
fn files_and_strings_are_logged_as_called_without_internal_calls_of_the_library() {
    Victim::new("matrix_files.c", 2).check();
}

#[test]
fn callbacks_calls_are_logged_inside_the_calls_that_made_them() {
    Victim::new("matrix_callbacks.c", 2).check();
}

#[test]
fn callbacks_calls_are_logged_without_optimisation_too() {
    Victim { flags: &["-O0"], ..Victim::new("matrix_callbacks.c", 2) }.check();
}

#[test]
fn threads_are_logged_each_in_its_own_order() {
    Victim::new("matrix_threads.c", 2).check();
}

#[test]
fn large_counts_are_logged_as_called() {
    Victim::new("matrix_large_counts.c", 2).check();
}

#[test]
fn calls_before_init_and_after_finalize_are_logged_as_called() {
    let args = &["one", "two words", "", "\"quoted\"", "--"];
    Victim { args, ..Victim::new("matrix_outside.c", 2) }.check();
}

#[test]
fn sessions_are_logged_as_called_without_init() {
    Victim::new("matrix_sessions.c", 2).check();
}

#[test]
fn calls_of_cxx_objects_are_logged_as_called_exceptions_and_all() {
    Victim::new("matrix_objects.cpp", 2).check();
}

/// Masks addresses, which differ from run to run: they are numbers in raw records, and segment and offset in
/// compressed traces.
fn without_addresses(text: &str) -> String {
    let mask = |argument: &str| match argument.split_once('=') {
        Some((name, value)) if name.ends_with("buf") || name.ends_with("buffer") => {
            let named = value.starts_with("MPI_");
            format!("{name}={}", if named { value } else { "…" })
        }
        _ => argument.to_owned(),
    };
    let line = |line: &str| {
        let line = line.replace('(', "(, ");
        line.split(", ").map(mask).collect::<Vec<_>>().join(", ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_compressed_trace_shows_what_a_raw_one_shows() {
    let victim = Victim::new("matrix_collectives.c", 3);
    for mpi in Mpi::installed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = victim.compile(&mpi);
        let traced = |name: &str, options: &[&str]| {
            let mut words = vec!["trace", "-o", name];
            words.extend(options);
            words.extend(["--", "mpirun", "-n", "3", program.to_str().expect("a plain path")]);
            mpi.refrain_in(folder.path(), words).expect_success();
            without_addresses(&show(&folder.path().join(name), &["--full"]))
        };
        let (raw, compressed) = (traced("raw.refrain", &["--raw"]), traced("plain.refrain", &[]));
        assert!(raw.lines().count() > 100, "{}: too few calls\n{raw}", mpi.name());
        assert_eq!(raw, compressed, "under {}", mpi.name());
    }
}
