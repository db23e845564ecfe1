//! `make histograms`: traces with histograms in place of long vectors have the same size for any number of steps and ranks.
//!
//! Real programs on 4 to 64 ranks, and simulated ones on up to 16,384. Where few ranks or steps have few different
//! values, their vectors are kept exactly and may be smaller than histograms: what counts is that sizes stay below a bound, and
//! do not grow once histograms are full.

use crate::scale::{encode, peak};
use crate::simulated::{IRREGULAR, Pattern};
use crate::{Figure, runs};
use refrain_analysis::nest::histograms::histograms;
use refrain_container::Writer;
use refrain_nest::Options;
use refrain_reader::meta::{Ended, Meta, Paused, StreamMeta};
use refrain_reader::{CallTrace, sections};
use refrain_structure::merged::Merged;
use refrain_structure::write;
use refrain_testing::Mpi;
use refrain_testing::records::FAMILY;
use refrain_trace::form::{self, Structure};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Vectors of more numbers become histograms.
const ABOVE: u64 = 8;
/// The real programs: name, arguments for few steps, arguments for many.
const PROGRAMS: [(&str, &[&str], &[&str]); 8] = [
    ("pop", &["300", "random"], &["3000", "random"]),
    ("pop", &["300", "periodic"], &["3000", "periodic"]),
    ("pop", &["300", "affine"], &["3000", "affine"]),
    ("pop", &["300", "modulo"], &["3000", "modulo"]),
    ("amr", &["60"], &["300"]),
    ("multigrid", &["3"], &["12"]),
    ("sweep", &["2", "32"], &["8", "32"]),
    ("figure4", &["100"], &["1000"]),
];
/// Ranks of real programs: growth counts from the second number on.
const RANKS: [usize; 3] = [4, 16, 64];
/// Ranks of simulated programs.
const TASKS: [u32; 3] = [64, 1024, 16384];
/// Bytes by which a trace may grow: counters get more digits, and ranges of values more bytes.
const MOST_GROWTH: f64 = 96.0;
/// Seconds that the largest simulated job may take.
const MOST_SECONDS: f64 = 120.0;

/// Measures under MPICH 4.0.
pub fn measure() -> Vec<Figure> {
    let mut figures = Vec::new();
    if let Some(mpi) = Mpi::named("mpich-4.0") {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, few, many) in PROGRAMS {
            let program = runs::compile(&mpi, folder.path(), name);
            let size = |ranks: usize, args: &[&str]| {
                let trace = folder.path().join("whole.refrain");
                runs::traced(&mpi, ranks, &program, args, &trace);
                folded(&trace, folder.path())
            };
            let sizes = RANKS.map(|ranks| size(ranks, few));
            let steps = size(RANKS[1], many);
            let name = format!("{name} {}", few.get(1).unwrap_or(&""));
            let name = name.trim();
            figures.push(Figure {
                name: format!("{name}: growth from {} to {} ranks", RANKS[1], RANKS[2]),
                detail: format!("{sizes:?} bytes on {RANKS:?} ranks"),
                value: sizes[2] - sizes[1],
                bound: MOST_GROWTH,
                unit: "bytes",
            });
            figures.push(Figure {
                name: format!("{name}: growth from {} to {} steps", few[0], many[0]),
                detail: format!("{} and {steps} bytes on {} ranks", sizes[1], RANKS[1]),
                value: steps - sizes[1],
                bound: MOST_GROWTH,
                unit: "bytes",
            });
        }
    }
    for pattern in &IRREGULAR {
        let runs = TASKS.map(|tasks| in_child(pattern.name, tasks));
        let sizes = runs.map(|(bytes, ..)| bytes);
        let (_, seconds, memory) = runs[2];
        figures.push(Figure {
            name: format!(
                "{} simulated: growth from {} to {} ranks",
                pattern.name, TASKS[1], TASKS[2]
            ),
            detail: format!("{sizes:?} bytes on {TASKS:?} ranks, {:.0} MB", memory / 1e6),
            value: sizes[2] - sizes[1],
            bound: MOST_GROWTH,
            unit: "bytes",
        });
        figures.push(Figure {
            name: format!("{} simulated: time for {} ranks", pattern.name, TASKS[2]),
            detail: String::new(),
            value: seconds,
            bound: MOST_SECONDS,
            unit: "s",
        });
    }
    figures
}

/// The size of a trace with histograms.
fn folded(trace: &Path, folder: &Path) -> f64 {
    let trace = CallTrace::open(trace).expect("a trace");
    let options = Options::default();
    let lossy = histograms(&trace, options, ABOVE, &mut <[u8]>::to_vec).expect("histograms");
    let output = folder.join("histograms.refrain");
    form::write_histograms(&trace, &lossy, &output).expect("a file") as f64
}

/// Runs a simulated job in a process of its own: bytes, seconds to make histograms, peak memory.
fn in_child(name: &str, tasks: u32) -> (f64, f64, f64) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).args(["histogram-one", name, &tasks.to_string()]).output();
    let output = output.expect("this program starts again");
    let said = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [bytes, seconds, memory] = numbers.as_slice() else {
        panic!("{name} on {tasks} ranks: {said}{}", String::from_utf8_lossy(&output.stderr));
    };
    (*bytes, *seconds, *memory)
}

/// Simulates a job, and prints bytes, seconds and peak memory.
pub fn measure_one(name: &str, tasks: u32) {
    let pattern = Pattern::named(name).unwrap_or_else(|| panic!("no pattern {name}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("whole.refrain");
    {
        let task = |rank| Merged::of(rank, 0, encode(&pattern.log(rank, tasks)));
        let merged = Merged::merge_all((0..tasks).map(task));
        let mut writer = Writer::create(&path).expect("a file");
        writer.add_bytes(sections::META, &meta(tasks).to_bytes()).expect("a section");
        let streams = write::write(&merged);
        let facts = refrain_reader::refrain_fold::Facts::default();
        let is_whole = form::add(&mut writer, &merged, &streams, Structure::Grammar, facts);
        assert!(!is_whole.expect("a section"), "grammars have residues of their own");
        writer.finish().expect("a file");
    }
    let begin = Instant::now();
    let bytes = folded(&path, folder.path());
    println!("{bytes} {} {}", begin.elapsed().as_secs_f64(), peak());
}

/// The facts of a simulated job.
fn meta(tasks: u32) -> Meta {
    let stream = |rank: u32| StreamMeta {
        rank: rank as i32,
        size: tasks as i32,
        thread: 0,
        process: rank.into(),
        pid: rank as i32 + 1,
        host: "host".into(),
        program: "program".into(),
        library: "MPICH".into(),
        family: FAMILY.code(),
        ended: Ended::Finalized,
        unrecorded: 0,
        missing: 0,
        paused: Paused::Never,
        clock: [(0, 0); 2],
        uncertainty: 0,
        calls: Default::default(),
        bytes: 0,
    };
    Meta { tick: 1.0, streams: (0..tasks).map(stream).collect(), ..Meta::default() }
}
