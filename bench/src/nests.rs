//! `make nests`: the sizes of traces of irregular programs, which are stored as loop nests; whole files.
//!
//! If `REFRAIN_BASELINE` names the `refrain` of an earlier version, traces of the same programs by that version are
//! measured as well: traces of irregular programs may have a fifth of its size.

use crate::{Figure, runs};
use refrain_testing::Mpi;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Irregular programs: name, ranks, arguments.
const IRREGULAR: [(&str, usize, &[&str]); 7] = [
    ("amr", 16, &["300"]),
    ("multigrid", 16, &["20"]),
    ("multigrid", 64, &["5"]),
    ("sweep", 8, &["4", "64"]),
    ("sweep", 16, &["4", "64"]),
    ("montecarlo", 8, &["1000"]),
    ("stencil2d", 16, &["hand", "300"]),
];

/// Programs whose traces may not grow with steps.
const FLAT: [(&str, &str); 4] =
    [("figure4", ""), ("pop", "periodic"), ("pop", "affine"), ("pop", "modulo")];

/// Measures under MPICH 4.0.
pub fn measure() -> Vec<Figure> {
    let Some(mpi) = Mpi::named("mpich-4.0") else { return Vec::new() };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let baseline = std::env::var_os("REFRAIN_BASELINE").map(PathBuf::from);
    let size = |name: &str, ranks: usize, args: &[&str]| {
        let program = runs::compile(&mpi, folder.path(), name);
        let trace = folder.path().join("nest.refrain");
        runs::traced(&mpi, ranks, &program, args, &trace);
        bytes(&trace)
    };
    let mut figures = Vec::new();
    for (name, ranks, args) in IRREGULAR {
        let bytes = size(name, ranks, args);
        let before = baseline.as_ref().map(|refrain| {
            let program = runs::compile(&mpi, folder.path(), name);
            before(&mpi, refrain, folder.path(), ranks, &program, args)
        });
        let share = if name == "stencil2d" { 1.0 } else { 0.2 };
        figures.push(Figure {
            name: format!("{name}, {ranks} ranks: trace"),
            detail: before.map_or(String::new(), |before| format!("before: {before}")),
            value: bytes,
            bound: before.map_or(f64::INFINITY, |before| before * share),
            unit: "bytes",
        });
    }
    for (name, pattern) in FLAT {
        let steps = |steps: &str| size(name, 4, &[steps, pattern]);
        let (few, many) = (steps("1000"), steps("100000"));
        figures.push(Figure {
            name: format!("{name} {pattern}: growth from 1,000 to 100,000 steps"),
            detail: format!("{few} and {many} bytes"),
            value: many - few,
            // The digits of counters and of the command line.
            bound: 40.0,
            unit: "bytes",
        });
    }
    let steps = |steps: &str| size("pop", 4, &[steps, "random"]);
    let (few, many) = (steps("1000"), steps("11000"));
    figures.push(Figure {
        name: "pop random: bytes for each step".to_owned(),
        detail: format!("{few} and {many} bytes; 10,000 more random trip counts up to 16"),
        value: (many - few) / 10_000.0,
        bound: 1.0,
        unit: "bytes",
    });
    figures
}

/// The size of a file.
fn bytes(trace: &Path) -> f64 {
    std::fs::metadata(trace).map_or(f64::INFINITY, |file| file.len() as f64)
}

/// The size of a trace by an earlier version.
fn before(
    mpi: &Mpi,
    refrain: &Path,
    folder: &Path,
    ranks: usize,
    program: &Path,
    args: &[&str],
) -> f64 {
    let trace = folder.join("before.refrain");
    let ranks = ranks.to_string();
    let mut words: Vec<OsString> = vec!["trace".into(), "-o".into(), trace.clone().into()];
    words.extend(["--", "mpirun", "-n", ranks.as_str()].map(OsString::from));
    words.push(program.into());
    words.extend(args.iter().map(OsString::from));
    let run = mpi.run(1).timeout(std::time::Duration::from_secs(300));
    run.program(refrain).bare().args(words).output().expect_success();
    bytes(&trace)
}
