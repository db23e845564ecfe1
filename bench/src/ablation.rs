//! What each step of folding is worth (ScalaTrace II §4.1): nests of the NAS Parallel Benchmarks, with all steps and without
//! each of them.
//!
//! `NPB_BIN` names a folder with the benchmarks built for MPICH with `-g` (`bt.S.16`, `cg.S.16` …). They are traced with
//! call stacks. A nest is measured in nodes and in bytes: skeletons, and the run-length coded vectors of trip counts and
//! values, compressed. Signatures are the same in all cases, and not included.
//!
//! Each case is measured with histograms in place of long vectors as well. These have arguments, call sites and times in
//! them; so the last line of a program compares whole files, with vectors and with histograms.

use crate::{Figure, runs};
use refrain_analysis::nest::histograms::histograms;
use refrain_analysis::nest::nests;
use refrain_nest::{Grouped, Nest, Options, Seq};
use refrain_reader::{CallTrace, File, refrain_fold};
use refrain_signature::cells::put_unsigned;
use refrain_testing::Mpi;
use refrain_trace::form::{self, Structure};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The programs and their ranks.
const PROGRAMS: [(&str, usize); 8] = [
    ("bt.S", 16),
    ("cg.S", 16),
    ("cg.S", 64),
    ("is.S", 16),
    ("lu.W", 16),
    ("mg.S", 8),
    ("mg.S", 16),
    ("sp.S", 16),
];
/// The level at which files compress.
const LEVEL: i32 = 19;
/// Vectors of more numbers become histograms.
const ABOVE: u64 = 8;
/// Repetitions; the fastest counts.
const REPEATS: usize = 5;

/// What is switched off or on.
const CASES: [(&str, Options); 6] = [
    ("all", ALL),
    ("no LCS", Options { partial: false, ..ALL }),
    ("no delayed merge", Options { delayed: false, ..ALL }),
    ("no loop-agnostic merge", Options { agnostic: false, ..ALL }),
    ("none of these", Options { partial: false, delayed: false, agnostic: false, frames: 0 }),
    ("2 fuzzy frames", Options { frames: 2, ..ALL }),
];
const ALL: Options = Options { partial: true, delayed: true, agnostic: true, frames: 0 };

/// Traces the programs, and measures the nests. Returns a table, and the figures: no step makes nests larger.
pub fn measure() -> (String, Vec<Figure>) {
    let Some(folder) = std::env::var_os("NPB_BIN").map(PathBuf::from) else {
        return (
            "NPB_BIN names no folder with the NAS Parallel Benchmarks\n".to_owned(),
            Vec::new(),
        );
    };
    let Some(mpi) = Mpi::named("mpich-4.0") else { return Default::default() };
    let traces = tempfile::tempdir().expect("a folder");
    let mut table = format!("{:<36}{:>30}{:>22}\n", "", "with vectors", "with histograms");
    // Writing to a String cannot fail.
    let _ = writeln!(
        table,
        "{:<36}{:>8}{:>10}{:>12}{:>10}{:>12}",
        "", "nodes", "bytes", "ms", "bytes", "ms"
    );
    let mut figures = Vec::new();
    for (name, ranks) in PROGRAMS {
        let name = format!("{name}.{ranks}");
        let program = folder.join(&name);
        if !program.is_file() {
            continue;
        }
        let path = traces.path().join(format!("{name}.refrain"));
        runs::traced_with(&mpi, ranks, &program, &[], &path, &["--callsite", "stack:8"]);
        let Ok(File::Calls(trace)) = refrain_reader::open(&path) else { continue };
        let mut all = 0;
        for (case, options) in CASES {
            let measured = Measured::of(&trace, options);
            let (drawn, seconds) = with_histograms(&trace, options);
            let _ = writeln!(
                table,
                "{name:<12}{case:<24}{:>8}{:>10}{:>12.2}{drawn:>10}{:>12.2}",
                measured.nodes,
                measured.bytes,
                measured.seconds * 1e3,
                seconds * 1e3
            );
            if case == "all" {
                all = measured.nodes;
            } else if options.frames == 0 {
                figures.push(Figure {
                    name: format!("{name}: nodes with all steps, {case}"),
                    detail: format!("{all} and {} nodes", measured.nodes),
                    value: all as f64 / measured.nodes as f64,
                    bound: 1.0,
                    unit: "",
                });
            }
        }
        let [(exact, folding), (drawn, drawing)] = whole_files(&trace, traces.path());
        let _ = writeln!(
            table,
            "{name:<12}{:<24}{:>8}{exact:>10}{:>12.2}{drawn:>10}{:>12.2}",
            "whole file",
            "",
            folding * 1e3,
            drawing * 1e3
        );
        figures.push(Figure {
            name: format!("{name}: file with histograms, of one with vectors"),
            detail: format!("{drawn} and {exact} bytes"),
            value: drawn as f64 / exact as f64,
            bound: 1.0,
            unit: "",
        });
    }
    (table, figures)
}

/// The fastest of several runs: what it returns, and seconds.
fn fastest<T>(mut run: impl FnMut() -> T) -> (T, f64) {
    let mut timed = || {
        let begin = Instant::now();
        let found = run();
        (found, begin.elapsed().as_secs_f64())
    };
    let first = timed();
    (1..REPEATS)
        .map(|_| timed())
        .fold(first, |best, next| if next.1 < best.1 { next } else { best })
}

/// The bytes of a trace's histograms, compressed, and the seconds to make them.
fn with_histograms(trace: &CallTrace, options: Options) -> (usize, f64) {
    let made = || histograms(trace, options, ABOVE, &mut <[u8]>::to_vec).expect("histograms");
    let (made, seconds) = fastest(made);
    let bytes = refrain_fold::histograms::write(&made);
    (zstd::bulk::compress(&bytes, LEVEL).expect("bytes").len(), seconds)
}

/// The bytes of the trace as loop nests with vectors and with histograms, and the seconds to write them.
fn whole_files(trace: &CallTrace, folder: &Path) -> [(u64, f64); 2] {
    let path = folder.join("whole.refrain");
    let exact = fastest(|| form::fold(trace, &path, Structure::Nest, 0).expect("a file"));
    let drawn = fastest(|| {
        let made = histograms(trace, ALL, ABOVE, &mut <[u8]>::to_vec).expect("histograms");
        form::write_histograms(trace, &made, &path).expect("a file")
    });
    [exact, drawn]
}

/// The nest of a trace.
struct Measured {
    nodes: usize,
    bytes: usize,
    seconds: f64,
}

impl Measured {
    fn of(trace: &CallTrace, options: Options) -> Measured {
        let (all, seconds) = fastest(|| nests(trace, None, options).expect("structures"));
        let mut bytes = Vec::new();
        let nodes = all.iter().map(|common| written(&common.nest, &mut bytes)).sum();
        let bytes = zstd::bulk::compress(&bytes, LEVEL).expect("bytes").len();
        Measured { nodes, bytes, seconds }
    }
}

/// Writes a nest; returns its nodes.
fn written(nest: &[Grouped], out: &mut Vec<u8>) -> usize {
    let mut nodes = 0;
    for node in nest {
        nodes += 1;
        match node {
            Nest::Leaf(places) => {
                put_unsigned(out, 0);
                put_unsigned(out, places.skeleton.into());
                places.groups.iter().for_each(|(group, values)| vector(*group, values, out));
            }
            Nest::Loop { count, body } => {
                put_unsigned(out, body.len() as u64);
                count.iter().for_each(|(group, trips)| vector(*group, trips, out));
                nodes += written(body, out);
            }
            Nest::Block(_) => {}
        }
    }
    nodes
}

/// Writes runs of equal values.
fn vector<T: Copy + Eq + Into<u64>>(group: usize, values: &Seq<T>, out: &mut Vec<u8>) {
    put_unsigned(out, group as u64);
    let mut run: Option<(T, u64)> = None;
    for value in values.iter() {
        match &mut run {
            Some((last, count)) if *last == value => *count += 1,
            _ => {
                if let Some((value, count)) = run.replace((value, 1)) {
                    put_unsigned(out, count);
                    put_unsigned(out, value.into());
                }
            }
        }
    }
    if let Some((value, count)) = run {
        put_unsigned(out, count);
        put_unsigned(out, value.into());
    }
}
