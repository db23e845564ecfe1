//! What tracing and recording cost a job whose ranks wait for each other: a delay of one rank delays
//! those that wait for its messages, so a job pays more than the time that the agent computes.
//!
//! Plain, traced and recorded runs take turns. Of each kind the fastest run counts. Whole commands are
//! compared, from the start to the prompt; the time between the program's own barriers is in the detail.

use crate::{Figure, runs};
use refrain_testing::{Mpi, refrain_binary};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs of each kind.
const ROUNDS: usize = 5;

/// A program on a number of ranks, and the bounds it is held to.
struct Job {
    program: &'static str,
    args: &'static [&'static str],
    ranks: usize,
    /// How many times longer the whole traced command may take.
    times: f64,
    /// What tracing may add to a call, in nanoseconds.
    added: f64,
}

const fn job(
    program: &'static str,
    args: &'static [&'static str],
    ranks: usize,
    times: f64,
    added: f64,
) -> Job {
    Job { program, args, ranks, times, added }
}

const ANY: f64 = f64::INFINITY;

const JOBS: [Job; 10] = [
    job("stencil2d", &["hand", "100000"], 1, ANY, 120.0),
    job("stencil2d", &["hand", "50000"], 2, ANY, ANY),
    job("stencil2d", &["hand", "2000"], 16, ANY, ANY),
    job("pingpong", &["300000"], 2, ANY, ANY),
    job("pingpong", &["3000"], 16, ANY, ANY),
    job("multigrid", &["2000"], 2, ANY, 200.0),
    job("multigrid", &["100"], 8, 1.5, ANY),
    job("multigrid", &["100"], 16, ANY, ANY),
    job("multigrid", &["50"], 32, 1.5, ANY),
    job("multigrid", &["30"], 64, 1.5, ANY),
];

/// How a command is run.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Traced,
    Recorded,
}

/// The fastest run of a kind.
#[derive(Clone, Copy)]
struct Fastest {
    /// The whole command, in seconds.
    command: f64,
    /// Between the barriers of the program, in seconds.
    inside: f64,
    /// The calls of rank 0 between the barriers.
    calls: f64,
}

/// Measures those programs whose name contains the text, with MPICH.
pub fn measure(only: &str) -> Vec<Figure> {
    let Some(mpi) = Mpi::named("mpich-4.0") else {
        eprintln!("not measured: there is no mpich-4.0");
        return Vec::new();
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let chosen = JOBS.iter().filter(|job| job.program.contains(only));
    chosen.flat_map(|job| figures(&mpi, folder.path(), job)).collect()
}

fn figures(mpi: &Mpi, folder: &Path, job: &Job) -> Vec<Figure> {
    let program = runs::compile(mpi, folder, job.program);
    let none = Fastest { command: ANY, inside: ANY, calls: 1.0 };
    let mut fastest = [none; 3];
    for _ in 0..ROUNDS {
        for (kind, fastest) in
            [Kind::Plain, Kind::Traced, Kind::Recorded].into_iter().zip(&mut fastest)
        {
            run(mpi, folder, job, &program, kind, fastest);
        }
    }
    let [plain, traced, recorded] = fastest;
    let name = format!("{} @{}", job.program, job.ranks);
    let added = |kind: &Fastest| 1e9 * (kind.inside - plain.inside) / plain.calls;
    let figure = |kind: &str, fastest: &Fastest, times: f64| Figure {
        name: format!("{name}, {kind}"),
        detail: format!(
            "{:.2} s plain, {:.2} s {kind}; inside {:.3} and {:.3} s, {:+.0} ns for each of {:.0} calls",
            plain.command,
            fastest.command,
            plain.inside,
            fastest.inside,
            added(fastest),
            plain.calls
        ),
        value: fastest.command / plain.command,
        bound: times,
        unit: "times plain",
    };
    let mut figures =
        vec![figure("traced", &traced, job.times), figure("recorded", &recorded, ANY)];
    if job.added.is_finite() {
        figures.push(Figure {
            name: format!("{name}, traced: added"),
            detail: format!("{:.0} calls of rank 0", plain.calls),
            value: added(&traced),
            bound: job.added,
            unit: "ns a call",
        });
    }
    figures
}

fn run(mpi: &Mpi, folder: &Path, job: &Job, program: &Path, kind: Kind, fastest: &mut Fastest) {
    let file: PathBuf = folder.join("coupled.refrain");
    let ranks = job.ranks.to_string();
    let command = mpi.run(job.ranks).timeout(std::time::Duration::from_secs(300));
    let under = |word: &str| {
        let words =
            [word, "-o", file.to_str().expect("a plain path"), "--", "mpirun", "-n", &ranks];
        let bare = mpi.run(1).timeout(std::time::Duration::from_secs(300));
        bare.program(refrain_binary()).bare().args(words).args([program]).args(job.args)
    };
    let command = match kind {
        Kind::Plain => command.program(program).args(job.args),
        Kind::Traced => under("trace"),
        Kind::Recorded => under("record"),
    };
    let command = runs::on_cores(command, job.ranks);
    let start = Instant::now();
    let outcome = command.output().expect_success();
    let seconds = start.elapsed().as_secs_f64();
    let words: Vec<&str> = outcome.stdout.split_whitespace().collect();
    let number = |name: &str| -> f64 {
        let at = words.iter().position(|word| *word == name).expect("the program prints it");
        words.get(at + 1).and_then(|word| word.parse().ok()).expect("a number")
    };
    let inside = number("seconds");
    if seconds < fastest.command {
        fastest.command = seconds;
    }
    if inside < fastest.inside {
        (fastest.inside, fastest.calls) = (inside, number("calls"));
    }
}
