//! Receive orders with the clock method: the figures of Sato et al. (SC '15) on our own programs.
//!
//! The sizes of their figure 13 are measured in one run: the program writes the base table itself, Refrain
//! records, and the causal recorder records the same receives. *By place* is the size of Refrain's
//! record: a table for each call stack, and everything else that a replay needs.

use crate::per_call::take_least;
use crate::{Figure, runs};
use flate2::Compression;
use flate2::write::GzEncoder;
use refrain_order::clock::Recorder;
use refrain_order::clock::background::Background;
use refrain_order::clock::summary::{Counts, summary};
use refrain_order::clock::table::{BaseRow, Message, Table};
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording, Stamp, Ticket,
};
use refrain_testing::{Mpi, Outcome, refrain_binary, sorted_lines, workspace};
use refrain_trace::Orders;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Ranks of figure 13, and particles of each rank.
const RANKS: usize = 16;
const PARTICLES: &str = "2000";
/// How many runs of each kind alternate where times are compared.
const ROUNDS: usize = 5;
/// How fast the paper's queue is drained: 331 k events a second (§6.2), as nanoseconds per event.
const PAPER_DRAIN: f64 = 1e9 / 331e3;

/// Measures Debian's MPIs, or the installed one. Returns tables, and the figures that have a bound. Times need a
/// quiet machine, sizes do not.
pub fn measure(with_times: bool) -> (String, Vec<Figure>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let is_usual = |mpi: &Mpi| ["mpich-4.0", "openmpi-4.1", "path"].contains(&mpi.name());
    let (mut tables, mut figures) = (String::new(), Vec::new());
    for mpi in Mpi::installed().into_iter().filter(is_usual) {
        let bench = Bench { mpi: &mpi, folder: folder.path() };
        bench.ladder(false, &mut tables, &mut figures);
        let scripts = bench.ladder(true, &mut tables, &mut figures);
        figures.push(bench.hidden());
        if with_times {
            bench.overhead(&mut tables);
            bench.calls(&mut tables);
            figures.push(bench.drain(&scripts));
        }
    }
    (tables, figures)
}

struct Bench<'a> {
    mpi: &'a Mpi,
    folder: &'a Path,
}

impl Bench<'_> {
    fn victim(&self, name: &str) -> PathBuf {
        let program = self.folder.join(format!("{name}-{}", self.mpi.name()));
        let source = workspace().join(format!("tests/victims/order_{name}.c"));
        let mut compiler = self.mpi.command("mpicc");
        let compiler = compiler.args(["-O2", "-w", "-o"]).arg(&program).arg(source).arg("-lm");
        assert!(compiler.status().is_ok_and(|s| s.success()), "{name} does not compile");
        program
    }

    fn path(&self) -> PathBuf {
        self.folder.join("clock.refrain")
    }

    /// Runs a program under `refrain` with these words.
    fn under(&self, words: &[&str], ranks: usize, program: &Path, args: &[&str]) -> Outcome {
        self.run(words, ranks, program, args, false)
    }

    fn run(
        &self,
        words: &[&str],
        ranks: usize,
        program: &Path,
        args: &[&str],
        clocks_only: bool,
    ) -> Outcome {
        let mut all: Vec<OsString> = words.iter().map(OsString::from).collect();
        all.push(self.path().into());
        all.extend(["--", "mpirun", "-n", &ranks.to_string()].map(OsString::from));
        all.push(program.into());
        all.extend(args.iter().map(OsString::from));
        let mut run = self.mpi.run(1).program(refrain_binary()).bare().args(all);
        if clocks_only {
            run = run.env("REFRAIN_CLOCKS_ONLY", "1");
        }
        runs::on_cores(run, ranks).timeout(Duration::from_secs(600)).output().expect_success()
    }

    /// The base tables that a program writes while it is recorded, by rank.
    fn tables(&self, program: &Path, args: &[&str], last: &[&str]) -> Vec<Vec<BaseRow>> {
        let table = self.folder.join("table");
        let table = table.to_str().expect("a plain path").to_owned();
        let args: Vec<&str> =
            args.iter().copied().chain([table.as_str()]).chain(last.iter().copied()).collect();
        self.under(&RECORD, RANKS, program, &args);
        (0..RANKS).map(|rank| base_table(&format!("{table}.{rank}"))).collect()
    }

    /// Bytes and counts of the last record.
    fn recorded(&self) -> (usize, Counts) {
        let orders = Orders::open(&self.path()).expect("a record");
        let mut counts = Counts::default();
        for rank in &orders.ranks {
            counts.add(&summary(&rank.chunks).expect("a record").all);
        }
        (orders.ranks.iter().map(|rank| rank.chunks.len()).sum(), counts)
    }

    /// Figures 13 and 14: the sizes of records, step by step, and how many messages were permuted. The paper's
    /// particles move to neighbours; ours may also move to any rank.
    fn ladder(&self, near: bool, tables: &mut String, figures: &mut Vec<Figure>) -> Vec<Script> {
        let program = self.victim("montecarlo");
        let (what, last) = match near {
            true => ("particles", &["near"][..]),
            false => ("particles that go anywhere", &[][..]),
        };
        let rows = self.tables(&program, &[PARTICLES, "1", "100"], last);
        let scripts: Vec<Script> = rows
            .iter()
            .enumerate()
            .map(|(rank, rows)| {
                let which = self.folder.join(format!("table-which.{rank}"));
                Script::of(rows, &std::fs::read(which).expect("a list"), rank)
            })
            .collect();
        let (whole, counts) = self.recorded();
        let sum = |size: &dyn Fn(usize) -> usize| (0..RANKS).map(size).sum::<usize>();
        let gzip = sum(&|rank| zipped(&plain(&rows[rank])));
        let sizes = [
            ("raw, 162 bits a row", rows.iter().map(|rows| rows.len() * 162).sum::<usize>() / 8),
            ("gzip", gzip),
            ("CDC (RE), gzip", sum(&|rank| zipped(&reduced(&rows[rank])))),
            ("CDC (RE + PE + LPE), gzip", sum(&|rank| clocked(&scripts[rank]))),
            ("CDC, by place, as written", whole),
            ("causal, the same run", sum(&|rank| causal(&scripts[rank]))),
        ];
        let receives: usize = scripts.iter().map(Script::receives).sum();
        let permuted = 100.0 * counts.moved as f64 / counts.messages as f64;
        // Writing to a String cannot fail.
        let _ = writeln!(
            tables,
            "{}, {what} on {RANKS} ranks: {receives} receives, {permuted:.1} % permuted",
            self.mpi.name()
        );
        for (name, bytes) in sizes {
            let (each, times) = (bytes as f64 / receives as f64, gzip as f64 / bytes as f64);
            let _ = writeln!(
                tables,
                "  {name:28} {bytes:9} B  {each:7.3} B a receive  gzip is {times:5.2} times that"
            );
        }
        let name = format!("{}, {what} on {RANKS} ranks", self.mpi.name());
        figures.push(Figure {
            name: format!("{name}: CDC to gzip of the base table"),
            detail: format!("{whole} bytes, {gzip} bytes of gzip, {receives} receives"),
            value: whole as f64 / gzip as f64,
            bound: 1.0 / 2.5,
            unit: "of its size",
        });
        scripts
    }

    /// §6.3: a program with wildcard receives that is deterministic.
    fn hidden(&self) -> Figure {
        let program = self.victim("jacobi");
        let rows = self.tables(&program, &["2000", "16"], &[]);
        let gzip: usize = rows.iter().map(|rows| zipped(&plain(rows))).sum();
        let receives: usize = rows.iter().map(Vec::len).sum();
        let (bytes, counts) = self.recorded();
        let name = format!("{}, Jacobi from any source on {RANKS} ranks", self.mpi.name());
        let permuted = 100.0 * counts.moved as f64 / (counts.messages as f64).max(1.0);
        let each = bytes as f64 / receives as f64;
        Figure {
            name: format!("{name}: CDC to gzip of the base table"),
            detail: format!(
                "{bytes} bytes, {gzip} bytes of gzip, {receives} receives, {each:.3} B a receive, \
                 {permuted:.1} % permuted"
            ),
            value: bytes as f64 / gzip as f64,
            bound: 1.0 / 2.5,
            unit: "of its size",
        }
    }

    /// How much longer particles take on two ranks: with clocks, recorded, replayed.
    fn overhead(&self, tables: &mut String) {
        let program = self.victim("montecarlo");
        let args = ["4000", "1", "600"];
        let mut times = [f64::INFINITY; 4];
        let mut least = |which: usize, run: &dyn Fn() -> Outcome| {
            let start = Instant::now();
            let outcome = run();
            times[which] = times[which].min(start.elapsed().as_secs_f64());
            outcome
        };
        for _ in 0..ROUNDS {
            least(0, &|| runs::plain_on_cores(self.mpi, 2, &program, &args));
            least(1, &|| self.run(&RECORD, 2, &program, &args, true));
            let recorded = least(2, &|| self.under(&RECORD, 2, &program, &args));
            let replayed = least(3, &|| self.under(&["replay"], 2, &program, &args));
            let [recorded, replayed] = [&recorded, &replayed].map(|run| sorted_lines(&run.stdout));
            assert_eq!(recorded, replayed, "a replay differs");
        }
        let _ = writeln!(
            tables,
            "{}, particles on 2 ranks, s, least of {ROUNDS}; the paper's overhead is up to 25.5 %",
            self.mpi.name()
        );
        for (what, time) in ["plain", "with clocks", "recorded", "replayed"].iter().zip(times) {
            let over = 100.0 * (time / times[0] - 1.0);
            let _ = writeln!(tables, "  {what:28} {time:9.3}  {over:+7.1} %");
        }
    }

    /// What recording adds to rounds of single calls.
    fn calls(&self, tables: &mut String) {
        let program = runs::compile(self.mpi, self.folder, "matching");
        let mut times = [BTreeMap::new(), BTreeMap::new(), BTreeMap::new()];
        for _ in 0..ROUNDS {
            take_least(&mut times[0], &runs::plain_on_cores(self.mpi, 1, &program, &[]).stdout);
            take_least(&mut times[1], &self.run(&RECORD, 1, &program, &[], true).stdout);
            take_least(&mut times[2], &self.under(&RECORD, 1, &program, &[]).stdout);
        }
        let [plain, clocks, recorded] = times;
        let _ = writeln!(tables, "{}, ns a round of calls", self.mpi.name());
        for (name, plain) in &plain {
            let (Some(clocks), Some(recorded)) = (clocks.get(name), recorded.get(name)) else {
                continue;
            };
            let _ = writeln!(
                tables,
                "  {name:16} {plain:8.1} plain  {clocks:8.1} with clocks  {recorded:8.1} recorded"
            );
        }
    }

    /// How fast the encoder empties the queue: all receives of a rank, to the last byte.
    fn drain(&self, scripts: &[Script]) -> Figure {
        let (mut least, mut receives, mut events) = (f64::INFINITY, 0, 0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            (receives, events) = (0, 0);
            for script in scripts {
                let background = Background::start(std::io::sink()).expect("a thread");
                let mut recorder = Recorder::with(0, background);
                // Any number of failed polls in a row is one event.
                script.feed(&mut recorder, 1);
                let statistics = recorder.close().finish().expect("a sink");
                receives += statistics.messages + statistics.certain;
                events += script.events();
            }
            least = least.min(start.elapsed().as_secs_f64());
        }
        let rate = events as f64 / least / 1000.0;
        Figure {
            name: format!("{}, queue drained", self.mpi.name()),
            detail: format!(
                "{rate:.0} k events/s, {receives} receives among them; the paper has 331 k events/s"
            ),
            value: 1e9 * least / events as f64,
            bound: PAPER_DRAIN,
            unit: "ns an event",
        }
    }
}

const RECORD: [&str; 4] = ["record", "--method", "clock", "-o"];

/// Reads rows of count, flag, with_next, rank and clock.
fn base_table(path: &str) -> Vec<BaseRow> {
    let bytes = std::fs::read(path).expect("a table");
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let row = |row: &[u8]| {
        let values: Vec<u32> = row.chunks_exact(4).map(word).collect();
        let message = Message { sender: values[3], clock: values[4].into() };
        let found = (values[1] != 0).then_some((message, values[2] != 0));
        BaseRow { count: values[0].into(), found }
    };
    bytes.chunks_exact(20).map(row).collect()
}

/// Rows as the paper counts them: 64, 1, 1, 32 and 64 bits.
fn plain(rows: &[BaseRow]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for row in rows {
        let (message, with_next) = row.found.unwrap_or((Message { sender: 0, clock: 0 }, false));
        bytes.extend_from_slice(&row.count.to_le_bytes());
        bytes.push(u8::from(row.found.is_some()) | u8::from(with_next) << 1);
        bytes.extend_from_slice(&message.sender.to_le_bytes());
        bytes.extend_from_slice(&message.clock.to_le_bytes());
    }
    bytes
}

/// The three tables of §3.2.
fn reduced(rows: &[BaseRow]) -> Vec<u8> {
    let table = Table::of(rows);
    let mut bytes = Vec::new();
    table.matched.iter().for_each(|one| bytes.extend_from_slice(&one.sender.to_le_bytes()));
    table.matched.iter().for_each(|one| bytes.extend_from_slice(&one.clock.to_le_bytes()));
    table.with_next.iter().for_each(|one| bytes.extend_from_slice(&one.to_le_bytes()));
    table.unmatched.iter().for_each(|one| bytes.extend_from_slice(&one.0.to_le_bytes()));
    table.unmatched.iter().for_each(|one| bytes.extend_from_slice(&one.1.to_le_bytes()));
    bytes
}

/// Bytes after gzip -6.
fn zipped(bytes: &[u8]) -> usize {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("memory takes bytes").len()
}

/// How many receives are posted: those of particles, and one for the count of finished particles.
const POSTED: usize = 4;

/// The calls of a rank of the particles: failed polls, and what each call completed, by request.
pub struct Script {
    rank: usize,
    calls: Vec<(u64, Vec<(usize, Stamp)>)>,
}

impl Script {
    fn of(rows: &[BaseRow], which: &[u8], rank: usize) -> Script {
        let mut clocks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let messages = || rows.iter().filter_map(|row| row.found);
        for (message, _) in messages() {
            clocks.entry(message.sender).or_default().push(message.clock);
        }
        clocks.values_mut().for_each(|own| own.sort_unstable());
        let mut which = which.iter().map(|which| usize::from(*which).min(POSTED));
        let (mut calls, mut polls, mut found) = (Vec::new(), 0, Vec::new());
        for row in rows {
            let Some((Message { sender, clock }, with_next)) = row.found else {
                polls += row.count;
                continue;
            };
            let sequence = clocks[&sender].partition_point(|other| *other < clock) as u64;
            found.push((which.next().unwrap_or(0), Stamp { sender, sequence, clock }));
            if !with_next {
                calls.push((std::mem::take(&mut polls), std::mem::take(&mut found)));
            }
        }
        Script { rank, calls }
    }

    fn receives(&self) -> usize {
        self.calls.iter().map(|(_, found)| found.len()).sum()
    }

    /// How many events go through the queue: receives, and failed polls before them.
    fn events(&self) -> usize {
        self.receives() + self.calls.iter().filter(|(polls, _)| *polls > 0).count()
    }

    /// Feeds a recorder of either method. Between two receives there are at most `most` failed polls.
    fn feed(&self, recorder: &mut impl Recording, most: u64) {
        let post = |slot: usize| {
            let source = (slot == POSTED && self.rank != 0).then_some(0);
            let tag = Some(if slot == POSTED { 2 } else { 1 });
            Post { site: 0x3000 + slot as u64 / 4, communicator: 0, source, tag }
        };
        let mut tickets: Vec<Ticket> =
            (0..=POSTED).map(|slot| recorder.post(0, &post(slot))).collect();
        let (kind, site) = (Kind::Testsome, 0x4000);
        for (polls, found) in &self.calls {
            (0..*polls.min(&most)).for_each(|_| recorder.failed(0, kind, site));
            let own: Vec<Option<Ticket>> = tickets.iter().copied().map(Some).collect();
            let indices: Vec<u32> = found.iter().map(|(slot, _)| *slot as u32).collect();
            let finished = |(slot, stamp): &(usize, Stamp)| {
                let tag = if *slot == POSTED { 2 } else { 1 };
                let match_result =
                    MatchResult::Matched(Envelope { source: stamp.sender as i32, tag });
                Finished { ticket: tickets[*slot], match_result, stamp: Some(*stamp) }
            };
            let finished: Vec<Finished> = found.iter().map(finished).collect();
            let call = Call { kind, site, count: own.len() as u32 };
            recorder.completed(0, &call, &own, Completed::These(&indices), &finished);
            for (slot, _) in found {
                tickets[*slot] = recorder.post(0, &post(*slot));
            }
        }
    }
}

fn clocked(script: &Script) -> usize {
    let mut recorder = Recorder::new(0);
    script.feed(&mut recorder, u64::MAX);
    recorder.close().statistics().bytes as usize
}

fn causal(script: &Script) -> usize {
    let mut recorder = refrain_order::Recorder::new();
    let mut bytes = Vec::new();
    script.feed(&mut recorder, u64::MAX);
    recorder.finish(&mut bytes);
    bytes.len()
}
