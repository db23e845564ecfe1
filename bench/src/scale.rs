//! The merge at scale: simulated tasks are encoded by the real encoder, merged in a tree as ranks
//! do it, and written as in a trace.
//!
//! Every pattern and number of tasks runs in a separate process, to measure its peak memory. Tasks are made
//! one after the other when the tree needs them: at most one per level of the tree is in memory.

use crate::Figure;
use crate::simulated::{Growth, PATTERNS, Pattern};
use refrain_encode::encoder::{Batch, Encoder};
use refrain_signature::tasktrace::TaskTrace;
use refrain_signature::timekey::Detail;
use refrain_structure::merged::Merged;
use refrain_structure::{read, times, write};
use refrain_testing::records::FAMILY;
use std::process::Command;
use std::time::{Duration, Instant};

/// The default numbers of tasks.
pub const TASKS: [u32; 3] = [1024, 4096, 16384];
/// Seconds that a pattern may take.
const MOST_SECONDS: f64 = 60.0;
/// Bytes by which a trace of constant size may grow when the number of tasks grows by a factor of four: numbers
/// get longer by a bit or two.
const MOST_GROWTH: f64 = 12.0;
/// The same if each doubling adds a step to the program.
const MOST_GROWTH_OF_STEPS: f64 = 160.0;
/// The level at which files compress.
const LEVEL: i32 = 19;
/// How many ranks' tasks are decoded and compared.
const READ_BACK: u32 = 32;

/// The measurements of one run.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    groups: usize,
    synthesis: f64,
    encoding: f64,
    merging: f64,
    writing: f64,
    /// Peak memory in bytes.
    peak: u64,
    /// Structure and residues, compressed.
    bytes: usize,
    /// The same, before compression.
    plain: usize,
    timing: usize,
}

/// Runs all patterns (or those named) for each number of tasks, and prints a line for each. Returns these lines
/// and the figures.
pub fn measure(tasks: &[u32], names: &[String]) -> (String, Vec<Figure>) {
    let is_wanted = |p: &&Pattern| names.is_empty() || names.iter().any(|name| name == p.name);
    let mut figures = Vec::new();
    let mut table = Run::heading() + "\n";
    print!("{table}");
    for pattern in PATTERNS.iter().filter(is_wanted) {
        let mut last: Option<(u32, usize)> = None;
        let mut longest = 0f64;
        for &asked in tasks {
            let count = (pattern.tasks)(asked);
            let run = in_child(pattern.name, count);
            let line = run.line(pattern.name, count) + "\n";
            print!("{line}");
            table.push_str(&line);
            longest = longest.max(run.synthesis + run.encoding + run.merging + run.writing);
            if let Some((fewer, bytes)) = last {
                figures.extend(growth(pattern, (fewer, bytes), (count, run.bytes)));
            }
            last = Some((count, run.bytes));
        }
        figures.push(Figure {
            name: format!("{}: the longest run", pattern.name),
            detail: "on one core".into(),
            value: longest,
            bound: MOST_SECONDS,
            unit: "s",
        });
    }
    (table, figures)
}

/// How much the trace grew, if that has a bound.
fn growth(pattern: &Pattern, before: (u32, usize), now: (u32, usize)) -> Option<Figure> {
    let fourfold = f64::from(now.0) / f64::from(before.0);
    let bound = match pattern.growth {
        Growth::Constant => MOST_GROWTH,
        Growth::Logarithmic => MOST_GROWTH_OF_STEPS,
        Growth::Free => return None,
    };
    Some(Figure {
        name: format!("{}: growth from {} to {} tasks", pattern.name, before.0, now.0),
        detail: format!("{} to {} bytes", before.1, now.1),
        value: now.1 as f64 - before.1 as f64,
        bound: bound * (fourfold.log2() / 2.0).max(1.0),
        unit: "bytes",
    })
}

/// Runs one pattern in a separate process.
fn in_child(name: &str, tasks: u32) -> Run {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(["scale-one", name, &tasks.to_string()]).output();
    let output = output.expect("this program starts again");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} on {tasks} tasks: {error}");
    Run::from_text(&text).unwrap_or_else(|| panic!("{name} on {tasks} tasks said {text}"))
}

/// Runs one pattern in this process, and prints the measurements.
pub fn measure_one(name: &str, tasks: u32) {
    let pattern = Pattern::named(name).unwrap_or_else(|| panic!("no pattern {name}"));
    println!("{}", run(pattern, tasks).to_text());
}

fn run(pattern: &Pattern, tasks: u32) -> Run {
    let mut found = Run::default();
    let (mut synthesis, mut encoding) = (Duration::ZERO, Duration::ZERO);
    let begin = Instant::now();
    let merged = Merged::merge_all((0..tasks).map(|rank| {
        let start = Instant::now();
        let log = pattern.log(rank, tasks);
        synthesis += start.elapsed();
        let start = Instant::now();
        let task = encode(&log);
        encoding += start.elapsed();
        Merged::of(rank, 0, task)
    }));
    found.synthesis = synthesis.as_secs_f64();
    found.encoding = encoding.as_secs_f64();
    found.merging = (begin.elapsed() - synthesis - encoding).as_secs_f64();
    let start = Instant::now();
    let streams = write::write(&merged);
    let residues: Vec<u8> =
        streams.residues.iter().flat_map(|(_, _, bytes)| bytes).copied().collect();
    found.bytes = compressed(&streams.structure) + compressed(&residues);
    found.plain = streams.structure.len() + residues.len();
    found.timing = times::write(&merged, Detail::Full).len();
    found.writing = start.elapsed().as_secs_f64();
    found.groups = merged.groups.len();
    found.peak = peak();
    drop(merged);
    check(pattern, tasks, &streams);
    found
}

fn compressed(bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        return 0;
    }
    zstd::bulk::compress(bytes, LEVEL).expect("bytes compress").len()
}

/// The trace of a task with that log.
pub fn encode(log: &[u8]) -> TaskTrace {
    let mut encoder = Encoder::new(FAMILY);
    let damage = encoder.feed(&[Batch { thread: 0, records: log }]);
    assert!(damage.is_empty(), "{damage:?}");
    encoder.finish();
    encoder.task_trace(0).expect("a task has calls")
}

/// Checks that some tasks are decoded as they were encoded.
fn check(pattern: &Pattern, tasks: u32, streams: &write::Streams) {
    let mut merged = read::structure(&streams.structure).expect("the structure reads");
    for (rank, thread, bytes) in &streams.residues {
        let residue = read::residue(bytes).expect("the residue reads");
        let mut groups = merged.groups.iter_mut();
        let group = groups.find(|g| g.thread == *thread && g.ranks.contains(*rank));
        group.expect("the rank is in a group").residues.insert(*rank, residue);
    }
    for i in 0..READ_BACK.min(tasks) {
        let rank = (u64::from(i) * u64::from(tasks - 1) / u64::from(READ_BACK.min(tasks))) as u32;
        let mut expected = encode(&pattern.log(rank, tasks));
        let mut task = merged.task(rank, 0).expect("every rank has its task");
        expected.functions.clear();
        task.functions.clear();
        expected.signatures.iter_mut().for_each(|s| s.stats = Default::default());
        assert_eq!(task, expected, "{} on {tasks} tasks: rank {rank}", pattern.name);
    }
}

/// The peak memory of this process.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
    kilobytes.unwrap_or(0u64) * 1024
}

impl Run {
    fn heading() -> String {
        format!(
            "{:<15} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>8} {:>10} {:>9} {:>9}",
            "pattern",
            "tasks",
            "groups",
            "make s",
            "encode",
            "merge",
            "write",
            "peak MB",
            "plain",
            "bytes",
            "timing"
        )
    }

    fn line(&self, name: &str, tasks: u32) -> String {
        format!(
            "{name:<15} {tasks:>6} {:>6} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>8.1} {:>10} {:>9} {:>9}",
            self.groups,
            self.synthesis,
            self.encoding,
            self.merging,
            self.writing,
            self.peak as f64 / f64::from(1 << 20),
            self.plain,
            self.bytes,
            self.timing,
        )
    }

    /// The text in which a child process passes its measurements.
    fn to_text(self) -> String {
        format!(
            "{} {} {} {} {} {} {} {} {}",
            self.groups,
            self.synthesis,
            self.encoding,
            self.merging,
            self.writing,
            self.peak,
            self.bytes,
            self.plain,
            self.timing
        )
    }

    fn from_text(text: &str) -> Option<Run> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [groups, synthesis, encoding, merging, writing, peak, bytes, plain, timing] = words[..]
        else {
            return None;
        };
        Some(Run {
            groups: groups.parse().ok()?,
            synthesis: synthesis.parse().ok()?,
            encoding: encoding.parse().ok()?,
            merging: merging.parse().ok()?,
            writing: writing.parse().ok()?,
            peak: peak.parse().ok()?,
            bytes: bytes.parse().ok()?,
            plain: plain.parse().ok()?,
            timing: timing.parse().ok()?,
        })
    }
}
