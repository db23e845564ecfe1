//! What Refrain does before a program begins and after it ended: the start of ranks, the time from `MPI_Finalize` to the
//! prompt, and `refrain verify`.

use crate::{Figure, runs};
use refrain_testing::{Mpi, Run, refrain_binary};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Runs of each kind; the least or the median counts.
const ROUNDS: usize = 3;
/// Runs of a single rank that does nothing.
const SINGLE: usize = 101;
/// Ranks of a job.
const RANKS: usize = 64;
/// Cycles of `alone` with which 64 ranks make ten million calls.
const CYCLES: &str = "1080";

const ANY: f64 = f64::INFINITY;

/// Measures with MPICH.
pub fn measure() -> Vec<Figure> {
    let Some(mpi) = Mpi::named("mpich-4.0") else {
        eprintln!("not measured: there is no mpich-4.0");
        return Vec::new();
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut figures = start(&mpi, folder.path());
    for (program, args, calls) in [("alone", CYCLES, 10e6), ("alone", "0", 0.0)] {
        figures.extend(end(&mpi, folder.path(), program, args, calls));
    }
    figures
}

/// The processor time of all children so far, in seconds.
fn children() -> f64 {
    processor_time(libc::RUSAGE_CHILDREN)
}

/// The processor time so far of this process (`RUSAGE_SELF`) or its children, in seconds.
pub fn processor_time(whose: libc::c_int) -> f64 {
    // SAFETY: a structure of numbers may be zero, and getrusage fills it in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Processor time and wall-clock time of a run, in seconds.
fn spent(work: impl FnOnce()) -> (f64, f64) {
    let (before, start) = (children(), Instant::now());
    work();
    (children() - before, start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// What tracing adds to ranks that do nothing.
fn start(mpi: &Mpi, folder: &Path) -> Vec<Figure> {
    let program = runs::compile(mpi, folder, "empty");
    let trace = folder.join("empty.refrain");
    let parts = folder.join("parts");
    std::fs::create_dir_all(&parts).expect("a folder");
    // One rank alone: many ranks on few cores spend most of their time polling for each other.
    let agent = refrain_binary().with_file_name("librefrain_agent.so");
    let rank = |traced: bool| {
        let mut command = Command::new(if traced { refrain_binary() } else { program.clone() });
        if traced {
            command.arg("__rank").arg("--agent").arg(&agent).arg("--parts").arg(&parts);
            command.arg("--").arg(&program);
        }
        spent(|| assert!(command.status().is_ok_and(|status| status.success()))).0
    };
    let runs: Vec<(f64, f64)> = (0..SINGLE).map(|_| (rank(false), rank(true))).collect();
    let (plain, traced): (Vec<f64>, Vec<f64>) = runs.into_iter().unzip();
    let (plain, traced) = (median(plain), median(traced));
    let mut figures = vec![Figure {
        name: "start and end of an empty program: added to a rank".into(),
        detail: format!(
            "processor time {:.1} ms plain, {:.1} ms traced",
            1e3 * plain,
            1e3 * traced
        ),
        value: 1e3 * (traced - plain),
        bound: 5.0,
        unit: "ms",
    }];
    let job = |traced: bool| match traced {
        true => spent(|| drop(runs::traced(mpi, RANKS, &program, &[], &trace))),
        false => spent(|| drop(runs::plain(mpi, RANKS, &program, &[]))),
    };
    let runs: (Vec<_>, Vec<_>) = (0..ROUNDS).map(|_| (job(false), job(true))).unzip();
    let least = |of: &[(f64, f64)]| {
        of.iter().fold((ANY, ANY), |least, run| (least.0.min(run.0), least.1.min(run.1)))
    };
    let ((plain_cpu, plain), (traced_cpu, traced)) = (least(&runs.0), least(&runs.1));
    figures.push(Figure {
        name: format!("start and end of {RANKS} ranks of it, whole command"),
        detail: format!(
            "{plain:.2} s plain, {traced:.2} s traced; processor time {plain_cpu:.2} and {traced_cpu:.2} s"
        ),
        value: traced - plain,
        bound: ANY,
        unit: "s added",
    });
    figures
}

/// The time after the program, and that of `refrain verify`.
fn end(mpi: &Mpi, folder: &Path, name: &str, args: &str, most_calls: f64) -> Vec<Figure> {
    let program = runs::compile(mpi, folder, name);
    let trace = folder.join(format!("{name}.refrain"));
    let after = |run: Run| {
        let run = run.timeout(Duration::from_secs(600));
        let outcome = run.output().expect_success();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let times = outcome.stdout.lines().filter_map(|line| line.strip_prefix("ended "));
        let last = times.filter_map(|time| time.parse::<f64>().ok()).fold(0.0, f64::max);
        (now - last, outcome.stderr)
    };
    let (mut plain, mut traced, mut said) = (ANY, ANY, String::new());
    for _ in 0..ROUNDS {
        plain = plain.min(after(mpi.run(RANKS).program(&program).args([args])).0);
        let ranks = RANKS.to_string();
        let words =
            ["trace", "-o", trace.to_str().expect("a plain path"), "--", "mpirun", "-n", &ranks];
        let run = mpi.run(1).program(refrain_binary()).bare().args(words);
        let (seconds, stderr) = after(run.args([&program]).args([args]));
        (traced, said) = (traced.min(seconds), stderr);
    }
    let said = said.lines().take(2).map(|line| line.trim_start_matches("refrain: "));
    let said = said.collect::<Vec<_>>().join("; ");
    let verified = (0..ROUNDS).map(|_| verify(&trace)).reduce(|a, b| if a.1 < b.1 { a } else { b });
    let (calls, seconds) = verified.expect("at least one round");
    let is_large = calls >= 0.9 * most_calls && most_calls > 0.0;
    let bound = |bound: f64| if is_large { bound } else { ANY };
    vec![
        Figure {
            name: format!("{name} {args} @{RANKS}: from MPI_Finalize to the prompt"),
            detail: format!("{traced:.2} s traced, {plain:.2} s plain; {said}"),
            value: traced - plain,
            bound: bound(1.0),
            unit: "s added",
        },
        Figure {
            name: format!("{name} {args} @{RANKS}: refrain verify"),
            detail: format!("{calls:.0} calls in {seconds:.2} s"),
            value: 1e9 * seconds / calls,
            bound: bound(500.0),
            unit: "ns a call",
        },
    ]
}

/// The calls of a trace, and how long it takes to verify them.
fn verify(trace: &Path) -> (f64, f64) {
    let start = Instant::now();
    let output = Command::new(refrain_binary()).arg("verify").arg(trace).arg("--json").output();
    let seconds = start.elapsed().as_secs_f64();
    let output = output.expect("refrain runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (json["calls"].as_f64().expect("a number"), seconds)
}
