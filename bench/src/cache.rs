//! Caches simulated on loop nests: time against a naive simulator, against Refrain's own simulation of every
//! access, and, where installed, against Dinero IV.
//!
//! The nests are built as a trace has them, so that any size can be simulated. The naive simulator is that of
//! the tests. It is stopped after some seconds; its time for the whole program follows from its rate.

#[path = "../../crates/refrain-memory/tests/it/kernels/mod.rs"]
mod kernels;
#[path = "../../crates/refrain-cache/tests/it/naive.rs"]
mod naive;

use crate::Figure;
use kernels::{Dice, LIST, Memory, SORT, SPMV, Sparse, Tape, list, quicksort, spmv};
use naive::Naive;
use refrain_cache::{Geometry, Options, Policy, Report, simulate};
use refrain_memory::chunk::{Entry, Finished, Stream};
use refrain_memory::shape::{Node, Shape};
use refrain_memory::{Blocks, Compressor, Kind, Merged, Reference, Runs, Segments, Trace, Turns};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// The naive simulator and Dinero run this long.
const SECONDS: f64 = 4.0;
/// At this size, warping must be this many times as fast as the naive simulator.
const LEAST: f64 = 100.0;
const SIZE: u64 = 1000;

/// A loop nest: what `refrain mem` would record.
enum Code {
    /// References: the first address, and the stride of each loop around, the outermost first.
    Block(Vec<(Kind, u64, Vec<i64>)>),
    /// A trip count, how it changes with each loop around, and the body.
    Loop(u64, Vec<i64>, Vec<Code>),
}

use Code::{Block, Loop};

/// Builds a trace.
#[derive(Default)]
struct Builder {
    blocks: Blocks,
    streams: Vec<Stream>,
}

fn constant(value: i64) -> Runs {
    Runs::from_iter([(value, 1)])
}

impl Builder {
    fn node(&mut self, code: &Code) -> Node {
        match code {
            Block(references) => {
                let pc = 0x1000 + 0x100 * self.blocks.len() as u64;
                let of = references.iter().enumerate();
                let of = of.map(|(at, (kind, ..))| Reference {
                    kind: *kind,
                    size: 8,
                    pc: pc + 4 * at as u64,
                });
                let block = self.blocks.add(of.collect()).expect("few references");
                for (_, first, strides) in references {
                    self.stream(*first as i64, strides);
                }
                Node::Block(block)
            }
            Loop(count, steps, body) => {
                self.stream(*count as i64, steps);
                let body = body.iter().map(|code| self.node(code)).collect();
                Node::Loop { exit: 0, body }
            }
        }
    }

    fn stream(&mut self, first: i64, strides: &[i64]) {
        let steps = strides.iter().map(|stride| (true, constant(*stride))).collect();
        self.streams.push(Stream { firsts: constant(first), steps });
    }

    fn trace(code: &Code) -> Trace {
        let mut builder = Self::default();
        let node = builder.node(code);
        let shape = Shape::compile(node, &builder.blocks).expect("a small nest");
        let entry = Entry { shape: Arc::new(shape), streams: builder.streams };
        let chunk = Finished { entries: vec![entry], sequence: vec![0], cuts: Vec::new() };
        Trace {
            blocks: builder.blocks,
            segments: Segments::identity(),
            sealed: [(0, vec![chunk.to_bytes()])].into(),
            ..Trace::default()
        }
    }
}

const L: Kind = Kind::Load;
const S: Kind = Kind::Store;
const A: u64 = 0x10_0000_0000;
const B: u64 = 0x20_0001_0000;
const C: u64 = 0x30_0002_0000;

/// `c[i] = a[i] + b[i]` for `n * n` elements, 100 times.
fn vector_add(n: u64) -> Code {
    let s = vec![0, 8];
    let body = Block(vec![(L, A, s.clone()), (L, B, s.clone()), (S, C, s)]);
    Loop(100, vec![], vec![Loop(n * n, vec![0], vec![body])])
}

/// `c[i][j] = sum of a[i][k] * b[k][j]`.
fn matmul(n: u64) -> Code {
    let row = 8 * n as i64;
    let inner = Block(vec![(L, A, vec![row, 0, 8]), (L, B, vec![0, 8, row])]);
    let store = Block(vec![(S, C, vec![row, 8])]);
    let columns = Loop(n, vec![0], vec![Loop(n, vec![0, 0], vec![inner]), store]);
    Loop(n, vec![], vec![columns])
}

/// The same in tiles of 50.
fn tiled_matmul(n: u64) -> Code {
    const T: u64 = 50;
    let (row, tile, t) = (8 * n as i64, 8 * T as i64, T);
    let rows = row * T as i64;
    // ii, jj, kk, i, j, k
    let inner =
        Block(vec![(L, A, vec![rows, 0, tile, row, 0, 8]), (L, B, vec![0, tile, rows, 0, 8, row])]);
    let at = vec![rows, tile, 0, row, 8];
    let load = Block(vec![(L, C, at.clone())]);
    let store = Block(vec![(S, C, at)]);
    let zeros = |depth: usize| vec![0; depth];
    let j = Loop(t, zeros(4), vec![load, Loop(t, zeros(5), vec![inner]), store]);
    let kk = Loop(n / t, zeros(2), vec![Loop(t, zeros(3), vec![j])]);
    Loop(n / t, vec![], vec![Loop(n / t, zeros(1), vec![kk])])
}

/// A stencil of five points, 100 sweeps between two grids.
fn jacobi_2d(n: u64) -> Code {
    let row = 8 * n as i64;
    let sweep = |from: u64, to: u64| {
        let at = |grid: u64, i: i64, j: i64| grid + (row + 8 + row * i + 8 * j) as u64;
        let s = || vec![0, row, 8];
        let body = Block(vec![
            (L, at(from, -1, 0), s()),
            (L, at(from, 0, -1), s()),
            (L, at(from, 0, 1), s()),
            (L, at(from, 1, 0), s()),
            (S, at(to, 0, 0), s()),
        ]);
        Loop(n - 2, vec![0], vec![Loop(n - 2, vec![0, 0], vec![body])])
    };
    Loop(50, vec![], vec![sweep(A, B), sweep(B, A)])
}

/// A stencil of seven points, 20 sweeps between two grids.
fn jacobi_3d(n: u64) -> Code {
    let (row, plane) = (8 * n as i64, 8 * (n * n) as i64);
    let sweep = |from: u64, to: u64| {
        let at = |grid: u64, i: i64, j: i64, k: i64| {
            grid + (plane + row + 8 + plane * i + row * j + 8 * k) as u64
        };
        let s = || vec![0, plane, row, 8];
        let body = Block(vec![
            (L, at(from, -1, 0, 0), s()),
            (L, at(from, 0, -1, 0), s()),
            (L, at(from, 0, 0, -1), s()),
            (L, at(from, 0, 0, 0), s()),
            (L, at(from, 0, 0, 1), s()),
            (L, at(from, 0, 1, 0), s()),
            (L, at(from, 1, 0, 0), s()),
            (S, at(to, 0, 0, 0), s()),
        ]);
        let lines = Loop(n - 2, vec![0, 0, 0], vec![body]);
        Loop(n - 2, vec![0], vec![Loop(n - 2, vec![0, 0], vec![lines])])
    };
    Loop(10, vec![], vec![sweep(A, B), sweep(B, A)])
}

/// `x[i] = (b[i] - sum of l[i][j] * x[j]) / l[i][i]`, 100 times with the same right hand side.
fn triangular(n: u64) -> Code {
    let row = 8 * n as i64;
    let first = Block(vec![(L, B, vec![0, 8])]);
    let inner = Block(vec![(L, A, vec![0, row, 8]), (L, C, vec![0, 0, 8])]);
    let last = Block(vec![(L, A, vec![0, row + 8]), (S, C, vec![0, 8])]);
    let rows = Loop(n, vec![0], vec![first, Loop(0, vec![0, 1], vec![inner]), last]);
    Loop(100, vec![], vec![rows])
}

fn usual() -> Geometry {
    let levels = ["32k:8", "1m:16", "32m:16"].map(|level| level.parse().expect("a level"));
    Geometry::new(levels.to_vec(), 64, Policy::Lru).expect("a hierarchy")
}

/// Simulates; returns the result and the seconds.
fn timed(trace: &Trace, warp: bool) -> (Report, f64) {
    let options = Options { turns: Turns::OneAfterTheOther, warp, reuse: false };
    let began = Instant::now();
    let report = simulate(trace, &[0], &usual(), options).expect("a trace");
    (report, began.elapsed().as_secs_f64())
}

/// References a second of the naive simulator; and whether it agrees, if it saw all references.
fn naive_rate(trace: &Trace, report: &Report) -> (f64, Option<bool>) {
    let mut naive = Naive::new(&usual(), 1);
    let (mut count, began) = (0u64, Instant::now());
    let mut is_whole = true;
    for access in trace.references(0) {
        naive.reference(0, access.expect("a reference"));
        count += 1;
        if count.is_multiple_of(1 << 16) && began.elapsed().as_secs_f64() > SECONDS {
            is_whole = false;
            break;
        }
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    let is_equal = || {
        let mut total = refrain_cache::Counts::default();
        naive.counts.values().for_each(|counts| total += *counts);
        total == report.total
    };
    (rate, is_whole.then(is_equal))
}

/// References a second of Dinero IV, which reads them as text.
fn dinero_rate(trace: &Trace) -> Option<f64> {
    let program = std::env::var_os("REFRAIN_DINERO")?;
    let mut command = Command::new(program);
    command.args(["-informat", "D", "-l1-dsize", "32k", "-l1-dassoc", "8", "-l1-dbsize", "64"]);
    command.args([
        "-l2-usize",
        "1m",
        "-l2-uassoc",
        "16",
        "-l2-ubsize",
        "64",
        "-l1-dccc",
        "-l2-uccc",
    ]);
    command.args(["-l3-usize", "32m", "-l3-uassoc", "16", "-l3-ubsize", "64", "-l3-uccc"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().ok()?;
    let mut input = std::io::BufWriter::new(child.stdin.take()?);
    let (count, began) = (2_000_000, Instant::now());
    for access in trace.references(0).take(count) {
        let access = access.ok()?;
        let kind = if access.kind == Kind::Load { 'r' } else { 'w' };
        writeln!(input, "{kind} {:x} 8", access.address & 0xffff_ffff).ok()?;
    }
    drop(input);
    child.wait().ok()?;
    Some(count as f64 / began.elapsed().as_secs_f64())
}

/// A program, by its size.
type Kernel = (&'static str, fn(u64) -> Code);

const KERNELS: [Kernel; 6] = [
    ("vector add, 100 times", vector_add),
    ("matmul", matmul),
    ("tiled matmul", tiled_matmul),
    ("jacobi 2-d, 100 sweeps", jacobi_2d),
    ("jacobi 3-d, 20 sweeps", jacobi_3d),
    ("triangular solve, 100 times", triangular),
];

/// Irregular programs must be simulated this fast, in millions of references a second.
const LEAST_RATE: f64 = 20.0;

/// A trace of a recorded stream.
fn recorded(table: &[&str], memory: &Memory, tape: &Tape<'_>) -> Trace {
    let blocks = kernels::blocks(table);
    let mut compressor = Compressor::new();
    compressor.push_words(&tape.words, &blocks, &memory.segments).expect("a stream");
    let (sealed, chunk) = compressor.finish(&blocks);
    Trace {
        blocks,
        segments: memory.segments.clone(),
        sealed: [(0, sealed)].into(),
        merged: Merged::merge(&[(0, chunk)]),
        ..Trace::default()
    }
}

/// Programs without structure: how many references are decoded and simulated in a second.
fn irregular(table: &mut String) -> Vec<Figure> {
    let mut memory = Memory::new(0);
    let at = [0; 5].map(|_| memory.allocate(64 << 20));
    let stack = memory.stack(0);
    let mut dice = Dice(12345);
    let matrix = Sparse::unstructured(100_000, 3, 25, 50_000, &mut dice);
    let numbers: Vec<u64> = (0..200_000).map(|_| dice.below(1 << 31)).collect();
    let mut nodes: Vec<u64> = (0..1_000_000).map(|i| at[0] + 48 * i).collect();
    (1..nodes.len()).for_each(|i| nodes.swap(i, dice.below(i as u64 + 1) as usize));
    let mut traces = Vec::new();
    let mut add = |name: &'static str, blocks: &[&str], run: &mut dyn FnMut(&mut Tape<'_>)| {
        let mut tape = Tape::default();
        run(&mut tape);
        traces.push((name, recorded(blocks, &memory, &tape)));
    };
    add("spmv", SPMV, &mut |t| (0..3).for_each(|_| spmv(t, &matrix, at, 0..matrix.rows())));
    add("quicksort", SORT, &mut |t| quicksort(t, at[0], &mut numbers.clone(), 0, stack));
    add("linked list", LIST, &mut |t| (0..3).for_each(|_| list(t, &nodes, at[2])));
    let _ = writeln!(table, "irregular: M references/s decoded, decoded and simulated, naive");
    let figure = |(name, trace): (&str, Trace)| {
        let began = Instant::now();
        let count = trace.references(0).count() as f64;
        let decoded = count / began.elapsed().as_secs_f64() / 1e6;
        let (report, seconds) = (0..3)
            .map(|_| timed(&trace, true))
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("three times");
        let (naive, agrees) = naive_rate(&trace, &report);
        assert_ne!(agrees, Some(false), "{name}: the naive simulator disagrees");
        let rate = count / seconds / 1e6;
        let line = format!("{name:28} {decoded:>9.1} {rate:>9.1} {:>9.1}", naive / 1e6);
        eprintln!("{line}");
        let _ = writeln!(table, "{line}");
        Figure {
            name: format!("{name}: time to decode and simulate a million references"),
            detail: format!("{rate:.1} M references/s, {count} references"),
            value: 1e3 / rate,
            bound: 1e3 / LEAST_RATE,
            unit: "ms",
        }
    };
    traces.into_iter().map(figure).collect()
}

/// Measures; returns a table and the figures.
pub fn measure(sizes: &[u64]) -> (String, Vec<Figure>) {
    let mut table = String::from(
        "32k:8, 1m:16, 32m:16, LRU; misses by kind. Seconds; those of the naive simulator by its rate\n",
    );
    let _ = writeln!(
        table,
        "{:28} {:>6} {:>15} {:>10} {:>9} {:>9} {:>9} {:>10} {:>8}",
        "program",
        "n",
        "accesses",
        "simulated",
        "warped s",
        "every s",
        "naive s",
        "dinero s",
        "times"
    );
    let mut figures = Vec::new();
    for (name, kernel) in KERNELS {
        for &n in sizes {
            let trace = Builder::trace(&kernel(n));
            let (report, seconds) = timed(&trace, true);
            let accesses = report.total.accesses;
            let (rate, agrees) = naive_rate(&trace, &report);
            assert_ne!(agrees, Some(false), "{name} {n}: the naive simulator disagrees");
            let naive = accesses as f64 / rate;
            let every = (accesses < 300_000_000).then(|| timed(&trace, false));
            if let Some((every, _)) = &every {
                assert_eq!(every.total, report.total, "{name} {n}");
            }
            let dinero = (n == SIZE).then(|| dinero_rate(&trace)).flatten();
            let cell = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
            let line = format!(
                "{name:28} {n:>6} {accesses:>15} {:>9.4}% {seconds:>9.3} {:>9} {naive:>9.1} {:>10} {:>8.0}{}",
                100.0 * report.simulated as f64 / accesses as f64,
                cell(every.map(|(_, seconds)| seconds)),
                cell(dinero.map(|rate| accesses as f64 / rate)),
                naive / seconds,
                if agrees.is_some() { " =" } else { "" },
            );
            eprintln!("{line}");
            let _ = writeln!(table, "{line}");
            if n == SIZE {
                figures.push(Figure {
                    name: format!("{name}, n = {n}: share of the naive simulator's time"),
                    detail: format!("{seconds:.3} s against {naive:.1} s"),
                    value: 100.0 * seconds / naive,
                    bound: 100.0 / LEAST,
                    unit: "%",
                });
            }
        }
    }
    figures.extend(irregular(&mut table));
    (table, figures)
}
