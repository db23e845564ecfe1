//! The cost of recording and replaying receive orders, and the sizes of records.
//!
//! Programs: particles that move between ranks (`tests/victims/order_montecarlo.c`), which wait with
//! `MPI_Testsome`; wildcard receives in a deterministic program; and single calls.

use crate::per_call::take_least;
use crate::{Figure, runs};
use flate2::Compression;
use flate2::write::GzEncoder;
use refrain_testing::{Mpi, Outcome, refrain_binary, sorted_lines, workspace};
use refrain_trace::Orders;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How many plain and recorded rounds of single calls alternate.
const ROUNDS: usize = 7;
/// The same for whole runs, which need more repeats to find the least time. Fewer replays are needed, because
/// their times are far below their bound.
const RUNS: usize = 40;
const REPLAYS: usize = 10;
/// Particles of each rank, and collisions of a particle between messages: some ten microseconds of work.
const PARTICLES: &str = "8000";
const COLLISIONS: &str = "1000";
/// Rounds of single calls, and how many calls of a round concern the receive order.
const CALLS: [(&str, f64); 6] = [
    ("sendrecv", 1.0),
    ("irecv+wait", 2.0),
    ("irecv+waitany", 2.0),
    ("irecv+testsome", 2.0),
    ("failed-test", 1.0),
    ("failed-iprobe", 1.0),
];

/// Measures Debian's MPIs, or the installed one.
pub fn measure() -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let is_usual = |mpi: &Mpi| ["mpich-4.0", "openmpi-4.1", "path"].contains(&mpi.name());
    let mut figures = Vec::new();
    for mpi in Mpi::installed().into_iter().filter(is_usual) {
        let bench = Bench { mpi: &mpi, folder: folder.path() };
        figures.extend(bench.calls());
        figures.extend(bench.particles());
        figures.extend(bench.sizes());
        figures.push(bench.certain());
        figures.push(bench.clocks());
    }
    figures
}

struct Bench<'a> {
    mpi: &'a Mpi,
    folder: &'a Path,
}

impl Bench<'_> {
    fn victim(&self) -> PathBuf {
        let program = self.folder.join(format!("montecarlo-{}", self.mpi.name()));
        let source = workspace().join("tests/victims/order_montecarlo.c");
        let mut compiler = self.mpi.command("mpicc");
        let compiler = compiler.args(["-O2", "-w", "-o"]).arg(&program).arg(source).arg("-lm");
        assert!(compiler.status().is_ok_and(|s| s.success()), "the particles do not compile");
        program
    }

    fn record_path(&self) -> PathBuf {
        self.folder.join("order.refrain")
    }

    /// Runs a program under `refrain`, after some words.
    fn under(&self, words: &[&str], ranks: usize, program: &Path, args: &[&str]) -> Outcome {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        all.extend(["--", "mpirun", "-n", &ranks.to_string()].map(OsString::from));
        all.push(program.into());
        all.extend(args.iter().map(OsString::from));
        let run = self.mpi.run(1).program(refrain_binary()).bare().args(all);
        runs::on_cores(run, ranks)
            .timeout(std::time::Duration::from_secs(300))
            .output()
            .expect_success()
    }

    fn record(&self, ranks: usize, program: &Path, args: &[&str]) -> Outcome {
        let path = self.record_path();
        let path = path.to_str().expect("a plain path");
        self.under(&["record", "-o", path], ranks, program, args)
    }

    fn replay(&self, ranks: usize, program: &Path, args: &[&str]) -> Outcome {
        let path = self.record_path();
        let path = path.to_str().expect("a plain path");
        self.under(&["replay", path], ranks, program, args)
    }

    /// The time that recording adds to a call.
    fn calls(&self) -> Vec<Figure> {
        let program = runs::compile(self.mpi, self.folder, "matching");
        let (mut plain, mut recorded) = (BTreeMap::new(), BTreeMap::new());
        for _ in 0..ROUNDS {
            let alone = runs::plain_on_cores(self.mpi, 1, &program, &[]);
            take_least(&mut plain, &alone.stdout);
            take_least(&mut recorded, &self.record(1, &program, &[]).stdout);
        }
        let figure = |(name, calls): (&str, f64)| {
            let (plain, recorded) = (plain.get(name)?, recorded.get(name)?);
            Some(Figure {
                name: format!("{}, {name}, recorded: added", self.mpi.name()),
                detail: format!(
                    "{plain:.1} plain, {recorded:.1} recorded a round of {calls} calls"
                ),
                value: (recorded - plain) / calls,
                bound: 100.0,
                unit: "ns a call",
            })
        };
        CALLS.into_iter().filter_map(figure).collect()
    }

    /// How much longer particles take on two ranks, including the work of the command line.
    fn particles(&self) -> Vec<Figure> {
        let program = self.victim();
        let args = [PARTICLES, "1", COLLISIONS];
        let mut times = [f64::INFINITY; 3];
        let mut least = |which: usize, run: &dyn Fn() -> Outcome| {
            let start = Instant::now();
            let outcome = run();
            times[which] = times[which].min(start.elapsed().as_secs_f64());
            outcome
        };
        for run in 0..RUNS {
            least(0, &|| runs::plain_on_cores(self.mpi, 2, &program, &args));
            let recorded = least(1, &|| self.record(2, &program, &args));
            if run % (RUNS / REPLAYS) != 0 {
                continue;
            }
            let replayed = least(2, &|| self.replay(2, &program, &args));
            let [recorded, replayed] = [&recorded, &replayed].map(|run| sorted_lines(&run.stdout));
            assert_eq!(recorded, replayed, "a replay differs");
        }
        let [plain, recorded, replayed] = times;
        let figure = |what: &str, time: f64, runs: usize, bound: f64| Figure {
            name: format!("{}, particles on 2 ranks, {what}", self.mpi.name()),
            detail: format!(
                "{plain:.3} s plain, {time:.3} s {what}; least of {RUNS} and of {runs} runs"
            ),
            value: time / plain,
            bound,
            unit: "times plain",
        };
        let recorded = figure("recorded", recorded, RUNS, 1.05);
        vec![recorded, figure("replayed", replayed, REPLAYS, 1.5)]
    }

    /// The size of the record of particles relative to the paper's base table of the same run.
    fn sizes(&self) -> Vec<Figure> {
        let program = self.victim();
        let mut figures = Vec::new();
        for (ranks, near) in [(8, true), (16, true), (8, false), (16, false)] {
            let table = self.folder.join("table");
            let table = table.to_str().expect("a plain path");
            let args = ["2000", "1", "100", table, "near"];
            self.record(ranks, &program, &args[..if near { 5 } else { 4 }]);
            let zipped: u64 = (0..ranks).map(|rank| zipped(&format!("{table}.{rank}"))).sum();
            let (bytes, receives) = self.recorded();
            let which = if near { "particles" } else { "particles that go anywhere" };
            let name = format!("{}, {which} on {ranks} ranks: record", self.mpi.name());
            let detail = format!("{bytes} bytes, {receives} receives, {zipped} bytes of gzip");
            let (bytes, receives) = (bytes as f64, receives as f64);
            figures.push(Figure {
                name: format!("{name} to gzip of the base table"),
                detail: detail.clone(),
                value: bytes / zipped as f64,
                bound: 1.0 / 6.0,
                unit: "of its size",
            });
            let (value, bound, unit) = (bytes / receives, 0.6, "bytes a receive");
            figures.push(Figure { name, detail, value, bound, unit });
        }
        figures
    }

    /// Bytes and receives of the last record.
    fn recorded(&self) -> (u64, u64) {
        let orders = Orders::open(&self.record_path()).expect("a record");
        let receives = orders.ranks.iter().map(|rank| {
            let own = refrain_order::causal::summary::summary(&rank.frames).expect("a record");
            own.receives.matched + own.named
        });
        let bytes = orders.ranks.iter().map(|rank| rank.frames.bytes().len() as u64);
        (bytes.sum(), receives.sum())
    }

    /// The bytes of a reading of the clock, in a program that measures its phases.
    fn clocks(&self) -> Figure {
        let program = runs::compile(self.mpi, self.folder, "timers");
        let outcome = self.record(16, &program, &["200"]);
        let orders = Orders::open(&self.record_path()).expect("a record");
        let (mut values, mut bytes) = (0, 0);
        for rank in &orders.ranks {
            let own = refrain_order::causal::summary::summary(&rank.frames).expect("a record");
            values += own.clock_values;
            bytes += own.value_bytes;
        }
        Figure {
            name: format!("{}, a program with timers on 16 ranks: clock values", self.mpi.name()),
            detail: format!("{bytes} bytes, {values} values; {}", outcome.stdout.trim()),
            value: bytes as f64 / values as f64,
            bound: 0.8,
            unit: "bytes a value",
        }
    }

    /// Deterministic matches take no bytes.
    fn certain(&self) -> Figure {
        let program = runs::compile(self.mpi, self.folder, "any_source");
        self.record(2, &program, &["200000"]);
        let (bytes, receives) = self.recorded();
        Figure {
            name: format!("{}, a ring that receives from any source: record", self.mpi.name()),
            detail: format!("{bytes} bytes, {receives} receives"),
            value: bytes as f64 / receives as f64,
            bound: 0.01,
            unit: "bytes a receive",
        }
    }
}

/// Bytes of a file after gzip -6.
fn zipped(path: &str) -> u64 {
    let plain = std::fs::read(path).expect("a table");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    let zipped = gzip.write_all(&plain).and_then(|()| gzip.finish());
    zipped.expect("memory takes bytes").len() as u64
}
