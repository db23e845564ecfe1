//! Simulated tasks: the records of a rank of an imaginary program, for any number of ranks.
//!
//! Each pattern is the communication of some well-known program, reduced to its messages. Addresses
//! and request handles differ from rank to rank, as in real programs.

mod irregular;
pub mod long;

use refrain_format::record::segment;
use refrain_reader::event::Value;
use refrain_testing::records::{Log, ints, message, words};

const WORLD: Value = Value::Word(0x4400_0000);
const DOUBLE: Value = Value::Word(0x4c00_080b);
const SUM: Value = Value::Word(0x5800_0003);
const NULL_REQUEST: u64 = 0x2c00_0000;
/// MPICH's request handle for all operations that are complete when they are created.
const DONE_REQUEST: u64 = 0x6c00_0001;
const PROC_NULL: i64 = -1;
const ANY_TAG: i32 = -1;

/// Iterations of the main loop.
const ITERATIONS: usize = 100;

/// How the tasks of a program communicate.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// Its name on the command line.
    pub name: &'static str,
    /// How the size of its trace may grow.
    pub growth: Growth,
    /// The number of tasks it runs on, given the requested number.
    pub tasks: fn(u32) -> u32,
    /// Writes the main part of a rank's log.
    calls: fn(&mut Task),
}

/// How the size of a trace grows with the number of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// By a few digits' worth of bytes.
    Constant,
    /// By some bytes each time the tasks double.
    Logarithmic,
    /// With the tasks, whose communication is irregular.
    Free,
}

/// All patterns.
pub const PATTERNS: [Pattern; 11] = [
    Pattern { name: "stencil-2d", growth: Growth::Constant, tasks: all, calls: stencil_2d },
    Pattern { name: "stencil-3d", growth: Growth::Constant, tasks: all, calls: stencil_3d },
    Pattern { name: "wavefront", growth: Growth::Constant, tasks: all, calls: wavefront },
    Pattern { name: "transpose", growth: Growth::Constant, tasks: all, calls: transpose },
    Pattern { name: "transpose-half", growth: Growth::Constant, tasks: half, calls: transpose },
    Pattern { name: "root-gather", growth: Growth::Constant, tasks: all, calls: root_gather },
    Pattern { name: "cg", growth: Growth::Logarithmic, tasks: all, calls: conjugate_gradient },
    Pattern { name: "butterfly", growth: Growth::Logarithmic, tasks: all, calls: butterfly },
    Pattern { name: "tree-gather", growth: Growth::Logarithmic, tasks: all, calls: tree_gather },
    Pattern { name: "amr", growth: Growth::Free, tasks: all, calls: neighbour_lists },
    Pattern { name: "alltoallv", growth: Growth::Free, tasks: few, calls: alltoallv },
];

/// The irregular programs of `make nests`, with fewer steps.
pub const IRREGULAR: [Pattern; 5] = [
    Pattern { name: "pop", growth: Growth::Free, tasks: all, calls: irregular::solver },
    Pattern { name: "refinement", growth: Growth::Free, tasks: all, calls: irregular::refinement },
    Pattern { name: "multigrid", growth: Growth::Free, tasks: all, calls: irregular::multigrid },
    Pattern { name: "sweep", growth: Growth::Free, tasks: all, calls: irregular::sweep },
    Pattern { name: "figure4", growth: Growth::Free, tasks: all, calls: irregular::figure4 },
];

fn all(tasks: u32) -> u32 {
    tasks
}

fn half(tasks: u32) -> u32 {
    tasks / 2
}

fn few(tasks: u32) -> u32 {
    (tasks / 64).max(2)
}

impl Pattern {
    /// The pattern of that name.
    pub fn named(name: &str) -> Option<&'static Pattern> {
        PATTERNS.iter().chain(&IRREGULAR).find(|pattern| pattern.name == name)
    }

    /// The records of a rank.
    pub fn log(&self, rank: u32, size: u32) -> Vec<u8> {
        let mut task = Task { rank: rank.into(), size: size.into(), log: Log::default() };
        let log = &mut task.log;
        log.call("MPI_Init", &[Value::Null, Value::Null], &[Value::Null, Value::Null]);
        log.call("MPI_Comm_rank", &[WORLD], &[Value::Int(rank.into())]);
        log.call("MPI_Comm_size", &[WORLD], &[Value::Int(size.into())]);
        let memory = task.memory();
        task.log.segment(memory, SEGMENT, segment::HEAP, "");
        (self.calls)(&mut task);
        task.log.call("MPI_Finalize", &[], &[]);
        task.log.bytes
    }
}

/// The names of the handles that simulated programs use.
const HANDLES: [(&str, u64, &str); 4] = [
    ("comm", 0x4400_0000, "MPI_COMM_WORLD"),
    ("datatype", 0x4c00_080b, "MPI_DOUBLE"),
    ("op", 0x5800_0003, "MPI_SUM"),
    ("request", NULL_REQUEST, "MPI_REQUEST_NULL"),
];

/// Bytes of the segment that has all of a task's buffers.
const SEGMENT: u64 = 1 << 24;

/// A rank whose log is being written.
struct Task {
    rank: i64,
    size: i64,
    log: Log,
}

impl Task {
    /// The address of its memory, which differs between ranks.
    fn memory(&self) -> u64 {
        0x7f00_0000_0000 + (scatter(self.rank as u64, 1) % 4096) * 2 * SEGMENT
    }

    fn buffer(&self, n: usize) -> Value {
        Value::Word(self.memory() + 8192 * n as u64)
    }

    fn envelope(&self, buffer: usize, peer: i64, tag: i64) -> [Value; 6] {
        self.envelope_of(buffer, 1000, peer, tag)
    }

    fn envelope_of(&self, buffer: usize, count: i64, peer: i64, tag: i64) -> [Value; 6] {
        let (count, peer, tag) = (Value::Int(count), Value::Int(peer), Value::Int(tag));
        [self.buffer(buffer), count, DOUBLE, peer, tag, WORLD]
    }

    fn send(&mut self, buffer: usize, peer: i64, tag: i64) {
        let envelope = self.envelope(buffer, peer, tag);
        self.log.call("MPI_Send", &envelope, &[]);
    }

    fn receive(&mut self, buffer: usize, peer: i64, tag: i64) {
        let envelope = self.envelope(buffer, peer, tag);
        self.log.call("MPI_Recv", &envelope, &[received(peer, tag)]);
    }

    fn allreduce(&mut self) {
        let (from, to) = (self.buffer(100), self.buffer(101));
        self.log.call("MPI_Allreduce", &[from, to, Value::Int(1), DOUBLE, SUM, WORLD], &[]);
    }

    /// Nonblocking receives from and sends to all of these, then a wait for all; `tags` gives the tags of the messages
    /// to a neighbour and from it.
    fn exchange(&mut self, neighbours: &[i64], tags: impl Fn(usize) -> (i64, i64)) {
        self.exchange_of(neighbours, tags, |_| 1000);
    }

    /// The same; `count` gives the elements of a message.
    fn exchange_of(
        &mut self,
        neighbours: &[i64],
        tags: impl Fn(usize) -> (i64, i64),
        count: impl Fn(i64) -> i64,
    ) {
        let mut requests = Vec::new();
        let mut statuses = Vec::new();
        let first = 0x9800_0000 + scatter(self.rank as u64, 2) % 64;
        for (name, receives) in [("MPI_Irecv", true), ("MPI_Isend", false)] {
            for (n, &peer) in neighbours.iter().enumerate() {
                let tag = if receives { tags(n).1 } else { tags(n).0 };
                let request = match peer {
                    PROC_NULL => DONE_REQUEST,
                    _ => first + requests.len() as u64,
                };
                let buffer = n + if receives { 0 } else { neighbours.len() };
                let envelope = self.envelope_of(buffer, count(peer), peer, tag);
                self.log.call(name, &envelope, &[Value::Word(request)]);
                requests.push(request);
                statuses.push(if receives { received(peer, tag) } else { message(0, 0, 0) });
            }
        }
        let nulls = words(requests.iter().map(|_| NULL_REQUEST));
        let inputs = [Value::Int(requests.len() as i64), words(requests)];
        self.log.call("MPI_Waitall", &inputs, &[nulls, Value::List(statuses)]);
    }

    /// The main loop.
    fn repeat(&mut self, times: usize, body: impl FnOnce(&mut Task)) {
        let mut log = std::mem::take(&mut self.log);
        log.repeat(times, |log| {
            std::mem::swap(&mut self.log, log);
            body(self);
            std::mem::swap(&mut self.log, log);
        });
        self.log = log;
    }
}

/// The status of a receive.
fn received(peer: i64, tag: i64) -> Value {
    match peer {
        PROC_NULL => message(PROC_NULL as i32, ANY_TAG, 0),
        _ => message(peer as i32, tag as i32, 8000),
    }
}

/// A number that looks random.
fn scatter(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd6e8_feb8_6659_fd93);
    for _ in 0..2 {
        x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    x ^ (x >> 32)
}

/// Sides of a grid of that many ranks, as equal as powers of two (or any divisors) allow, the
/// largest first.
fn sides<const N: usize>(size: i64) -> [i64; N] {
    let mut sides = [1; N];
    let (mut rest, mut factor) = (size, 2);
    let mut factors = Vec::new();
    while rest > 1 {
        while rest % factor == 0 {
            factors.push(factor);
            rest /= factor;
        }
        factor += 1;
    }
    for factor in factors.into_iter().rev() {
        if let Some(least) = sides.iter_mut().min() {
            *least *= factor;
        }
    }
    sides.sort_unstable_by(|a, b| b.cmp(a));
    sides
}

/// A five-point stencil with open borders.
fn stencil_2d(task: &mut Task) {
    let [x, y] = sides(task.size);
    let (column, row) = (task.rank % x, task.rank / x);
    let inside = |c: i64, r: i64| match (0..x).contains(&c) && (0..y).contains(&r) {
        true => r * x + c,
        false => PROC_NULL,
    };
    let neighbours = [
        inside(column, row - 1),
        inside(column, row + 1),
        inside(column - 1, row),
        inside(column + 1, row),
    ];
    task.repeat(ITERATIONS, |task| {
        task.exchange(&neighbours, |n| (n as i64, (n ^ 1) as i64));
        task.allreduce();
    });
}

/// A seven-point stencil on a torus.
fn stencil_3d(task: &mut Task) {
    let sides: [i64; 3] = sides(task.size);
    let mut neighbours = Vec::new();
    let mut stride = 1;
    for side in sides {
        let place = task.rank / stride % side;
        for step in [side - 1, 1] {
            neighbours.push(task.rank + ((place + step) % side - place) * stride);
        }
        stride *= side;
    }
    task.repeat(ITERATIONS, |task| {
        task.exchange(&neighbours, |n| (n as i64, (n ^ 1) as i64));
        task.allreduce();
    });
}

/// LU's sweeps over the planes of a pencil, down and up again.
fn wavefront(task: &mut Task) {
    let [x, y] = sides(task.size);
    let (column, row) = (task.rank % x, task.rank / x);
    let north = (row > 0).then(|| task.rank - x);
    let south = (row + 1 < y).then(|| task.rank + x);
    let west = (column > 0).then(|| task.rank - 1);
    let east = (column + 1 < x).then(|| task.rank + 1);
    task.repeat(ITERATIONS / 4, |task| {
        for (from, to, tag) in
            [([north, west], [south, east], 1), ([south, east], [north, west], 2)]
        {
            for _ in 0..10 {
                from.iter().flatten().for_each(|peer| task.receive(0, *peer, tag));
                to.iter().flatten().for_each(|peer| task.send(1, *peer, tag));
            }
        }
        task.allreduce();
    });
}

/// The rank at the transposed position of CG's grid, which is square or twice as wide as high.
fn transposed(rank: i64, size: i64) -> i64 {
    let [columns, rows] = sides(size);
    match columns == rows {
        true => rank % rows * rows + rank / rows,
        false => 2 * (rank / 2 % rows * rows + rank / 2 / rows) + rank % 2,
    }
}

/// The exchange across the diagonal in CG.
fn transpose(task: &mut Task) {
    let partner = transposed(task.rank, task.size);
    task.repeat(ITERATIONS, |task| {
        task.exchange(&[partner], |_| (1, 1));
        task.allreduce();
    });
}

/// CG: sums along the rows of the grid, in steps that halve, then the transpose.
fn conjugate_gradient(task: &mut Task) {
    let [columns, _] = sides(task.size);
    let (row, column) = (task.rank / columns, task.rank % columns);
    let mut partners = Vec::new();
    let mut width = columns;
    while width > 1 {
        let partner = (column + width / 2) % width + column / width * width;
        partners.push(row * columns + partner);
        width /= 2;
    }
    partners.push(transposed(task.rank, task.size));
    task.repeat(ITERATIONS, |task| {
        partners.iter().for_each(|partner| task.exchange(&[*partner], |_| (1, 1)));
    });
}

/// A sum in log2 steps, each with the rank that differs in one bit.
fn butterfly(task: &mut Task) {
    task.repeat(ITERATIONS, |task| {
        let mut bit = 1;
        while bit < task.size {
            task.exchange(&[task.rank ^ bit], |_| (bit, bit));
            bit *= 2;
        }
    });
}

/// Nek5000's gather: each rank receives its children's data, and sends all of it to its parent.
fn tree_gather(task: &mut Task) {
    task.repeat(ITERATIONS, |task| {
        let mut bit = 1;
        while bit < task.size {
            if task.rank & bit != 0 {
                task.send(0, task.rank - bit, 7);
                break;
            }
            if task.rank + bit < task.size {
                task.receive(1, task.rank + bit, 7);
            }
            bit *= 2;
        }
    });
}

/// Rank 0 receives from each of the others in turn, and answers.
fn root_gather(task: &mut Task) {
    task.repeat(ITERATIONS / 10, |task| {
        if task.rank == 0 {
            (1..task.size).for_each(|peer| task.receive(0, peer, 3));
            (1..task.size).for_each(|peer| task.send(1, peer, 4));
        } else {
            task.send(0, 0, 3);
            task.receive(1, 0, 4);
        }
    });
}

/// Neighbours as in an adaptive mesh: some near, some far, and a different number for each rank.
fn neighbour_lists(task: &mut Task) {
    let count = 3 + scatter(task.rank as u64, 3) % 10;
    let neighbours: Vec<i64> =
        (0..count).map(|n| (scatter(task.rank as u64, 4 + n) % task.size as u64) as i64).collect();
    task.repeat(ITERATIONS, |task| {
        task.exchange(&neighbours, |_| (5, 5));
        task.allreduce();
    });
}

/// All to all, with counts that depend on the data and change from step to step.
fn alltoallv(task: &mut Task) {
    for step in 0..4 {
        let count =
            |from: i64, to: i64| (scatter((from * task.size + to) as u64, step) % 100) as i64;
        let sums = |counts: &[i64]| {
            let sum = |sum: &mut i64, count: &i64| Some(std::mem::replace(sum, *sum + count));
            ints(counts.iter().scan(0, sum))
        };
        let sent: Vec<i64> = (0..task.size).map(|to| count(task.rank, to)).collect();
        let taken: Vec<i64> = (0..task.size).map(|from| count(from, task.rank)).collect();
        let (from, to) = (task.buffer(0), task.buffer(1));
        let (sends, takes) = (sums(&sent), sums(&taken));
        let inputs = [from, ints(sent), sends, DOUBLE, to, ints(taken), takes, DOUBLE, WORLD];
        task.log.call("MPI_Alltoallv", &inputs, &[]);
    }
}
