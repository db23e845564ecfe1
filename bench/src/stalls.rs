//! How long the agent delays its program at a time, measured by the agent itself: `refrain_agent` with the
//! feature `stalls` counts its delays in a file per process, see `inside/stalls.rs` there.
//!
//! Each rank has a core, so that no rank takes the processor from another. Delays during which the kernel ran
//! another thread are counted apart.

use crate::{Figure, runs, stall_model};
use refrain_testing::{Mpi, refrain_binary, workspace};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A program, its arguments, its ranks.
const JOBS: [(&str, &[&str], usize); 5] = [
    ("stencil2d", &["hand", "100000"], 1),
    ("stencil2d", &["hand", "50000"], 2),
    ("multigrid", &["4000"], 2),
    ("random_tags", &["100"], 1),
    ("signatures", &["300000"], 1),
];

/// The programs that the bounds are for.
const BOUNDED: [&str; 2] = ["stencil2d", "multigrid"];

/// The program whose delays are those of the simulated ranks.
const MODELLED: &str = "multigrid";

/// A delay that costs a coupled job no more than itself.
const SHORT: f64 = 10e3;
/// The share of longer delays.
const LONGER: f64 = 1e-4;
/// The longest delay, in microseconds.
const LONGEST: f64 = 200.0;

/// The causes of delays, in the agent's order. The last are no part of the figures: they happen once in a thread.
const CAUSES: [&str; 6] = ["record", "piece", "append", "state", "flush", "open"];
const COUNTED: usize = 5;

/// Eight buckets for each power of two of ticks, as in the agent.
const BUCKETS: usize = 64 * 8;

/// Delays of one cause.
#[derive(Clone)]
pub struct Delays {
    /// By bucket.
    counts: Vec<u64>,
    /// In ticks.
    longest: u64,
    sum: u64,
    /// Delays during which another thread ran.
    apart: u64,
}

impl Delays {
    fn none() -> Delays {
        Delays { counts: vec![0; BUCKETS], longest: 0, sum: 0, apart: 0 }
    }

    fn read(words: &[u64]) -> Delays {
        let (counts, rest) = words.split_at(BUCKETS);
        Delays { counts: counts.to_vec(), longest: rest[0], sum: rest[1], apart: rest[2] }
    }

    fn add(&mut self, other: &Delays) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, n)| *sum += n);
        self.longest = self.longest.max(other.longest);
        self.sum += other.sum;
        self.apart += other.apart;
    }

    /// How many there were.
    fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How many took longer than so many ticks; a bucket counts by its end.
    fn longer_than(&self, ticks: f64) -> u64 {
        let is_longer = |(bucket, _): &(usize, &u64)| end(*bucket) > ticks;
        self.counts.iter().enumerate().filter(is_longer).map(|(_, n)| n).sum()
    }

    /// The ticks that all but this share of delays do not exceed.
    fn all_but(&self, share: f64) -> f64 {
        let mut rest = (share * self.count() as f64) as u64;
        for (bucket, n) in self.counts.iter().enumerate().rev() {
            if *n > rest {
                return end(bucket).min(self.longest as f64);
            }
            rest -= n;
        }
        0.0
    }

    /// Nanoseconds and count of each bucket that is not empty.
    pub fn histogram(&self, ticks: f64) -> Vec<(f64, u64)> {
        let all = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        all.map(|(bucket, n)| (end(bucket).min(self.longest as f64) / ticks, *n)).collect()
    }
}

/// The end of a bucket, in ticks.
fn end(bucket: usize) -> f64 {
    match bucket >> 3 {
        0..3 => bucket as f64,
        exponent => ((bucket & 7) + 9) as f64 * (1u64 << (exponent - 3)) as f64,
    }
}

/// Measures those programs whose name contains the text; returns tables for people and the figures.
pub fn measure(only: &str) -> (String, Vec<Figure>) {
    let (Some(mpi), Some(agent)) = (Mpi::named("mpich-4.0"), agent()) else {
        eprintln!("not measured: mpich-4.0 or the agent with the feature `stalls` is missing");
        return (String::new(), Vec::new());
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ticks = ticks_per_nanosecond();
    let (mut tables, mut figures, mut modelled) = (String::new(), Vec::new(), Vec::new());
    for (program, args, ranks) in JOBS.iter().filter(|job| job.0.contains(only)) {
        let causes = run(&mpi, &agent, folder.path(), (program, args, *ranks));
        let name = format!("{program} @{ranks}");
        tables += &table(&name, &causes, ticks);
        let mut all = Delays::none();
        causes.iter().take(COUNTED).for_each(|delays| all.add(delays));
        if *program == MODELLED {
            modelled = all.histogram(ticks);
        }
        let bound = |bound: f64| if BOUNDED.contains(program) { bound } else { f64::INFINITY };
        figures.push(Figure {
            name: format!("{name}: delays above {} µs", SHORT / 1e3),
            detail: format!(
                "{} of {}; 99.99 % take at most {:.1} µs",
                all.longer_than(SHORT * ticks),
                all.count(),
                all.all_but(LONGER) / ticks / 1e3
            ),
            value: all.longer_than(SHORT * ticks) as f64 / all.count() as f64 * 100.0,
            bound: bound(LONGER * 100.0),
            unit: "%",
        });
        figures.push(Figure {
            name: format!("{name}: longest delay"),
            detail: format!("{} delays with another thread on the core not counted", all.apart),
            value: all.longest as f64 / ticks / 1e3,
            bound: bound(LONGEST),
            unit: "µs",
        });
    }
    if !modelled.is_empty() {
        let (table, simulated) =
            stall_model::measure(&[("before", &stall_model::before()), ("now", &modelled)]);
        tables += &table;
        figures.extend(simulated);
    }
    (tables, figures)
}

/// The agent that counts its delays: `REFRAIN_STALLS_AGENT`, or what `make stalls` builds.
fn agent() -> Option<PathBuf> {
    let built = || workspace().join("target/stalls/release/librefrain_agent.so");
    let named = std::env::var_os("REFRAIN_STALLS_AGENT").map(PathBuf::from);
    Some(named.unwrap_or_else(built)).filter(|path| path.is_file())
}

/// The delays of all ranks of a traced run, by cause.
fn run(
    mpi: &Mpi,
    agent: &Path,
    folder: &Path,
    (program, args, ranks): (&str, &[&str], usize),
) -> Vec<Delays> {
    let counts = folder.join(format!("{program}-{ranks}"));
    std::fs::create_dir_all(&counts).expect("a folder");
    let program = runs::compile(mpi, folder, program);
    let trace = folder.join("stalls.refrain");
    let ranks_word = ranks.to_string();
    let words = ["trace".as_ref(), "-o".as_ref(), trace.as_os_str(), "--".as_ref()];
    let run = mpi.run(1).timeout(Duration::from_secs(300)).program(refrain_binary()).bare();
    let run = run.args(words).args(["mpirun", "-n", &ranks_word]).args([program]).args(args);
    let run = runs::on_cores(run, ranks);
    run.env("REFRAIN_AGENT", agent).env("REFRAIN_STALLS", &counts).output().expect_success();
    let mut causes = vec![Delays::none(); CAUSES.len()];
    for file in std::fs::read_dir(&counts).expect("a folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("counts");
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words.len(), CAUSES.len() * (BUCKETS + 3), "the agent has other counts");
        for (sum, words) in causes.iter_mut().zip(words.chunks(BUCKETS + 3)) {
            sum.add(&Delays::read(words));
        }
    }
    causes
}

/// Delays by cause, for people.
fn table(name: &str, causes: &[Delays], ticks: f64) -> String {
    let mut text = format!(
        "\n{name:<18}{:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}\n",
        "delays", "mean µs", "99 %", "99.99 %", "longest", "total ms", "apart"
    );
    for (cause, delays) in CAUSES.iter().zip(causes).filter(|(_, delays)| delays.count() > 0) {
        let micros = |ticks_taken: f64| ticks_taken / ticks / 1e3;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {cause:<16}{:>10} {:>9.2} {:>9.2} {:>9.1} {:>9.1} {:>9.1} {:>6}",
            delays.count(),
            micros(delays.sum as f64) / delays.count() as f64,
            micros(delays.all_but(0.01)),
            micros(delays.all_but(LONGER)),
            micros(delays.longest as f64),
            micros(delays.sum as f64) / 1e3,
            delays.apart
        );
    }
    text
}

/// The rate of the counter that the agent reads.
fn ticks_per_nanosecond() -> f64 {
    let now = || {
        // SAFETY: the processor's counter; every x86-64 has it.
        (unsafe { std::arch::x86_64::_rdtsc() }, Instant::now())
    };
    let (first, start) = now();
    std::thread::sleep(Duration::from_millis(100));
    let (last, end) = now();
    (last - first) as f64 / (end - start).as_nanos() as f64
}
