//! `simulate` returns what the naive simulator returns.

use std::collections::BTreeMap;

use proptest::prelude::*;
use refrain_cache::{Counts, Geometry, Histogram, Options, Policy, Report, simulate};
use refrain_memory::{Blocks, Compressor, Merged, Segments, Trace, Turns};

use crate::kernels::*;
use crate::naive::Naive;

fn geometry(levels: &[&str], line: u64, policy: Policy) -> Geometry {
    let levels = levels.iter().map(|level| level.parse().unwrap()).collect();
    Geometry::new(levels, line, policy).unwrap()
}

/// A trace of some threads' records.
pub fn trace(tapes: &[&[u64]], blocks: &Blocks, segments: &Segments, window: usize) -> Trace {
    let (mut sealed, mut chunks) = (BTreeMap::new(), Vec::new());
    for (thread, words) in (0..).zip(tapes) {
        let mut compressor = Compressor::with_chunks_of(window);
        compressor.push_words(words, blocks, segments).unwrap();
        let (before, chunk) = compressor.finish(blocks);
        if !before.is_empty() {
            sealed.insert(thread, before);
        }
        chunks.push((thread, chunk));
    }
    Trace {
        blocks: blocks.clone(),
        segments: segments.clone(),
        sealed,
        merged: Merged::merge(&chunks),
        ..Trace::default()
    }
}

/// The counts by program counter.
fn by_pc(report: &Report, trace: &Trace) -> BTreeMap<u64, Counts> {
    let mut all: BTreeMap<u64, Counts> = BTreeMap::new();
    for (site, counts) in &report.sites {
        let references = trace.blocks.get(site.block).unwrap();
        *all.entry(references[site.reference as usize].pc).or_default() += *counts;
    }
    all
}

fn histogram(lines: &[u64]) -> Histogram {
    let (mut list, mut histogram) = (Vec::new(), Histogram::default());
    for line in lines {
        match list.iter().position(|other| other == line) {
            None => histogram.first += 1,
            Some(at) => {
                *histogram.distances.entry(at as u64).or_insert(0) += 1;
                list.remove(at);
            }
        }
        list.insert(0, *line);
    }
    histogram
}

/// Compares both simulators; returns the share of accesses that were simulated.
fn check(trace: &Trace, geometry: &Geometry, turns: Turns, what: &str) -> f64 {
    let threads = trace.threads();
    let mut naive = Naive::new(geometry, threads.len());
    for access in trace.interleaved(&threads, turns) {
        let (thread, access) = access.unwrap();
        naive.reference(threads.iter().position(|other| *other == thread).unwrap(), access);
    }
    let mut share = 1.0;
    for warp in [false, true] {
        let options = Options { turns, warp, reuse: false };
        let report = simulate(trace, &threads, geometry, options).unwrap();
        assert_eq!(by_pc(&report, trace), naive.counts, "{what}, warp {warp}, {geometry:?}");
        share = report.simulated as f64 / report.total.accesses.max(1) as f64;
    }
    share
}

/// A random loop nest: the sizes, the strides, and which loops are triangular.
pub struct Program<'t> {
    dice: Dice,
    pub tape: Tape<'t>,
    /// Of each reference of each block: where it begins and its stride in each of three loops.
    sections: Vec<Vec<(u64, [u64; 3])>>,
    pub limit: usize,
}

impl Program<'_> {
    pub fn new(seed: u64, arrays: &[u64], blocks: &[&str], line: u64) -> Self {
        let mut dice = Dice(seed | 1);
        let section = |dice: &mut Dice| {
            let strides = [0, 0, 4, 8, 8, line, 2 * line, 13 * line, 100, 8 * line, 24];
            let base = arrays[dice.below(arrays.len() as u64) as usize] + 8 * dice.below(40);
            let stride = |dice: &mut Dice| strides[dice.below(strides.len() as u64) as usize];
            (base, [stride(dice), stride(dice), stride(dice)])
        };
        // Often all references advance together.
        let common = section(&mut dice).1;
        let sections = blocks.iter().map(|block| {
            let section = |_| match dice.below(2) {
                0 => section(&mut dice),
                _ => (section(&mut dice).0, common),
            };
            block.chars().map(section).collect()
        });
        let sections = sections.collect();
        Self { dice, tape: Tape::default(), sections, limit: 30_000 }
    }

    fn block(&mut self, block: usize, at: [u64; 3]) {
        let address = |(base, strides): &(u64, [u64; 3])| {
            base + strides.iter().zip(at).map(|(stride, i)| stride * i).sum::<u64>()
        };
        let addresses: Vec<u64> = self.sections[block].iter().map(address).collect();
        self.tape.run(block as u32, &addresses);
    }

    /// `shape` decides what is executed where.
    pub fn run(&mut self) {
        let trips = [1 + self.dice.below(40), 1 + self.dice.below(30), 1 + self.dice.below(60)];
        let (shape, triangular) = (self.dice.below(64), self.dice.below(4) == 0);
        for i in 0..trips[0] {
            if shape & 1 != 0 {
                self.block(0, [i, 0, 0]);
            }
            let middle = if triangular { i } else { trips[1] };
            for j in 0..middle {
                if shape & 2 != 0 {
                    self.block(1, [i, j, 0]);
                }
                if shape & 4 != 0 {
                    for k in 0..trips[2] {
                        self.block(2, [i, j, k]);
                    }
                }
                if shape & 8 != 0 {
                    self.block(3, [i, j, 0]);
                }
                if self.tape.words.len() > self.limit {
                    return;
                }
            }
            if shape & 16 != 0 {
                for k in 0..trips[2] {
                    self.block(4, [i, 0, k]);
                }
            }
        }
    }
}

/// How many random programs there are of each sort.
fn cases() -> u32 {
    if std::env::var_os("REFRAIN_TEST_FULL").is_some() { 3_000 } else { 60 }
}

pub const BLOCKS: &[&str] = &["L", "LS", "LLS", "S", "LL"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn random_nests(seed: u64, parts in 1u64..4, policy in 0usize..2, small in 0usize..3) {
        let policy = [Policy::Lru, Policy::Plru][policy];
        let levels: &[&str] = [
            &["128:1", "512:2", "4k:4"][..], &["512:4", "2k:8", "8k:16"], &["1k:2", "1k:4"],
        ][small];
        let geometry = geometry(levels, [16, 64, 32][small], policy);
        let mut memory = Memory::new(0);
        let arrays = [20_000, 50_000, 3_000].map(|bytes| memory.allocate(bytes));
        let mut words = Vec::new();
        for part in 0..parts {
            let mut program = Program::new(seed.wrapping_add(part), &arrays, BLOCKS, geometry.line);
            program.run();
            // The same again, often: state that was left behind by the last time.
            for _ in 0..1 + program.dice.below(3) {
                words.extend(&program.tape.words);
            }
        }
        let trace = trace(&[&words], &blocks(BLOCKS), &memory.segments, 1 << 20);
        check(&trace, &geometry, Turns::RoundRobin(1), &format!("seed {seed}"));
    }

    #[test]
    fn random_threads(seed: u64, threads in 1usize..9, turn in 1u64..50, layout in 0usize..3) {
        let levels: &[&str] = [
            &["256:2", "1k:4", "4k:4:shared"][..], &["512:4", "2k:8", "8k:16"], &["1k:2:shared"],
        ][layout];
        let geometry = geometry(levels, 32, if seed % 2 == 0 { Policy::Lru } else { Policy::Plru });
        let mut memory = Memory::new(0);
        let arrays = [3_000, 1_000].map(|bytes| memory.allocate(bytes));
        let tapes: Vec<Vec<u64>> = (0..threads as u64)
            .map(|thread| {
                let mut program = Program::new(seed ^ (thread / 2), &arrays, BLOCKS, 32);
                program.limit = 4_000;
                program.run();
                program.tape.words
            })
            .collect();
        let tapes: Vec<&[u64]> = tapes.iter().map(Vec::as_slice).collect();
        let trace = trace(&tapes, &blocks(BLOCKS), &memory.segments, 1 << 20);
        let turns = [Turns::RoundRobin(turn), Turns::OneAfterTheOther][seed as usize % 2];
        check(&trace, &geometry, turns, &format!("seed {seed}"));
    }

    #[test]
    fn reuse_distances(seed: u64) {
        let mut memory = Memory::new(0);
        let arrays = [2_000, 3_000].map(|bytes| memory.allocate(bytes));
        let mut program = Program::new(seed, &arrays, BLOCKS, 64);
        program.limit = 10_000;
        program.run();
        let geometry = geometry(&["512:4", "2k:8"], 64, Policy::Lru);
        let trace = trace(&[&program.tape.words], &blocks(BLOCKS), &memory.segments, 1 << 20);
        let mut naive = Naive::new(&geometry, 1);
        naive.lines = Some(Vec::new());
        trace.references(0).for_each(|access| naive.reference(0, access.unwrap()));
        for warp in [false, true] {
            let options = Options { warp, reuse: true, ..Options::default() };
            let report = simulate(&trace, &[0], &geometry, options).unwrap();
            prop_assert_eq!(by_pc(&report, &trace), naive.counts.clone());
            prop_assert_eq!(report.reuse, Some(histogram(naive.lines.as_ref().unwrap())));
        }
    }

    #[test]
    fn skipping_is_the_same_as_reading(seed: u64, steps in prop::collection::vec(0u64..3_000, 1..20)) {
        let mut memory = Memory::new(0);
        let arrays = [20_000, 50_000].map(|bytes| memory.allocate(bytes));
        let mut program = Program::new(seed, &arrays, BLOCKS, 64);
        program.run();
        let trace = trace(&[&program.tape.words], &blocks(BLOCKS), &memory.segments, 1 << 20);
        let all: Vec<_> = trace.references(0).map(Result::unwrap).collect();
        let (mut references, mut at) = (trace.references(0), 0);
        for step in steps {
            let expected = step.min((all.len() - at) as u64);
            prop_assert_eq!(references.skip_ahead(step).unwrap(), expected);
            at += expected as usize;
            prop_assert_eq!(references.next().transpose().unwrap(), all.get(at).copied());
            at = (at + 1).min(all.len());
        }
    }
}

#[test]
fn kernels() {
    let small = geometry(&["1k:4", "8k:8", "64k:16"], 64, Policy::Lru);
    let usual = geometry(&["32k:8", "256k:16", "1m:16"], 64, Policy::Lru);
    let plru = geometry(&["1k:4", "8k:8", "64k:16"], 64, Policy::Plru);
    let check_kernel =
        |name: &str, table: &[&str], kernel: &dyn Fn(&mut Tape<'_>, [u64; 5], u64)| {
            let mut memory = Memory::new(0);
            let at = [0; 5].map(|_| memory.allocate(8 << 18));
            let stack = memory.stack(0);
            let mut tape = Tape::default();
            kernel(&mut tape, at, stack);
            let blocks = blocks(table);
            let trace = trace(&[&tape.words], &blocks, &memory.segments, 1 << 16);
            for geometry in [&small, &usual, &plru] {
                let share = check(&trace, geometry, Turns::RoundRobin(1), name);
                println!("{name}: {:.1} % simulated", 100.0 * share);
            }
        };
    check_kernel("vector add", VECTOR_ADD, &|t, [a, b, c, ..], _| {
        (0..10).for_each(|_| vector_add(t, [a, b, c], 0..5_000));
    });
    check_kernel("matmul", MATMUL, &|t, [a, b, c, ..], s| matmul(t, [a, b, c], 48, 0..48, s));
    check_kernel("matmul, odd", MATMUL_BARE, &|t, [a, b, c, ..], _| {
        matmul_bare(t, [a, b, c], 37, 0..37);
    });
    check_kernel("jacobi", JACOBI, &|t, [a, b, ..], _| jacobi(t, [a, b], 64, 0..64, 12));
    check_kernel("triangular", TRIANGULAR, &|t, [a, b, c, ..], _| {
        triangular(t, [a, b, c], 48, 0..20);
    });
    check_kernel("lu", LU, &|t, [a, ..], _| lu(t, a, 40));
    check_kernel("tiled", TILED, &|t, [a, b, ..], _| tiled(t, a, b, 100, 13));
    check_kernel("fft", FFT, &|t, [a, b, ..], _| fft(t, a, b, 10));
    let mut dice = Dice(7);
    let matrix = Sparse::unstructured(2_000, 3, 25, 500, &mut dice);
    check_kernel("spmv", SPMV, &|t, at, _| spmv(t, &matrix, at, 0..matrix.rows()));
    let numbers: Vec<u64> = (0..5_000).map(|_| dice.below(1 << 31)).collect();
    check_kernel("quicksort", SORT, &|t, [a, ..], s| quicksort(t, a, &mut numbers.clone(), 0, s));
}
