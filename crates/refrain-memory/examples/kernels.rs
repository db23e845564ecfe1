//! Measures kernels: time per reference, and size compared with `zstd -3` of raw records.
//!
//! `cargo run --release -p refrain-memory --example kernels`

#[path = "../tests/it/kernels/mod.rs"]
mod kernels;

use std::time::Duration;

use kernels::*;
use refrain_memory::{Blocks, Chunk, Compressor, Finished, Merged, Player, Segments};

/// Compresses the stream of a kernel while it is generated; the time is that of the compressor alone.
struct Measured<'a> {
    blocks: &'a Blocks,
    segments: &'a Segments,
    compressor: Compressor,
    time: Duration,
    raw: Option<Vec<u8>>,
    references: u64,
}

impl Measured<'_> {
    fn take(&mut self, words: &[u64]) {
        let start = cpu_time();
        self.compressor.push_words(words, self.blocks, self.segments).unwrap();
        self.time += cpu_time() - start;
        let mut at = 0;
        while at < words.len() {
            let references = self.blocks.get(words[at] as u32).unwrap();
            self.references += references.len() as u64;
            if let Some(raw) = &mut self.raw {
                for (address, reference) in words[at + 1..].iter().zip(references) {
                    raw.extend(address.to_le_bytes());
                    raw.extend((reference.pc as u32).to_le_bytes());
                    raw.extend([reference.kind as u8, reference.size as u8, 0, 0]);
                }
            }
            at += 1 + references.len();
        }
    }
}

/// The processor time of this thread, which other processes on the machine do not affect.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a valid, writable timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(name: &str, table: &[&str], memory: &Memory, raw: bool, kernel: impl Fn(&mut Tape<'_>)) {
    let (blocks, segments) = (&blocks(table), &memory.segments);
    let new = || Measured {
        blocks,
        segments,
        compressor: Compressor::new(),
        time: Duration::ZERO,
        raw: raw.then(Vec::new),
        references: 0,
    };
    let mut best: Option<(Duration, usize, u64, usize, Duration)> = None;
    for _ in 0..3 {
        let mut measured = new();
        let mut tape = Tape::to(|words| measured.take(words));
        kernel(&mut tape);
        tape.hand_on();
        drop(tape);
        let start = cpu_time();
        let (mut chunks, last) = measured.compressor.finish(blocks);
        chunks.push(last.to_bytes());
        let time = measured.time + cpu_time() - start;
        let size = chunks.iter().map(Vec::len).sum();
        if best.as_ref().is_none_or(|best| time < best.0) {
            let start = cpu_time();
            let played: u64 = chunks.iter().map(|chunk| play(chunk, blocks)).sum();
            let playing = cpu_time() - start;
            assert_eq!(played, measured.references);
            let packed = measured.raw.map_or(0, |raw| zstd::bulk::compress(&raw, 3).unwrap().len());
            best = Some((time, size, measured.references, packed, playing));
        }
    }
    let (time, size, references, packed, playing) = best.unwrap();
    let each = |time: Duration| time.as_secs_f64() * 1e9 / references as f64;
    println!(
        "{name:22} {references:>10} refs  {:6.2} ns/ref  play {:6.2} ns/ref  {size:>9} B  zstd -3 {packed:>9} B  {:6.1}x",
        each(time),
        each(playing),
        packed as f64 / size as f64
    );
}

fn play(chunk: &[u8], blocks: &Blocks) -> u64 {
    let mut player = Player::new(Finished::decode(&mut &chunk[..], blocks).unwrap());
    let mut places = Vec::new();
    let mut references = 0;
    while player.next_block(&mut places).unwrap().is_some() {
        references += places.len() as u64;
    }
    references
}

/// Prints the sizes of merged traces for several numbers of threads and problem sizes.
fn sizes() {
    for (name, table) in [("vector add", VECTOR_ADD), ("matmul", MATMUL)] {
        for n in [48, 100, 400] {
            let row: Vec<String> =
                [1, 4, 8, 32].iter().map(|&t| merged_size(name, table, n, t).to_string()).collect();
            println!("{name:12} n {n:3}  bytes with 1, 4, 8, 32 threads: {}", row.join(" "));
        }
    }
}

fn merged_size(name: &str, table: &[&str], n: u64, threads: u64) -> usize {
    let mut memory = Memory::new(0);
    let at = [0; 3].map(|_| memory.allocate(8 * n * n));
    let stacks: Vec<u64> = (0..threads).map(|thread| memory.stack(thread as u32)).collect();
    let blocks = blocks(table);
    let chunks: Vec<(u32, Chunk)> = (0..threads)
        .map(|thread| {
            let mut compressor = Compressor::new();
            let mut tape = Tape::to(|words| {
                compressor.push_words(words, &blocks, &memory.segments).unwrap();
            });
            let rows = share(n, threads, thread);
            match name {
                "matmul" => matmul(&mut tape, at, n, rows, stacks[thread as usize]),
                _ => vector_add(&mut tape, at, rows),
            }
            tape.hand_on();
            drop(tape);
            (thread as u32, compressor.finish(&blocks).1)
        })
        .collect();
    let mut bytes = Vec::new();
    Merged::merge(&chunks).encode(&mut bytes);
    bytes.len()
}

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    if wanted("sizes") {
        sizes();
    }
    let mut memory = Memory::new(0);
    let big = [0; 5].map(|_| memory.allocate(8 << 21));
    let [a, b, c, x, y] = big;
    let stack = memory.stack(0);
    for n in [48, 200, 400] {
        let name = format!("matmul {n}");
        if wanted(&name) {
            report(&name, MATMUL, &memory, n < 100, |t| matmul(t, [a, b, c], n, 0..n, stack));
        }
    }
    let regular = |name: &str, table: &[&str], kernel: &dyn Fn(&mut Tape<'_>)| {
        if wanted(name) {
            report(name, table, &memory, true, kernel);
        }
    };
    regular("matmul, bare 100", MATMUL_BARE, &|t| matmul_bare(t, [a, b, c], 100, 0..100));
    regular("matmul, short 8", MATMUL, &|t| {
        (0..1000).for_each(|_| matmul(t, [a, b, c], 8, 0..8, stack))
    });
    regular("vector add", VECTOR_ADD, &|t| vector_add(t, [a, b, c], 0..1 << 20));
    regular("jacobi 300", JACOBI, &|t| jacobi(t, [a, b], 300, 0..300, 10));
    regular("triangular 300", TRIANGULAR, &|t| triangular(t, [a, b, c], 300, 0..20));
    regular("lu 120", LU, &|t| lu(t, a, 120));
    regular("unoptimised", UNOPTIMISED, &|t| unoptimised(t, a, 500, 500, stack));
    regular("tiled 500", TILED, &|t| tiled(t, a, b, 500, 16));
    regular("fft 2^16", FFT, &|t| fft(t, a, b, 16));
    let mut dice = Dice(88172645463325252);
    let matrix = Sparse::unstructured(100_000, 5, 30, 50_000, &mut dice);
    let banded = Sparse::unstructured(100_000, 5, 30, 300, &mut dice);
    regular("spmv random", SPMV, &|t| spmv(t, &matrix, big, 0..matrix.rows()));
    regular("spmv banded", SPMV, &|t| spmv(t, &banded, big, 0..banded.rows()));
    let levels: Vec<(Sparse, [u64; 5])> = (0..5)
        .map(|level| {
            let rows = 40_000 >> (2 * level);
            (Sparse::unstructured(rows, 4, 12 + 6 * level, rows / 10 + 20, &mut dice), big)
        })
        .collect();
    regular("amg, one cycle", SPMV, &|t| amg(t, &levels, 1, (1, 0)));
    regular("amg, five cycles", SPMV, &|t| amg(t, &levels, 5, (1, 0)));
    let numbers: Vec<u64> = (0..300_000).map(|_| dice.below(1 << 31)).collect();
    regular("quicksort", SORT, &|t| quicksort(t, a, &mut numbers.clone(), 0, stack));
    regular("mergesort", SORT, &|t| mergesort(t, a, b, &mut numbers[..100_000].to_vec()));
    let ordered: Vec<u64> = (0..200_000).map(|i| x + 48 * i).collect();
    let mut shuffled = ordered.clone();
    (1..shuffled.len()).for_each(|i| shuffled.swap(i, dice.below(i as u64 + 1) as usize));
    regular("list, in order", LIST, &|t| (0..5).for_each(|_| list(t, &ordered, y)));
    regular("list, shuffled", LIST, &|t| (0..5).for_each(|_| list(t, &shuffled, y)));
    regular("list, shuffled, once", LIST, &|t| list(t, &shuffled, y));
    regular("histogram", HISTOGRAM, &|t| histogram(t, a, b, 0..1_000_000, &mut Dice(99)));
}
