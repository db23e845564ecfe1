//! The sizes of traces of the stencils of `bench/programs` and, if `NPB_BIN` names a folder with the NAS
//! Parallel Benchmarks built for MPICH (`cg.S.4`, `lu.W.16` …), of these.
//!
//! Sizes are those of whole files. Bounds: half of Pilgrim's size for the same program on MPICH 4.0.2, or 1.5 kB if that
//! is more; in total 30 %. Statistics take at most a quarter of a file, or 128 bytes. A trace may not grow with iterations
//! or, if the structure does not depend on ranks, with ranks. If `REFRAIN_BASELINE` names an older `refrain`, its traces are measured,
//! too: those of today have at most half of their bytes.

use crate::Figure;
use crate::runs::{self, Size};
use refrain_testing::{Mpi, refrain_binary};
use std::path::{Path, PathBuf};

/// No bound is below this.
const FLOOR: f64 = 1500.0;

/// Programs, ranks, and the bytes that Pilgrim's traces of them have.
const STENCILS: [(&str, usize, f64); 5] = [
    ("stencil2d", 4, 3316.0),
    ("stencil2d", 9, 3930.0),
    ("stencil2d", 64, 4150.0),
    ("stencil3d", 8, 3182.0),
    ("stencil3d", 64, 4774.0),
];

/// The same of the NAS Parallel Benchmarks, with the class.
const NPB: [(&str, usize, f64); 20] = [
    ("cg.S", 4, 2216.0),
    ("cg.S", 8, 3666.0),
    ("cg.S", 16, 4646.0),
    ("cg.S", 64, 8632.0),
    ("mg.S", 4, 7592.0),
    ("mg.S", 8, 9728.0),
    ("mg.S", 16, 12736.0),
    ("mg.S", 64, 27596.0),
    ("is.S", 4, 6718.0),
    ("is.S", 8, 11570.0),
    ("is.S", 16, 20504.0),
    ("is.S", 64, 114_342.0),
    ("lu.S", 4, 3650.0),
    ("lu.W", 16, 8432.0),
    ("ft.S", 4, 794.0),
    ("ep.S", 4, 512.0),
    ("bt.S", 4, 8956.0),
    ("bt.S", 9, 25112.0),
    ("sp.S", 4, 7210.0),
    ("sp.S", 9, 14604.0),
];

/// Programs that may not grow from 16 to 64 ranks by more than 10 %, or 256 bytes.
const FLAT: [&str; 5] = ["stencil2d", "stencil3d", "cg.S", "ft.S", "lu.W"];

/// Measures under MPICH 4.0, for which the other figures are known.
pub fn measure() -> Vec<Figure> {
    let Some(mpi) = Mpi::named("mpich-4.0") else { return Vec::new() };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let npb = std::env::var_os("NPB_BIN").map(PathBuf::from);
    let program = |name: &str, ranks: usize| match name.split_once('.') {
        None => Some(runs::compile(&mpi, folder.path(), name)),
        Some(_) => {
            Some(npb.as_ref()?.join(format!("{name}.{ranks}"))).filter(|path| path.is_file())
        }
    };
    let size = |refrain: &Path, name: &str, ranks: usize, args: &[&str]| {
        let program = program(name, ranks)?;
        Some(trace(&mpi, refrain, folder.path(), &program, ranks, args))
    };
    let (today, baseline) =
        (refrain_binary(), std::env::var_os("REFRAIN_BASELINE").map(PathBuf::from));
    if baseline.is_none() {
        println!("no comparison with an older version: REFRAIN_BASELINE does not name one");
    }
    let mut figures = Vec::new();
    let (mut ours, mut theirs) = (0.0, 0.0);
    for (name, ranks, pilgrim) in STENCILS.into_iter().chain(NPB) {
        let Some(found) = size(&today, name, ranks, &[]) else { continue };
        (ours, theirs) = (ours + found.whole, theirs + pilgrim);
        figures.push(Figure {
            name: format!("{name}, {ranks} ranks: trace"),
            detail: format!("Pilgrim's: {pilgrim}"),
            value: found.whole,
            bound: (pilgrim / 2.0).max(FLOOR),
            unit: "bytes",
        });
        figures.push(statistics(name, ranks, found));
        let old = baseline.as_ref().and_then(|refrain| size(refrain, name, ranks, &[]));
        figures.extend(old.map(|old| Figure {
            name: format!("{name}, {ranks} ranks: of the older version's"),
            detail: format!("{} against {} bytes", found.whole, old.whole),
            value: 100.0 * found.whole / old.whole,
            bound: 50.0,
            unit: "%",
        }));
    }
    for ranks in [4, 16, 64] {
        let found = size(&today, "multigrid", ranks, &[]).expect("a program");
        figures.push(statistics("multigrid", ranks, found));
    }
    let size =
        |name: &str, ranks: usize, args: &[&str]| Some(size(&today, name, ranks, args)?.whole);
    figures.push(Figure {
        name: "all of these traces: of Pilgrim's".to_owned(),
        detail: format!("{ours} against {theirs} bytes"),
        value: 100.0 * ours / theirs,
        bound: 30.0,
        unit: "%",
    });
    for name in FLAT {
        let (Some(few), Some(many)) = (size(name, 16, &[]), size(name, 64, &[])) else { continue };
        figures.push(Figure {
            name: format!("{name}: growth from 16 to 64 ranks"),
            detail: format!("{few} and {many} bytes"),
            value: many - few,
            bound: (few / 10.0).max(256.0),
            unit: "bytes",
        });
    }
    let iterations = |n: &str| size("stencil2d", 4, &["hand", n]).expect("a stencil");
    let (few, many) = (iterations("300"), iterations("100000"));
    figures.push(Figure {
        name: "stencil2d: growth from 300 to 100,000 iterations".to_owned(),
        detail: format!("{few} and {many} bytes"),
        value: many - few,
        // The digits of counters and of the command line.
        bound: 32.0,
        unit: "bytes",
    });
    let random = |rounds: &str| size("waitany_random", 8, &["1", rounds]).expect("a program");
    let (few, many) = (random("100"), random("1100"));
    figures.push(Figure {
        name: "waitany_random: bytes for each completion".to_owned(),
        detail: format!("{few} and {many} bytes; 7,000 more completions in random order"),
        value: (many - few) / 7000.0,
        bound: 1.0,
        unit: "bytes",
    });
    figures
}

/// The share of a file that statistics take.
fn statistics(name: &str, ranks: usize, found: Size) -> Figure {
    Figure {
        name: format!("{name}, {ranks} ranks: statistics, share of the file"),
        detail: format!("{} of {} bytes", found.statistics, found.whole),
        value: 100.0 * found.statistics / found.whole,
        bound: 100.0 * (found.whole / 4.0).max(128.0) / found.whole,
        unit: "%",
    }
}

fn trace(
    mpi: &Mpi,
    refrain: &Path,
    folder: &Path,
    program: &Path,
    ranks: usize,
    args: &[&str],
) -> Size {
    let trace = folder.join("size.refrain");
    runs::traced_by(mpi, refrain, ranks, program, args, &trace, &[]);
    let size = runs::size(&trace);
    std::fs::remove_file(&trace).expect("a trace was written");
    size
}
