//! Reading at scale: writes a simulated trace of thousands of ranks, and reads every call of every rank in a
//! separate process, whose peak memory is measured.

use crate::Figure;
use crate::scale::{encode, peak};
use crate::simulated::Pattern;
use refrain_container::Writer;
use refrain_reader::{CallTrace, Ended, Meta, Paused, StreamMeta, sections};
use refrain_signature::cells::{put_bytes, put_unsigned};
use refrain_signature::tasktrace::TaskTrace;
use refrain_signature::timekey::Detail;
use refrain_structure::merged::Merged;
use refrain_structure::{times, write};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Ranks of the trace.
pub const RANKS: u32 = 16384;
/// The patterns: one with a single structure, and one with many structures.
const PATTERNS: [&str; 2] = ["stencil-2d", "amr"];
/// Megabytes that reading may take.
const MOST_MEMORY: f64 = 500.0;

/// Reads each of the traces. Returns the figures.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a folder");
    let figure = |name: &str| {
        let path = folder.path().join(format!("{name}.refrain"));
        child(&["walk-make", name, &path.to_string_lossy()]);
        let said = child(&["walk-one", &path.to_string_lossy()]);
        let mut numbers =
            said.split_whitespace().map(|word| word.parse::<f64>().expect("a number"));
        let mut next = || numbers.next().expect("a number");
        let (calls, seconds, megabytes) = (next(), next(), next());
        Figure {
            name: format!("{name}: memory to read {RANKS} ranks"),
            detail: format!("{calls} calls in {seconds:.1} s"),
            value: megabytes,
            bound: MOST_MEMORY,
            unit: "MB",
        }
    };
    PATTERNS.iter().map(|name| figure(name)).collect()
}

fn child(args: &[&str]) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(args).output().expect("this program starts again");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Writes a trace of a pattern on `ranks` ranks.
pub fn make(name: &str, path: &Path, ranks: u32) {
    let pattern = Pattern::named(name).unwrap_or_else(|| panic!("no pattern {name}"));
    write_trace((0..ranks).map(|rank| encode(&pattern.log(rank, ranks))), path, ranks);
}

/// Writes a trace of tasks, the first of rank 0.
pub fn write_trace(tasks: impl Iterator<Item = TaskTrace>, path: &Path, ranks: u32) {
    let tasks = (0..ranks).zip(tasks).map(|(rank, task)| Merged::of(rank, 0, task));
    let merged = Merged::merge_all(tasks);
    let streams = write::write(&merged);
    let facts = (0..ranks).map(|rank| facts(rank, ranks));
    let meta = Meta { streams: facts.collect(), tick: 1.0, ..Meta::default() };
    let mut own = Vec::new();
    for (rank, thread, bytes) in &streams.residues {
        put_unsigned(&mut own, (*rank).into());
        put_unsigned(&mut own, (*thread).into());
        put_bytes(&mut own, bytes);
    }
    let mut writer = Writer::create(path).expect("a file");
    for (section, bytes) in [
        (sections::META.to_owned(), meta.to_bytes()),
        (sections::STRUCTURE.to_owned(), streams.structure),
        (sections::TIMING.to_owned(), times::write(&merged, Detail::Full)),
        (format!("{}0-{}", sections::OWN, ranks - 1), own),
    ] {
        writer.add_bytes(&section, &bytes).expect("a section");
    }
    writer.finish().expect("a trace");
}

fn facts(rank: u32, ranks: u32) -> StreamMeta {
    StreamMeta {
        rank: rank as i32,
        size: ranks as i32,
        thread: 0,
        process: rank.into(),
        pid: 1000 + rank as i32,
        host: format!("node{:04}", rank / 64),
        program: "/home/user/app".to_owned(),
        library: "MPICH Version: 4.0.2".to_owned(),
        family: 0,
        ended: Ended::Finalized,
        unrecorded: 0,
        missing: 0,
        paused: Paused::Never,
        clock: [(0, 0); 2],
        uncertainty: 0,
        calls: BTreeMap::new(),
        bytes: 0,
    }
}

/// Reads every call of every rank, and prints calls, seconds, megabytes.
pub fn walk(path: &Path) {
    let begin = Instant::now();
    let trace = CallTrace::open(path).expect("a trace");
    let mut calls = 0u64;
    for task in trace.tasks() {
        for call in task.calls().expect("a task") {
            call.expect("a call");
            calls += 1;
        }
    }
    println!("{calls} {} {}", begin.elapsed().as_secs_f64(), peak() as f64 / 1e6);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::env;

    /// The variable with the trace for the test that runs in a separate process.
    const TRACE: &str = "REFRAIN_WALK_TRACE";

    /// Megabytes that reading a trace takes, in a separate process.
    fn megabytes(path: &Path) -> f64 {
        let program = env::current_exe().expect("this program has a path");
        let output = Command::new(program)
            .args(["--exact", "walk::tests::walks_in_a_process_of_its_own"])
            .args(["--ignored", "--nocapture"])
            .env(TRACE, path)
            .output()
            .expect("this program starts again");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        let line = said.lines().find_map(|line| line.split_once("walked: ").map(|(_, rest)| rest));
        let megabytes = line.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
        megabytes.unwrap_or_else(|| panic!("no figures in {said}"))
    }

    #[test]
    #[ignore = "the test below starts it, with a trace to walk"]
    fn walks_in_a_process_of_its_own() {
        let path = env::var_os(TRACE).expect("a trace to walk");
        print!("walked: ");
        walk(path.as_ref());
    }

    #[test]
    fn memory_to_read_a_trace_does_not_grow_with_its_ranks() {
        let folder = tempfile::tempdir().expect("a folder");
        let [few, many] = [64, 1024].map(|ranks| {
            let path = folder.path().join(format!("{ranks}.refrain"));
            make("amr", &path, ranks);
            megabytes(&path)
        });
        assert!(few > 1.0, "a process takes some memory");
        // 500 MB for 16,384 ranks are 30 kB each.
        let each = (many - few) * 1e3 / (1024.0 - 64.0);
        assert!(each < 30.0, "{few} MB for 64 ranks, {many} MB for 1,024: {each} kB each");
    }
}
