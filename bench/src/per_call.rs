//! The cost of a traced call: nanoseconds per call on one rank, plain and under `refrain trace`. It includes
//! encoding, grammar, statistics and the log on disk, but not `MPI_Finalize`.

use crate::{Figure, runs};
use refrain_testing::Mpi;
use std::collections::BTreeMap;
use std::path::Path;

/// How many plain and traced runs alternate.
const ROUNDS: usize = 5;

/// Programs, and the nanoseconds per call that tracing may add to each of their patterns.
const PROGRAMS: [(&str, &[(&str, f64)]); 3] = [
    ("percall", &[("Comm_rank", 80.0), ("self-Sendrecv", 120.0), ("Irecv+Isend+Waitall", 130.0)]),
    ("random_tags", &[("random-tags-Sendrecv", 350.0)]),
    ("malloc_free", &[("malloc+free-64", 30.0), ("malloc+free-16..4096", 30.0)]),
];

/// Measures every MPI of this machine.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut figures = Vec::new();
    for mpi in Mpi::installed() {
        for (program, bounds) in PROGRAMS {
            figures.extend(measure_one(&mpi, folder.path(), program, bounds));
        }
    }
    figures
}

fn measure_one(mpi: &Mpi, folder: &Path, name: &str, bounds: &[(&str, f64)]) -> Vec<Figure> {
    let program = runs::compile(mpi, folder, name);
    let (mut plain, mut traced) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..ROUNDS {
        take_least(&mut plain, &runs::plain(mpi, 1, &program, &[]).stdout);
        let trace = folder.join("percall.refrain");
        take_least(&mut traced, &runs::traced(mpi, 1, &program, &[], &trace).stdout);
        std::fs::remove_file(&trace).expect("a trace was written");
    }
    let figure = |(pattern, bound): &(&str, f64)| {
        let (plain, traced) = (plain.get(*pattern)?, traced.get(*pattern)?);
        Some(Figure {
            name: format!("{}, {pattern}: added", mpi.name()),
            detail: format!("{plain:.1} plain, {traced:.1} traced; least of {ROUNDS} rounds"),
            value: traced - plain,
            bound: *bound,
            unit: "ns a call",
        })
    };
    bounds.iter().filter_map(figure).collect()
}

/// Reads lines `pattern nanoseconds`, and keeps the least number of each pattern.
pub fn take_least(least: &mut BTreeMap<String, f64>, output: &str) {
    for line in output.lines() {
        if let Some((pattern, nanos)) = line.split_once(' ')
            && let Ok(nanos) = nanos.parse::<f64>()
        {
            let entry = least.entry(pattern.to_owned()).or_insert(f64::INFINITY);
            *entry = entry.min(nanos);
        }
    }
}
