//! The times of calls: the cost of recording them, and their size in each mode.
//!
//! Bounds are promised for the cost per call of statistics, exact times and the mode `loop`, and
//! that `loop` beats the paper's HIST (Pilgrim §4.5, tables 8 and 9) in size and in precision.

use crate::per_call::take_least;
use crate::{Figure, runs, whole};
use refrain_signature::stats::Stats;
use refrain_testing::Mpi;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How many runs of each kind alternate.
const ROUNDS: usize = 15;

/// Modes of recording times, and the nanoseconds that each may add to a call.
const MODES: [(&str, f64); 2] = [("lossless", 25.0), ("loop", 40.0)];

/// The cost of times per call.
pub fn measure() -> Vec<Figure> {
    let mut figures = vec![statistics()];
    if let Some(mpi) = Mpi::named("mpich-4.0") {
        figures.extend(added(&mpi));
    }
    figures
}

/// Adds a call to the statistics of its signature.
fn statistics() -> Figure {
    const CALLS: u64 = 1 << 20;
    let mut least = f64::INFINITY;
    for _ in 0..30 {
        let mut all = vec![Stats::default(); 64];
        let (mut state, start) = (1u64, Instant::now());
        for _ in 0..CALLS {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            all[(state >> 58) as usize].note(state >> 44 & 0xffff, state >> 30 & 0xfff);
        }
        least = least.min(start.elapsed().as_nanos() as f64 / CALLS as f64);
        black_box(all);
    }
    Figure {
        name: "statistics, each call".into(),
        detail: "64 signatures by turns, random times; least of 30 repeats".into(),
        value: least,
        bound: 10.0,
        unit: "ns",
    }
}

/// The time that each mode adds to a call, compared with tracing without times.
fn added(mpi: &Mpi) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = runs::compile(mpi, folder.path(), "percall");
    let trace = folder.path().join("percall.refrain");
    let mut least: Vec<BTreeMap<String, f64>> = vec![BTreeMap::new(); 1 + MODES.len()];
    for _ in 0..ROUNDS {
        let modes = MODES.iter().map(|(mode, _)| vec!["--timing", *mode]);
        for (options, least) in [Vec::new()].into_iter().chain(modes).zip(&mut least) {
            let run = runs::traced_with(mpi, 1, &program, &[], &trace, &options);
            take_least(least, &run.stdout);
            std::fs::remove_file(&trace).expect("a trace was written");
        }
    }
    let (without, with) = least.split_first().expect("runs without times");
    let mut figures = Vec::new();
    for ((mode, bound), least) in MODES.iter().zip(with) {
        for (pattern, value) in least {
            let before = without.get(pattern).copied().unwrap_or(f64::NAN);
            figures.push(Figure {
                name: format!("--timing {mode}, {pattern}: added"),
                detail: format!(
                    "{before:.1} traced, {value:.1} with times; least of {ROUNDS} rounds"
                ),
                value: value - before,
                bound: *bound,
                unit: "ns",
            });
        }
    }
    figures
}

/// All modes on the times of real programs: the tables, and the figures that have bounds.
pub fn tables() -> (String, Vec<Figure>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut text, mut figures) = (String::new(), Vec::new());
    for (name, trace) in programs(folder.path()) {
        let table = table(&trace);
        text += &format!("{name}\n{table}\n");
        figures.extend(promises(&name, &table));
        std::fs::remove_file(&trace).expect("a trace was written");
    }
    (text, figures)
}

/// Programs on many ranks, traced with `--raw`: lammps, and the NAS Parallel Benchmarks if `NPB_BIN` names a folder
/// of them.
fn programs(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut all = Vec::new();
    let mut record = |mpi: &Mpi, ranks: usize, program: &Path, args: &[&str], name: &str| {
        let name = format!("{name}, {ranks} ranks");
        let trace = folder.join(format!("{name}.refrain"));
        runs::traced_with(mpi, ranks, program, args, &trace, &["--raw"]);
        all.push((name, trace));
    };
    let lammps = Path::new("/usr/bin/lmp");
    if let Some(mpi) = Mpi::named("openmpi-4.1").filter(|_| lammps.is_file()) {
        let input = folder.join("in.melt");
        std::fs::write(&input, whole::MELT).expect("a file");
        let input = input.to_string_lossy().into_owned();
        for ranks in [8, 16] {
            record(&mpi, ranks, lammps, &["-in", &input, "-log", "none"], "lammps, LJ melt");
        }
    }
    let kernels = std::env::var_os("NPB_BIN").map(PathBuf::from);
    if let (Some(kernels), Some(mpi)) = (kernels, Mpi::named("mpich-4.0")) {
        for (kernel, ranks) in [("cg.S", 8), ("mg.S", 8), ("cg.S", 16), ("lu.W", 16)] {
            let program = kernels.join(format!("{kernel}.{ranks}"));
            if program.is_file() {
                record(&mpi, ranks, &program, &[], kernel);
            }
        }
    }
    all
}

/// The table of one trace, as the example of `refrain-timing` prints it.
fn table(trace: &Path) -> String {
    let mut words: Vec<OsString> = ["run", "--release", "--quiet", "-p", "refrain-timing"]
        .into_iter()
        .chain(["--features", "zfp", "--example", "timing_table", "--"])
        .map(OsString::from)
        .collect();
    words.push(trace.into());
    let output = Command::new(env!("CARGO")).args(words).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The first line names a file that no longer exists.
    text.lines().skip(1).map(|line| format!("{line}\n")).collect()
}

/// The promises: exact times are at least three times smaller, and `loop` is better than `hist` in every column.
fn promises(name: &str, table: &str) -> Vec<Figure> {
    let row = |mode: &str| -> Vec<f64> {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(mode));
        let words = line.unwrap_or_default().split_whitespace().skip(1);
        words.map(|word| word.parse().unwrap_or(f64::NAN)).collect()
    };
    let (lossless, own, hist) = (row("lossless"), row("loop"), row("hist"));
    let of = |row: &[f64], column: usize| row.get(column).copied().unwrap_or(f64::NAN);
    let figure = |what: &str, better: f64, worse: f64, unit| Figure {
        name: format!("{name}: {what}"),
        detail: format!("{better:.2} against {worse:.2}"),
        value: worse / better,
        bound: 1.0,
        unit,
    };
    vec![
        figure("ratio of exact times, at least 3", of(&lossless, 2), 3.0, "of it"),
        figure("ratio, loop against hist", of(&own, 2), of(&hist, 2), "of it"),
        figure("PSNR of durations, loop against hist", of(&own, 3), of(&hist, 3), "of it"),
        figure("PSNR of intervals, loop against hist", of(&own, 4), of(&hist, 4), "of it"),
    ]
}
