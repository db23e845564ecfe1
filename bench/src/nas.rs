//! `make nas`: traces of the NAS Parallel Benchmarks, and the same traces stored as loop nests, have every call that was
//! recorded, and their loop nests every call of their grammars.
//!
//! `NPB_BIN` names a folder with the benchmarks built for MPICH (`bt.S.16`, `cg.S.64` …); each is traced on as many ranks as it
//! is built for.

use crate::{Figure, runs};
use refrain_analysis::nest::nests;
use refrain_nest::{Options, Play, of_one};
use refrain_reader::{CallTrace, File};
use refrain_testing::{Mpi, refrain};
use std::path::{Path, PathBuf};

/// Programs on more ranks take too long on few cores.
const MOST_RANKS: usize = 64;

/// Traces and compares.
pub fn measure() -> Vec<Figure> {
    let Some(folder) = std::env::var_os("NPB_BIN").map(PathBuf::from) else {
        println!("NPB_BIN names no folder with the NAS Parallel Benchmarks");
        return Vec::new();
    };
    let Some(mpi) = Mpi::named("mpich-4.0") else { return Vec::new() };
    let entries = std::fs::read_dir(&folder).expect("the folder of NPB_BIN");
    let mut programs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    programs.sort();
    let traces = tempfile::tempdir().expect("a folder");
    let (trace, folded) = (traces.path().join("nas.refrain"), traces.path().join("nest.refrain"));
    let mut figures = Vec::new();
    for program in programs {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ranks = name.rsplit_once('.').and_then(|(_, ranks)| ranks.parse::<usize>().ok());
        let Some(ranks) = ranks.filter(|ranks| *ranks <= MOST_RANKS) else { continue };
        runs::traced_with(&mpi, ranks, &program, &[], &trace, &["--raw", "--callsite", "stack:8"]);
        let words = ["fold".as_ref(), trace.as_os_str(), "-o".as_ref(), folded.as_os_str()];
        refrain(words).expect_success();
        let (calls, different) = compared(&trace);
        let (_, in_nest) = compared(&folded);
        figures.push(Figure {
            name: format!("{name}: values that differ from the records"),
            detail: format!("{calls} calls, as recorded and as loop nests"),
            value: different + in_nest,
            bound: 0.0,
            unit: "",
        });
        figures.push(Figure {
            name: format!("{name}: groups whose loop nest has other calls"),
            detail: String::new(),
            value: inexact(&trace),
            bound: 0.0,
            unit: "",
        });
    }
    figures
}

/// The calls that `refrain verify` compared, and how many values differ.
fn compared(trace: &Path) -> (f64, f64) {
    let outcome = refrain(["verify".as_ref(), trace.as_os_str(), "--json".as_ref()]);
    let found: serde_json::Value =
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome}"));
    let number = |name: &str| found[name].as_f64().unwrap_or(f64::INFINITY);
    match found["ok"].as_bool() {
        Some(true) => (number("events_compared"), number("different")),
        _ => (number("events_compared"), number("different").max(1.0)),
    }
}

/// The groups whose nest does not have the calls of their grammars.
fn inexact(trace: &Path) -> f64 {
    let Ok(File::Calls(trace)) = refrain_reader::open(trace) else { return f64::INFINITY };
    let trace: &CallTrace = &trace;
    let mut inexact = 0;
    for common in nests(trace, None, Options::default()).expect("structures") {
        for (number, group) in common.groups.iter().enumerate() {
            let is_call = |terminal: &u32| group.signature(*terminal).is_some_and(|s| !s.is_note());
            let expected = group.grammars().iter().flatten().filter(is_call);
            let nest = of_one(&common.nest, number);
            inexact += u32::from(!Play::new(&nest).map(|(_, signature)| signature).eq(expected));
        }
    }
    inexact.into()
}
