//! Streams of compiled kernels: a block for each straight piece of code, with the addresses that it refers to.
//!
//! Every kernel runs one thread's share of the work. The blocks are the same in all threads.
#![allow(dead_code)]

use std::ops::Range;

use refrain_memory::{Blocks, Kind, Reference, SegmentKind, Segments};

/// Receives records.
type Sink<'a> = Box<dyn FnMut(&[u64]) + 'a>;

/// The stream of a thread: records of a block's number and its addresses.
#[derive(Default)]
pub struct Tape<'a> {
    /// The records.
    pub words: Vec<u64>,
    sink: Option<Sink<'a>>,
}

impl<'a> Tape<'a> {
    /// A tape that passes its records to `sink`, some thousands of words at a time.
    pub fn to(sink: impl FnMut(&[u64]) + 'a) -> Self {
        Self { words: Vec::with_capacity(1 << 15), sink: Some(Box::new(sink)) }
    }

    /// Executes a block.
    #[inline]
    pub fn run(&mut self, block: u32, addresses: &[u64]) {
        self.words.push(u64::from(block));
        self.words.extend_from_slice(addresses);
        if self.words.len() >= (1 << 15) - 64 {
            self.hand_on();
        }
    }

    /// Passes on the remaining records.
    pub fn hand_on(&mut self) {
        if let Some(sink) = &mut self.sink {
            sink(&self.words);
            self.words.clear();
        }
    }
}

/// A table of blocks, each written as its references: `"LS"` loads and stores, `A` is atomic.
pub fn blocks(of: &[&str]) -> Blocks {
    let mut table = Blocks::new();
    let mut pc = 0x1000;
    for block in of {
        let references = block.chars().map(|kind| {
            pc += 4;
            let kind = match kind {
                'S' => Kind::Store,
                'A' => Kind::Atomic,
                _ => Kind::Load,
            };
            Reference { kind, size: 8, pc }
        });
        table.add(references.collect()).unwrap();
        pc += 16;
    }
    table
}

/// The address space of a process: `shift` is what address randomisation adds.
pub struct Memory {
    /// The segments.
    pub segments: Segments,
    next: u64,
    stacks: u64,
}

impl Memory {
    /// A process whose heap begins at `0x5555_0000_0000 + shift`.
    pub fn new(shift: u64) -> Self {
        let heap = 0x5555_0000_0000 + shift;
        Self { segments: Segments::new(), next: heap, stacks: 0x7fff_0000_0000 + 3 * shift }
    }

    /// Allocates.
    pub fn allocate(&mut self, bytes: u64) -> u64 {
        let base = self.next;
        self.next += bytes.next_multiple_of(16) + 16;
        self.segments.begin(SegmentKind::Heap, 0, base, bytes);
        base
    }

    /// The end of a new thread's stack.
    pub fn stack(&mut self, thread: u32) -> u64 {
        let size = 1 << 20;
        self.segments.begin(SegmentKind::Stack, thread, self.stacks, size);
        self.stacks += size + 4096;
        self.stacks - 4096
    }
}

/// OpenMP's static schedule: the share of `thread`.
pub fn share(n: u64, threads: u64, thread: u64) -> Range<u64> {
    let (each, more) = (n / threads, n % threads);
    let start = thread * each + thread.min(more);
    start..start + each + u64::from(thread < more)
}

/// Random numbers.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % n
    }
}

/// `c[i] = a[i] + b[i]`.
pub const VECTOR_ADD: &[&str] = &["", "LLS", ""];
pub fn vector_add(tape: &mut Tape<'_>, [a, b, c]: [u64; 3], rows: Range<u64>) {
    tape.run(0, &[]);
    for i in rows {
        tape.run(1, &[a + 8 * i, b + 8 * i, c + 8 * i]);
    }
    tape.run(2, &[]);
}

/// `c[i][j] = sum a[i][k] * b[k][j]`: a row's head, an element's head, the inner loop, the store.
pub const MATMUL: &[&str] = &["L", "", "LL", "S", "S"];
pub fn matmul(tape: &mut Tape<'_>, [a, b, c]: [u64; 3], n: u64, rows: Range<u64>, stack: u64) {
    for i in rows {
        tape.run(0, &[stack - 64]);
        for j in 0..n {
            tape.run(1, &[]);
            for k in 0..n {
                tape.run(2, &[a + 8 * (i * n + k), b + 8 * (k * n + j)]);
            }
            tape.run(3, &[c + 8 * (i * n + j)]);
        }
    }
    tape.run(4, &[stack - 72]);
}

/// The same as one block only, as from a front end that observes nothing but references.
pub const MATMUL_BARE: &[&str] = &["LLLS"];
pub fn matmul_bare(tape: &mut Tape<'_>, [a, b, c]: [u64; 3], n: u64, rows: Range<u64>) {
    for i in rows {
        for j in 0..n {
            for k in 0..n {
                let element = c + 8 * (i * n + j);
                tape.run(0, &[a + 8 * (i * n + k), b + 8 * (k * n + j), element, element]);
            }
        }
    }
}

/// Jacobi's stencil, a few sweeps over two grids in turn.
pub const JACOBI: &[&str] = &["", "", "LLLLS", "L"];
pub fn jacobi(tape: &mut Tape<'_>, grids: [u64; 2], n: u64, rows: Range<u64>, sweeps: u64) {
    for sweep in 0..sweeps {
        let (from, to) = (grids[sweep as usize % 2], grids[1 - sweep as usize % 2]);
        tape.run(0, &[]);
        for i in rows.start.max(1)..rows.end.min(n - 1) {
            tape.run(1, &[]);
            for j in 1..n - 1 {
                let at = |g: u64, i: u64, j: u64| g + 8 * (i * n + j);
                tape.run(
                    2,
                    &[
                        at(from, i - 1, j),
                        at(from, i + 1, j),
                        at(from, i, j - 1),
                        at(from, i, j + 1),
                        at(to, i, j),
                    ],
                );
            }
        }
        tape.run(3, &[grids[0]]);
    }
}

/// `x[i] = (b[i] - sum_{j<i} l[i][j] x[j]) / l[i][i]`, for some right hand sides.
pub const TRIANGULAR: &[&str] = &["", "L", "LL", "LS"];
pub fn triangular(tape: &mut Tape<'_>, [l, b, x]: [u64; 3], n: u64, columns: Range<u64>) {
    for column in columns {
        let (b, x) = (b + 8 * n * column, x + 8 * n * column);
        tape.run(0, &[]);
        for i in 0..n {
            tape.run(1, &[b + 8 * i]);
            for j in 0..i {
                tape.run(2, &[l + 8 * (i * n + j), x + 8 * j]);
            }
            tape.run(3, &[l + 8 * (i * n + i), x + 8 * i]);
        }
    }
}

/// LU factorisation without pivots: three nested loops, all of them triangular.
pub const LU: &[&str] = &["L", "LLS", "L", "LLLS", ""];
pub fn lu(tape: &mut Tape<'_>, a: u64, n: u64) {
    let at = |i: u64, j: u64| a + 8 * (i * n + j);
    for k in 0..n {
        tape.run(0, &[at(k, k)]);
        for i in k + 1..n {
            tape.run(1, &[at(i, k), at(k, k), at(i, k)]);
            tape.run(2, &[at(i, k)]);
            for j in k + 1..n {
                tape.run(3, &[at(i, j), at(i, k), at(k, j), at(i, j)]);
            }
        }
        tape.run(4, &[]);
    }
}

/// Unoptimised code: the test of each loop is a block of its own, run once more at the end.
pub const UNOPTIMISED: &[&str] = &["L", "S", "LL", "LLLLS", "LS", "L"];
pub fn unoptimised(tape: &mut Tape<'_>, a: u64, n: u64, m: u64, stack: u64) {
    let (i_at, j_at) = (stack - 8, stack - 16);
    for i in 0..n {
        tape.run(0, &[i_at]);
        tape.run(1, &[j_at]);
        for j in 0..m {
            tape.run(2, &[j_at, stack - 24]);
            tape.run(3, &[i_at, j_at, stack - 32, a + 8 * (i * m + j), a + 8 * (i * m + j)]);
        }
        tape.run(2, &[j_at, stack - 24]);
        tape.run(4, &[i_at, i_at]);
    }
    tape.run(0, &[i_at]);
    tape.run(5, &[stack - 40]);
}

/// A tiled transpose whose last tiles are smaller (`min`); the inner loop runs backwards.
pub const TILED: &[&str] = &["", "", "", "LS"];
pub fn tiled(tape: &mut Tape<'_>, a: u64, b: u64, n: u64, tile: u64) {
    for ii in (0..n).step_by(tile as usize) {
        tape.run(0, &[]);
        for jj in (0..n).step_by(tile as usize) {
            tape.run(1, &[]);
            for i in ii..n.min(ii + tile) {
                tape.run(2, &[]);
                for j in (jj..n.min(jj + tile)).rev() {
                    tape.run(3, &[a + 8 * (i * n + j), b + 8 * (j * n + i)]);
                }
            }
        }
    }
}

/// The butterflies of an iterative FFT.
pub const FFT: &[&str] = &["", "", "LLLSS"];
pub fn fft(tape: &mut Tape<'_>, data: u64, twiddles: u64, log: u32) {
    let n = 1u64 << log;
    for stage in 0..log {
        let half = 1u64 << stage;
        tape.run(0, &[]);
        for base in (0..n).step_by(2 * half as usize) {
            tape.run(1, &[]);
            for j in 0..half {
                let (x, y) = (data + 16 * (base + j), data + 16 * (base + j + half));
                tape.run(2, &[twiddles + 16 * (j << (log - 1 - stage)), x, y, x, y]);
            }
        }
    }
}

/// A sparse matrix in rows.
pub struct Sparse {
    /// Where each row begins, and where the last row ends.
    pub starts: Vec<u64>,
    /// The column of each element.
    pub columns: Vec<u64>,
}

impl Sparse {
    /// Rows of `least..most` elements near the diagonal, at random within `reach` of it.
    pub fn unstructured(rows: u64, least: u64, most: u64, reach: u64, dice: &mut Dice) -> Self {
        let mut sparse = Self { starts: vec![0], columns: Vec::new() };
        for row in 0..rows {
            let mut columns: Vec<u64> = (0..least + dice.below(most - least))
                .map(|_| (row + dice.below(2 * reach)).saturating_sub(reach).min(rows - 1))
                .collect();
            columns.sort_unstable();
            columns.dedup();
            sparse.columns.extend(columns);
            sparse.starts.push(sparse.columns.len() as u64);
        }
        sparse
    }

    /// How many rows it has.
    pub fn rows(&self) -> u64 {
        self.starts.len() as u64 - 1
    }
}

/// `y = A x`, row by row: starts, values, columns, x, y.
pub const SPMV: &[&str] = &["", "LL", "LLL", "S", "L"];
pub fn spmv(tape: &mut Tape<'_>, matrix: &Sparse, at: [u64; 5], rows: Range<u64>) {
    let [starts, values, columns, x, y] = at;
    tape.run(0, &[]);
    for row in rows {
        tape.run(1, &[starts + 8 * row, starts + 8 * (row + 1)]);
        for k in matrix.starts[row as usize]..matrix.starts[row as usize + 1] {
            let column = matrix.columns[k as usize];
            tape.run(2, &[values + 8 * k, columns + 4 * k, x + 8 * column]);
        }
        tape.run(3, &[y + 8 * row]);
    }
    tape.run(4, &[starts]);
}

/// V-cycles over coarser and coarser unstructured matrices: smooths on the way down and up.
pub fn amg(tape: &mut Tape<'_>, levels: &[(Sparse, [u64; 5])], cycles: u64, part: (u64, u64)) {
    for _ in 0..cycles {
        let down = 0..levels.len();
        for level in down.clone().chain(down.rev()) {
            let (matrix, at) = &levels[level];
            for _ in 0..2 {
                spmv(tape, matrix, *at, share(matrix.rows(), part.0, part.1));
            }
        }
    }
}

/// Quicksort of random numbers, with its scanning loops and swaps.
pub const SORT: &[&str] = &["L", "L", "L", "LLSS", "LS", "LL", "LS", "LS", ""];
pub fn quicksort(tape: &mut Tape<'_>, base: u64, data: &mut [u64], offset: u64, stack: u64) {
    if data.len() < 2 {
        return;
    }
    let at = |i: usize| base + 8 * (offset + i as u64);
    tape.run(0, &[at(data.len() / 2)]);
    let pivot = data[data.len() / 2];
    let (mut i, mut j) = (0, data.len() - 1);
    loop {
        while data[i] < pivot {
            tape.run(1, &[at(i)]);
            i += 1;
        }
        while data[j] > pivot {
            tape.run(2, &[at(j)]);
            j -= 1;
        }
        if i >= j {
            break;
        }
        tape.run(3, &[at(i), at(j), at(i), at(j)]);
        data.swap(i, j);
        i += 1;
        j -= 1;
    }
    tape.run(4, &[stack, stack - 8]);
    let (left, right) = data.split_at_mut(i);
    let offset_right = offset + left.len() as u64;
    quicksort(tape, base, left, offset, stack - 64);
    quicksort(tape, base, right, offset_right, stack - 64);
}

/// Mergesort, bottom up, between two arrays.
pub fn mergesort(tape: &mut Tape<'_>, mut from: u64, mut to: u64, data: &mut Vec<u64>) {
    let n = data.len();
    let mut width = 1;
    while width < n {
        let mut merged = Vec::with_capacity(n);
        for base in (0..n).step_by(2 * width) {
            let (middle, end) = ((base + width).min(n), (base + 2 * width).min(n));
            let (mut i, mut j) = (base, middle);
            while i < middle && j < end {
                tape.run(5, &[from + 8 * i as u64, from + 8 * j as u64]);
                let out = to + 8 * merged.len() as u64;
                if data[i] <= data[j] {
                    tape.run(6, &[from + 8 * i as u64, out]);
                    merged.push(data[i]);
                    i += 1;
                } else {
                    tape.run(7, &[from + 8 * j as u64, out]);
                    merged.push(data[j]);
                    j += 1;
                }
            }
            for i in (i..middle).chain(j..end) {
                tape.run(6, &[from + 8 * i as u64, to + 8 * merged.len() as u64]);
                merged.push(data[i]);
            }
            tape.run(8, &[]);
        }
        *data = merged;
        std::mem::swap(&mut from, &mut to);
        width *= 2;
    }
}

/// Walks a linked list: the payload, then the next pointer.
pub const LIST: &[&str] = &["LL", "S"];
pub fn list(tape: &mut Tape<'_>, nodes: &[u64], result: u64) {
    for &node in nodes {
        tape.run(0, &[node + 8, node]);
    }
    tape.run(1, &[result]);
}

/// A histogram of random keys: the key, then an atomic increment.
pub const HISTOGRAM: &[&str] = &["L", "A", ""];
pub fn histogram(tape: &mut Tape<'_>, keys: u64, bins: u64, rows: Range<u64>, dice: &mut Dice) {
    for i in rows {
        tape.run(0, &[keys + 4 * i]);
        tape.run(1, &[bins + 8 * dice.below(1024)]);
    }
    tape.run(2, &[]);
}
