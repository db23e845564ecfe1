//! Whole programs: how much longer they take, on two ranks, and how much memory they need.

use crate::{Figure, runs};
use refrain_testing::Mpi;
use std::path::Path;
use std::time::Instant;

/// How many plain and traced runs alternate.
const ROUNDS: usize = 7;

/// A small run of lammps.
pub const MELT: &str = "units lj\natom_style atomic\nlattice fcc 0.8442\n\
    region box block 0 10 0 10 0 10\ncreate_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\n\
    velocity all create 3.0 87287\npair_style lj/cut 2.5\npair_coeff 1 1 1.0 1.0 2.5\n\
    fix 1 all nve\nthermo 50\nrun 300\n";

/// Measures whole programs.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut figures = Vec::new();
    if let Some(mpi) = Mpi::named("mpich-4.0") {
        let stencil = runs::compile(&mpi, folder.path(), "stencil2d");
        let args = ["hand", "100000"];
        figures.push(slower(&mpi, folder.path(), &stencil, &args, "stencil2d, communication only"));
        figures.push(million_signatures(&mpi, folder.path()));
    }
    let lammps = Path::new("/usr/bin/lmp");
    if let Some(mpi) = Mpi::named("openmpi-4.1").filter(|_| lammps.is_file()) {
        let input = folder.path().join("in.melt");
        std::fs::write(&input, MELT).expect("a file");
        let input = input.to_string_lossy().into_owned();
        let args = ["-in", &input, "-log", "none"];
        figures.push(slower(&mpi, folder.path(), lammps, &args, "lammps, LJ melt"));
    }
    figures
}

/// How much longer a program takes, in %; no bound is promised.
fn slower(mpi: &Mpi, folder: &Path, program: &Path, args: &[&str], name: &str) -> Figure {
    let (mut plain, mut traced) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        runs::plain(mpi, 2, program, args);
        plain = plain.min(start.elapsed().as_secs_f64());
        let trace = folder.join("whole.refrain");
        let start = Instant::now();
        runs::traced(mpi, 2, program, args, &trace);
        traced = traced.min(start.elapsed().as_secs_f64());
        std::fs::remove_file(&trace).expect("a trace was written");
    }
    Figure {
        name: format!("{name}, 2 ranks: longer"),
        detail: format!("{plain:.2} s plain, {traced:.2} s with all of refrain trace"),
        value: 100.0 * (traced / plain - 1.0),
        bound: f64::INFINITY,
        unit: "%",
    }
}

fn million_signatures(mpi: &Mpi, folder: &Path) -> Figure {
    let program = runs::compile(mpi, folder, "signatures");
    let trace = folder.join("signatures.refrain");
    let outcome = runs::traced(mpi, 1, &program, &["1000000"], &trace);
    let peak = |line: &str| line.strip_prefix("peak-after-Finalize ")?.trim().parse::<f64>().ok();
    let kib = outcome.stdout.lines().find_map(peak).expect("the peak of memory");
    Figure {
        name: "a million distinct signatures: peak memory of the rank".to_owned(),
        detail: format!("trace of {} bytes", runs::size(&trace).whole),
        value: kib / 1000.0,
        bound: 300.0,
        unit: "MB",
    }
}
