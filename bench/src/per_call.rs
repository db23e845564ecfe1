//! What a recorded call costs: nanoseconds per call on one rank, plain and under
//! `refrain trace --raw`. Writing the log to disk is part of it.

use crate::Figure;
use refrain_testing::{Mpi, workspace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Plain and traced runs that take turns.
const ROUNDS: usize = 5;
/// What recording may add to a call.
const BOUND: f64 = 60.0;

/// Measures every MPI of this machine.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    Mpi::installed().iter().flat_map(|mpi| measure_one(mpi, folder.path())).collect()
}

fn measure_one(mpi: &Mpi, folder: &Path) -> Vec<Figure> {
    let program = compile(mpi, folder);
    let (mut plain, mut traced) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..ROUNDS {
        take_least(&mut plain, &run(mpi, &program, None));
        let trace = folder.join("percall.refrain");
        take_least(&mut traced, &run(mpi, &program, Some(&trace)));
        std::fs::remove_file(&trace).expect("a trace was written");
    }
    let figure = |(pattern, plain): (&String, &f64)| {
        let traced = traced.get(pattern).copied().unwrap_or(f64::NAN);
        Figure {
            name: format!("{}, {pattern}: added by --raw", mpi.name()),
            detail: format!("{plain:.1} plain, {traced:.1} traced; least of {ROUNDS} rounds of 30"),
            value: traced - plain,
            bound: BOUND,
            unit: "ns a call",
        }
    };
    plain.iter().map(figure).collect()
}

fn compile(mpi: &Mpi, folder: &Path) -> PathBuf {
    let program = folder.join(format!("percall-{}", mpi.name()));
    let source = workspace().join("bench/programs/percall.c");
    let compiler =
        mpi.command("mpicc").args(["-O2", "-w", "-o"]).arg(&program).arg(source).status();
    assert!(compiler.is_ok_and(|s| s.success()), "{}: percall.c does not compile", mpi.name());
    program
}

/// Lines `pattern nanoseconds`.
fn run(mpi: &Mpi, program: &Path, trace: Option<&Path>) -> String {
    mpi.run(1).program(program).trace_to(trace).output().expect_success().stdout
}

fn take_least(least: &mut BTreeMap<String, f64>, output: &str) {
    for line in output.lines() {
        if let Some((pattern, nanos)) = line.split_once(' ')
            && let Ok(nanos) = nanos.parse::<f64>()
        {
            let entry = least.entry(pattern.to_owned()).or_insert(f64::INFINITY);
            *entry = entry.min(nanos);
        }
    }
}
