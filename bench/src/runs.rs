//! Runs the programs of the benchmarks, plain and under `refrain trace`.

use refrain_testing::{Mpi, Outcome, Run, refrain_binary, workspace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Compiles one of `bench/programs`.
pub fn compile(mpi: &Mpi, folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(format!("{name}-{}", mpi.name()));
    let source = workspace().join(format!("bench/programs/{name}.c"));
    let mut compiler = mpi.command("mpicc");
    let compiled = compiler.args(["-O2", "-w", "-o"]).arg(&program).arg(source).status();
    assert!(compiled.is_ok_and(|s| s.success()), "{}: {name}.c does not compile", mpi.name());
    program
}

/// Runs a program.
pub fn plain(mpi: &Mpi, ranks: usize, program: &Path, args: &[&str]) -> Outcome {
    patient(mpi.run(ranks)).program(program).args(args).output().expect_success()
}

/// Runs a program. If each rank has a core, waiting ranks do not yield.
pub fn plain_on_cores(mpi: &Mpi, ranks: usize, program: &Path, args: &[&str]) -> Outcome {
    on_cores(patient(mpi.run(ranks)), ranks).program(program).args(args).output().expect_success()
}

/// Tells `scripts/mpi` that waiting ranks need not yield, if there are cores for all. The system call would
/// disturb the processor's caches and branch prediction.
pub fn on_cores(run: Run, ranks: usize) -> Run {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    if ranks <= cores { run.env("REFRAIN_RANKS_FIT", "1") } else { run }
}

/// Runs a program under `refrain trace`.
pub fn traced(mpi: &Mpi, ranks: usize, program: &Path, args: &[&str], trace: &Path) -> Outcome {
    traced_with(mpi, ranks, program, args, trace, &[])
}

/// The same with options.
pub fn traced_with(
    mpi: &Mpi,
    ranks: usize,
    program: &Path,
    args: &[&str],
    trace: &Path,
    options: &[&str],
) -> Outcome {
    traced_by(mpi, &refrain_binary(), ranks, program, args, trace, options)
}

/// The same by this `refrain`, which may be of another version.
pub fn traced_by(
    mpi: &Mpi,
    refrain: &Path,
    ranks: usize,
    program: &Path,
    args: &[&str],
    trace: &Path,
    options: &[&str],
) -> Outcome {
    let mut words: Vec<OsString> = vec!["trace".into(), "-o".into(), trace.into()];
    words.extend(options.iter().map(OsString::from));
    words.extend([
        "--".into(),
        "mpirun".into(),
        "-n".into(),
        ranks.to_string().into(),
        program.into(),
    ]);
    words.extend(args.iter().map(OsString::from));
    patient(mpi.run(1)).program(refrain).bare().args(words).output().expect_success()
}

/// Bytes of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The whole file.
    pub whole: f64,
    /// Statistics of durations in it.
    pub statistics: f64,
}

/// The size of a trace.
pub fn size(trace: &Path) -> Size {
    let container = refrain_container::Container::open(trace).expect("a trace");
    let statistics = container.section("timing").map_or(0, |section| section.stored);
    Size { whole: container.bytes() as f64, statistics: statistics as f64 }
}

/// Sets a long time limit: many ranks on few cores are slow.
fn patient(run: Run) -> Run {
    run.timeout(std::time::Duration::from_secs(300))
}
