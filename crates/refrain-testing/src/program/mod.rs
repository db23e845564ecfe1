//! Random programs under a model of MPI: the calls of a process, and the calls that decoding its trace
//! must give.
//!
//! A [`Process`] executes [`Op`]s. It writes the records of each call as the agent would, with
//! handles that MPI reuses once they are free. It also keeps each call in a form that does not
//! depend on handles: every object, and every piece of memory, has a unique identity.

pub mod compare;
mod requests;

use crate::records::{self, FAMILY, Log};
use proptest::prelude::*;
use refrain_format::record::segment;
use refrain_mpi::names;
use refrain_reader::event::Value;
use std::collections::VecDeque;

/// One step of a thread; the numbers determine what it does.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// The thread.
    pub thread: u8,
    /// What it does.
    pub what: u8,
    /// Details.
    pub how: [u8; 3],
}

/// Programs of up to `most` steps.
pub fn programs(most: usize) -> impl Strategy<Value = Vec<Op>> {
    let op = (any::<u8>(), any::<u8>(), any::<[u8; 3]>());
    let op = op.prop_map(|(thread, what, how)| Op { thread, what, how });
    // Programs repeat their steps.
    let repeated = (proptest::collection::vec(op, 1..8), 1usize..6);
    let part = repeated.prop_map(|(ops, times)| ops.repeat(times));
    proptest::collection::vec(part, 1..most / 12 + 2).prop_map(|parts| parts.concat())
}

/// The value that a reader of the trace must get.
#[derive(Clone, Debug)]
pub enum Expected {
    /// The value itself.
    Same(Value),
    /// A predefined handle: its kind and name.
    Named(&'static str, &'static str),
    /// An object: its kind and identity.
    Object(&'static str, usize),
    /// An address: the identity of a segment, and the bytes from its beginning.
    Place(usize, i64),
    /// The status of a message.
    Message {
        /// Source, tag, bytes.
        fields: (i32, i32, i64),
        /// Whether it was cancelled.
        cancelled: bool,
        /// The error, if one is stored.
        error: Option<i32>,
        /// Whether the program passed a status.
        ignored: bool,
    },
    /// A status that says only whether a request was cancelled.
    Cancelled(bool),
    /// A status of which only the error is stored.
    Error(i32),
    /// An array.
    List(Vec<Expected>),
}

/// A value as MPI has it, and as a reader of the trace must get it.
#[derive(Clone, Debug)]
pub struct Arg(pub Value, pub Expected);

impl Arg {
    fn same(value: Value) -> Arg {
        Arg(value.clone(), Expected::Same(value))
    }

    fn int(n: i64) -> Arg {
        Arg::same(Value::Int(n))
    }

    fn text(text: &str) -> Arg {
        Arg::same(Value::Text(text.into()))
    }

    fn unset() -> Arg {
        Arg::same(Value::Unset)
    }

    fn named(kind: &'static str, name: &'static str) -> Arg {
        Arg(Value::Word(predefined(kind, name)), Expected::Named(kind, name))
    }

    fn list(all: Vec<Arg>) -> Arg {
        let (values, expected) = all.into_iter().map(|Arg(value, e)| (value, e)).unzip();
        Arg(Value::List(values), Expected::List(expected))
    }
}

/// The value of a predefined handle.
fn predefined(kind: &str, name: &str) -> u64 {
    let row = names::handles().iter().find(|row| row.group == kind && row.name == name);
    match row.and_then(|row| row.value(FAMILY)) {
        Some(refrain_mpi::abi::Source::Value(value)) => value as u64,
        _ => panic!("no {kind} {name}"),
    }
}

/// A call, as a reader of the trace must get it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub name: &'static str,
    /// How many calls it was made inside of.
    pub depth: u8,
    /// Its inputs.
    pub inputs: Vec<Expected>,
    /// Its outputs, if it returned.
    pub outputs: Vec<Expected>,
    /// Result and error class, if it returned.
    pub returned: Option<(Returned, i32)>,
}

/// What a call returned.
#[derive(Clone, Debug)]
pub enum Returned {
    /// A number.
    Number(i64),
    /// A predefined handle.
    Named(&'static str, &'static str),
}

/// An object's life, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// When it began.
    pub born: u64,
    /// When it ended.
    pub died: u64,
}

/// A thread of the process.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Its records.
    pub log: Log,
    /// Its calls in the order in which they began.
    pub calls: Vec<Call>,
    /// Calls that have not returned: name, number in the log, index in `calls`.
    open: Vec<(&'static str, u32, usize)>,
    /// The last statuses it received.
    statuses: VecDeque<(i32, i32, i64)>,
}

/// A handle in use.
#[derive(Clone, Debug)]
struct Object {
    kind: &'static str,
    raw: u64,
    identity: usize,
    references: usize,
}

/// A live piece of memory.
#[derive(Clone, Debug)]
struct Segment {
    base: u64,
    bytes: u64,
    identity: usize,
}

/// A process under the model.
#[derive(Clone, Debug)]
pub struct Process {
    rank: i64,
    size: i64,
    clock: u64,
    /// Call sites are recorded.
    has_sites: bool,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Lives of all objects and segments, by identity.
    pub lives: Vec<Life>,
    objects: Vec<Object>,
    segments: Vec<Segment>,
    requests: requests::Requests,
}

/// Threads of a process.
pub const THREADS: usize = 3;
/// The first address that the model allocates.
const MEMORY: u64 = 0x7000_0000_0000;
/// The distance between allocations.
const PIECE: u64 = 0x1_0000;

impl Process {
    /// Runs a program as one rank of several.
    pub fn run(program: &[Op], rank: u32, size: u32) -> Process {
        let mut process = Process {
            rank: rank.into(),
            size: size.into(),
            clock: 1000,
            has_sites: program.first().is_some_and(|op| op.how[0] % 4 == 1),
            threads: vec![Thread::default(); THREADS],
            lives: Vec::new(),
            objects: Vec::new(),
            segments: Vec::new(),
            requests: requests::Requests::default(),
        };
        for op in program {
            process.step(op);
        }
        process
    }

    /// Ticks when the last record was written.
    pub fn now(&self) -> u64 {
        self.clock
    }

    fn step(&mut self, op: &Op) {
        // One thread does most steps. Some steps are not executed on all ranks.
        let thread = usize::from(op.thread.saturating_sub(150)) % THREADS;
        let [a, b, c] = op.how;
        if c > 250 && self.rank % 3 == i64::from(a % 3) {
            return;
        }
        if self.has_sites {
            self.threads[thread].log.at_site(u32::from(op.what) / 90);
        }
        match op.what {
            0..=19 => self.send(thread, a, b, c),
            20..=39 => self.receive(thread, a, b, c),
            40..=54 => self.collective(thread, a, b),
            55..=64 => self.communicator(thread, a, b),
            65..=74 => self.datatype(thread, a, b),
            75..=79 => self.group(thread, a),
            80..=89 => self.strings(thread, a, b),
            90..=104 => self.memory(thread, a, b),
            105..=114 => self.nested(thread, a, b),
            115..=119 => self.ask(thread, a, b),
            120..=124 => self.count(thread, a),
            125..=170 => self.post(thread, a, b, c),
            _ => self.complete(thread, a, b, c),
        }
    }

    // Records.

    fn tick(&mut self, thread: usize) {
        // Some calls take longer than others.
        self.clock += 10 + (self.clock.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
        self.threads[thread].log.clock = self.clock;
    }

    fn enter(&mut self, thread: usize, name: &'static str, inputs: Vec<Arg>) -> (u32, usize) {
        self.tick(thread);
        let thread = &mut self.threads[thread];
        let depth = thread.open.len() as u8;
        let (values, inputs): (Vec<_>, Vec<_>) = inputs.into_iter().map(|Arg(v, e)| (v, e)).unzip();
        let number = thread.log.enter(name, depth, &values);
        let place = thread.calls.len();
        thread.calls.push(Call { name, depth, inputs, outputs: Vec::new(), returned: None });
        (number, place)
    }

    fn leave(
        &mut self,
        thread: usize,
        name: &'static str,
        (number, place): (u32, usize),
        (result, class): (i64, i32),
        outputs: Vec<Arg>,
    ) {
        self.tick(thread);
        let thread = &mut self.threads[thread];
        let (values, outputs): (Vec<_>, Vec<_>) =
            outputs.into_iter().map(|Arg(v, e)| (v, e)).unzip();
        thread.log.leave(name, number, result, class, &values);
        let call = &mut thread.calls[place];
        call.outputs = outputs;
        call.returned = Some((Returned::Number(result), class));
    }

    fn call(&mut self, thread: usize, name: &'static str, inputs: Vec<Arg>, outputs: Vec<Arg>) {
        let call = self.enter(thread, name, inputs);
        self.leave(thread, name, call, (0, 0), outputs);
    }

    fn fail(&mut self, thread: usize, name: &'static str, inputs: Vec<Arg>, outputs: Vec<Arg>) {
        let call = self.enter(thread, name, inputs);
        self.leave(thread, name, call, (0x0fc0_0006, 6), outputs);
    }

    // Objects.

    fn identity(&mut self) -> usize {
        self.lives.push(Life { born: self.clock, died: u64::MAX });
        self.lives.len() - 1
    }

    /// A new handle: the smallest that is free, so often one that was used before.
    fn create(&mut self, kind: &'static str) -> Arg {
        let raw = (0x8400_0000u64..).find(|raw| self.objects.iter().all(|o| o.raw != *raw));
        self.create_as(kind, raw.unwrap_or(0))
    }

    fn create_as(&mut self, kind: &'static str, raw: u64) -> Arg {
        let known = self.objects.iter_mut().find(|o| o.raw == raw && o.kind == kind);
        let identity = match known {
            Some(object) => {
                object.references += 1;
                object.identity
            }
            None => {
                let identity = self.identity();
                self.objects.push(Object { kind, raw, identity, references: 1 });
                identity
            }
        };
        Arg(Value::Word(raw), Expected::Object(kind, identity))
    }

    /// One of the live objects of a kind.
    fn any(&self, kind: &'static str, which: u8) -> Option<Arg> {
        let all: Vec<&Object> = self.objects.iter().filter(|o| o.kind == kind).collect();
        let object = all.get(usize::from(which) % all.len().max(1))?;
        Some(Arg(Value::Word(object.raw), Expected::Object(kind, object.identity)))
    }

    fn free(&mut self, handle: &Arg) {
        let Arg(_, Expected::Object(_, identity)) = handle else { return };
        if let Some(at) = self.objects.iter().position(|o| o.identity == *identity) {
            self.objects[at].references -= 1;
            if self.objects[at].references == 0 {
                self.objects.remove(at);
                self.lives[*identity].died = self.clock;
            }
        }
    }

    fn comm(&self, which: u8) -> Arg {
        match which % 3 {
            0 => Arg::named("comm", "MPI_COMM_WORLD"),
            1 => Arg::named("comm", "MPI_COMM_SELF"),
            _ => self.any("comm", which / 3).unwrap_or(Arg::named("comm", "MPI_COMM_WORLD")),
        }
    }

    fn datatype_of(&self, which: u8) -> Arg {
        match which % 4 {
            0 => Arg::named("datatype", "MPI_INT"),
            1 | 2 => Arg::named("datatype", "MPI_DOUBLE"),
            _ => self.any("datatype", which / 4).unwrap_or(Arg::named("datatype", "MPI_BYTE")),
        }
    }

    // Addresses.

    fn buffer(&self, which: u8) -> Arg {
        match which {
            0 => Arg::same(Value::Word(0)),
            // MPI_IN_PLACE.
            1 => Arg::same(Value::Word(u64::MAX)),
            2 => Arg::same(Value::Word(0x5555_0000_0010)),
            _ => self.address(which),
        }
    }

    fn address(&self, which: u8) -> Arg {
        match self.segments.get(usize::from(which) % self.segments.len().max(1)) {
            Some(segment) => {
                let offset = u64::from(which) * 8 % segment.bytes;
                let place = Expected::Place(segment.identity, offset as i64);
                Arg(Value::Word(segment.base + offset), place)
            }
            None => Arg::same(Value::Word(0x5555_0000_0000 + u64::from(which))),
        }
    }

    /// An address as `MPI_Aint`: outside all segments it is a plain number.
    fn aint(&self, which: u8) -> Arg {
        match (which % 2, self.address(which)) {
            (0, Arg(Value::Word(address), place @ Expected::Place(..))) => {
                Arg(Value::Int(address as i64), place)
            }
            _ => Arg::int(i64::from(which) * 16 - 32),
        }
    }

    fn memory(&mut self, thread: usize, a: u8, b: u8) {
        if a < 150 {
            // Often the same memory again; sometimes beyond the end of an allocation.
            let base = MEMORY + u64::from(b % 6) * PIECE;
            let bytes = if a < 30 { PIECE + 0x100 } else { PIECE / 2 };
            self.announce(thread, base, bytes);
        } else if !self.segments.is_empty() {
            let at = usize::from(b) % self.segments.len();
            let segment = self.segments.remove(at);
            self.tick(thread);
            self.threads[thread].log.release(segment.base);
            self.lives[segment.identity].died = self.clock;
        }
    }

    fn announce(&mut self, thread: usize, base: u64, bytes: u64) {
        self.tick(thread);
        self.threads[thread].log.segment(base, bytes, segment::HEAP, "");
        if self.segments.iter().any(|s| (s.base, s.bytes) == (base, bytes)) {
            return;
        }
        let overlaps = |s: &Segment| s.base < base + bytes && base < s.base + s.bytes;
        for segment in self.segments.iter().filter(|s| overlaps(s)) {
            self.lives[segment.identity].died = self.clock;
        }
        self.segments.retain(|s| !overlaps(s));
        let identity = self.identity();
        self.segments.push(Segment { base, bytes, identity });
    }

    // Calls.

    fn peer(&self, which: u8) -> i64 {
        let which = i64::from(which);
        match which % 5 {
            0 => (self.rank + 1) % self.size,
            1 => (self.rank + self.size - 1) % self.size,
            2 => self.rank ^ 1,
            3 => -1,
            _ => which % self.size,
        }
    }

    fn envelope(&self, a: u8, b: u8, c: u8) -> Vec<Arg> {
        let (count, tag) = (i64::from(b) * 3, i64::from(c % 4));
        let (buffer, datatype) = (self.buffer(a), self.datatype_of(c));
        let (peer, comm) = (Arg::int(self.peer(a)), self.comm(b));
        vec![buffer, Arg::int(count), datatype, peer, Arg::int(tag), comm]
    }

    fn send(&mut self, thread: usize, a: u8, b: u8, c: u8) {
        let envelope = self.envelope(a, b, c);
        match c % 16 {
            15 => self.fail(thread, "MPI_Send", envelope, vec![]),
            14 => self.call(thread, "MPI_Ssend", envelope, vec![]),
            _ => self.call(thread, "MPI_Send", envelope, vec![]),
        }
    }

    fn receive(&mut self, thread: usize, a: u8, b: u8, c: u8) {
        let envelope = self.envelope(a, b, c);
        let fields = (self.peer(a) as i32, i32::from(c % 4), i64::from(b % 7) * 8);
        match c % 8 {
            7 => self.fail(thread, "MPI_Recv", envelope, vec![Arg::unset()]),
            6 => {
                self.call(thread, "MPI_Recv", envelope, vec![Arg::same(Value::Ignored)]);
            }
            how => {
                let status = self.message(thread, fields, how == 5);
                self.call(thread, "MPI_Recv", envelope, vec![status]);
            }
        }
    }

    /// The status of a message that a thread now has.
    fn message(&mut self, thread: usize, fields: (i32, i32, i64), ignored: bool) -> Arg {
        let statuses = &mut self.threads[thread].statuses;
        statuses.push_front(fields);
        statuses.truncate(3);
        status_of(fields, ignored)
    }

    fn collective(&mut self, thread: usize, a: u8, b: u8) {
        let (from, to, comm) = (self.buffer(a), self.buffer(b), self.comm(b));
        let datatype = self.datatype_of(a);
        let sum = Arg::named("op", "MPI_SUM");
        match a % 5 {
            0 => self.call(thread, "MPI_Barrier", vec![comm], vec![]),
            1 => {
                let inputs = vec![from, to, Arg::int(b.into()), datatype, sum, comm];
                self.call(thread, "MPI_Allreduce", inputs, vec![]);
            }
            2 => {
                let inputs = vec![to, Arg::int(b.into()), datatype, Arg::int(0), comm];
                self.call(thread, "MPI_Bcast", inputs, vec![]);
            }
            3 => {
                let n = self.size;
                let count = |i: i64| (i * i64::from(b) + self.rank) % 11;
                let counts: Vec<i64> = (0..n).map(count).collect();
                let sum = |sum: &mut i64, n: &i64| Some(std::mem::replace(sum, *sum + n));
                let sums: Vec<i64> = counts.iter().scan(0, sum).collect();
                let odd: Vec<i64> = (0..n).map(|i| (i * i) % 7 - 3).collect();
                let list = |all: &[i64]| Arg::list(all.iter().map(|n| Arg::int(*n)).collect());
                let displacements = if b.is_multiple_of(2) { list(&sums) } else { list(&odd) };
                let again = list(&counts);
                let inputs = vec![
                    from,
                    list(&counts),
                    displacements,
                    datatype.clone(),
                    to,
                    again,
                    list(&sums),
                    datatype,
                    comm,
                ];
                self.call(thread, "MPI_Alltoallv", inputs, vec![]);
            }
            _ => {
                let root = i64::from(b) % self.size;
                let array = |step: i64| match self.rank == root {
                    true => Arg::list((0..self.size).map(|i| Arg::int(i * step)).collect()),
                    false => Arg::same(Value::Insignificant),
                };
                let (counts, displacements) = (array(0), array(b.into()));
                let inputs = vec![
                    from,
                    Arg::int(4),
                    datatype.clone(),
                    to,
                    counts,
                    displacements,
                    datatype,
                    Arg::int(root),
                    comm,
                ];
                self.call(thread, "MPI_Gatherv", inputs, vec![]);
            }
        }
    }

    fn communicator(&mut self, thread: usize, a: u8, b: u8) {
        match a % 8 {
            0..=2 => {
                let comm = self.comm(b);
                let inputs = vec![comm, Arg::int(self.rank % 2), Arg::int(self.rank)];
                let call = self.enter(thread, "MPI_Comm_split", inputs);
                let new = self.create("comm");
                self.leave(thread, "MPI_Comm_split", call, (0, 0), vec![new.clone()]);
                let members: Vec<i32> = (0..self.size as i32).filter(|r| r % 2 == 0).collect();
                self.tick(thread);
                if let Arg(Value::Word(raw), _) = new {
                    self.threads[thread].log.members(raw, &members, &[]);
                }
            }
            3 => {
                let comm = self.comm(b);
                self.fail(thread, "MPI_Comm_dup", vec![comm], vec![Arg::unset()]);
            }
            4 => {
                // A communicator whose creation was not recorded.
                let call_comm = self.create_as("comm", 0xc400_0000 + u64::from(b % 2));
                self.call(thread, "MPI_Barrier", vec![call_comm], vec![]);
            }
            _ => {
                let Some(comm) = self.any("comm", b) else { return };
                let call = self.enter(thread, "MPI_Comm_free", vec![comm.clone()]);
                let null = Arg::named("comm", "MPI_COMM_NULL");
                self.leave(thread, "MPI_Comm_free", call, (0, 0), vec![null]);
                self.drop_all(&comm);
            }
        }
    }

    /// Frees an object that is not reference-counted.
    fn drop_all(&mut self, handle: &Arg) {
        if let Arg(_, Expected::Object(_, identity)) = handle
            && let Some(object) = self.objects.iter_mut().find(|o| o.identity == *identity)
        {
            object.references = 1;
        }
        self.free(handle);
    }

    fn datatype(&mut self, thread: usize, a: u8, b: u8) {
        match a % 5 {
            0 => {
                let inputs = vec![Arg::int(b.into()), self.datatype_of(b)];
                let call = self.enter(thread, "MPI_Type_contiguous", inputs);
                let new = self.create("datatype");
                self.leave(thread, "MPI_Type_contiguous", call, (0, 0), vec![new]);
            }
            1 | 2 => {
                let n = i64::from(b % 4);
                let each = |i: i64| b.wrapping_mul(i as u8 + 3);
                let lengths = Arg::list((0..n).map(|i| Arg::int(i * 2)).collect());
                let places = Arg::list((0..n).map(|i| self.aint(each(i))).collect());
                let types = Arg::list((0..n).map(|i| self.datatype_of(each(i))).collect());
                let inputs = vec![Arg::int(n), lengths, places, types];
                let call = self.enter(thread, "MPI_Type_create_struct", inputs);
                let new = self.create("datatype");
                self.leave(thread, "MPI_Type_create_struct", call, (0, 0), vec![new]);
            }
            3 => {
                let Some(datatype) = self.any("datatype", b) else { return };
                self.call(thread, "MPI_Type_commit", vec![datatype.clone()], vec![datatype]);
            }
            _ => {
                let Some(datatype) = self.any("datatype", b) else { return };
                let call = self.enter(thread, "MPI_Type_free", vec![datatype.clone()]);
                let null = Arg::named("datatype", "MPI_DATATYPE_NULL");
                self.leave(thread, "MPI_Type_free", call, (0, 0), vec![null]);
                self.free(&datatype);
            }
        }
    }

    fn group(&mut self, thread: usize, a: u8) {
        if !a.is_multiple_of(3) {
            let world = Arg::named("comm", "MPI_COMM_WORLD");
            let call = self.enter(thread, "MPI_Comm_group", vec![world]);
            let group = self.create_as("group", 0x8800_0000);
            self.leave(thread, "MPI_Comm_group", call, (0, 0), vec![group]);
        } else if let Some(group) = self.any("group", a) {
            let call = self.enter(thread, "MPI_Group_free", vec![group.clone()]);
            let null = Arg::named("group", "MPI_GROUP_NULL");
            self.leave(thread, "MPI_Group_free", call, (0, 0), vec![null]);
            self.free(&group);
        }
    }

    fn strings(&mut self, thread: usize, a: u8, b: u8) {
        let text = format!("name {} of {}", a % 3, self.rank);
        match b % 4 {
            0 => {
                let inputs = vec![self.comm(a), Arg::text(&text)];
                self.call(thread, "MPI_Comm_set_name", inputs, vec![]);
            }
            1 => {
                let outputs = vec![Arg::text(&text), Arg::int(text.len() as i64)];
                let comm = self.comm(a);
                self.call(thread, "MPI_Comm_get_name", vec![comm], outputs);
            }
            _ => {
                let words = Arg::list((0..a % 3).map(|i| Arg::text(&format!("-{i}"))).collect());
                let codes = Arg::list((0..2).map(|_| Arg::int(0)).collect());
                let inputs = vec![
                    Arg::text("./worker"),
                    if b % 4 == 2 { words } else { Arg::same(Value::Null) },
                    Arg::int(2),
                    Arg::named("info", "MPI_INFO_NULL"),
                    Arg::int(0),
                    Arg::named("comm", "MPI_COMM_WORLD"),
                ];
                let call = self.enter(thread, "MPI_Comm_spawn", inputs);
                let new = self.create("comm");
                self.leave(thread, "MPI_Comm_spawn", call, (0, 0), vec![new, codes]);
            }
        }
    }

    /// Calls from callbacks, calls that never return, memory that is first used in a callback.
    fn nested(&mut self, thread: usize, a: u8, b: u8) {
        let depth = self.threads[thread].open.len();
        if a < 110 && depth < 3 {
            // A call whose buffer is freed while it runs would be an error of the program.
            let (from, to) = (self.buffer(b % 3), self.buffer(a % 3));
            let (int, sum) = (Arg::named("datatype", "MPI_INT"), Arg::named("op", "MPI_SUM"));
            let world = Arg::named("comm", "MPI_COMM_WORLD");
            let inputs = vec![from, to, Arg::int(b.into()), int, sum, world];
            let (number, place) = self.enter(thread, "MPI_Allreduce", inputs);
            self.threads[thread].open.push(("MPI_Allreduce", number, place));
        } else if let Some((name, number, place)) = self.threads[thread].open.pop()
            && a < 240
        {
            let returned = if b > 200 { (0x0fc0_0009, 9) } else { (0, 0) };
            self.leave(thread, name, (number, place), returned, vec![]);
        }
    }

    fn ask(&mut self, thread: usize, a: u8, b: u8) {
        match a % 5 {
            0 => {
                let call = self.enter(thread, "MPI_Wtime", vec![]);
                self.leave(thread, "MPI_Wtime", call, (i64::from(b) << 52 | 77, 0), vec![]);
                // Times are not stored.
                self.threads[thread].calls[call.1].returned = Some((Returned::Number(0), 0));
            }
            1 => {
                let (rank, comm) = (Arg::int(self.rank), self.comm(b));
                self.call(thread, "MPI_Comm_rank", vec![comm], vec![rank]);
            }
            2 => {
                let (buffer, address) = (self.address(b), self.address(b));
                let Arg(Value::Word(raw), place) = address else { return };
                let address = match place {
                    Expected::Place(..) => Arg(Value::Int(raw as i64), place),
                    _ => Arg::int(raw as i64),
                };
                self.call(thread, "MPI_Get_address", vec![buffer], vec![address]);
            }
            3 => {
                let call = self.enter(thread, "MPI_Comm_f2c", vec![Arg::int(b.into())]);
                let world = predefined("comm", "MPI_COMM_WORLD");
                self.leave(thread, "MPI_Comm_f2c", call, (world as i64, 0), vec![]);
                let named = Returned::Named("comm", "MPI_COMM_WORLD");
                self.threads[thread].calls[call.1].returned = Some((named, 0));
            }
            _ => {
                let inputs = vec![Arg::int(-2), Arg::int(-1), self.comm(b)];
                let outputs = match b % 3 {
                    0 => {
                        let fields = (i32::from(b) % self.size as i32, 2, 64);
                        vec![Arg::int(1), self.message(thread, fields, false)]
                    }
                    _ => vec![Arg::int(0), Arg::unset()],
                };
                self.call(thread, "MPI_Iprobe", inputs, outputs);
            }
        }
    }

    fn count(&mut self, thread: usize, a: u8) {
        let statuses = &self.threads[thread].statuses;
        let Some(fields) = statuses.get(usize::from(a) % statuses.len().max(1)).copied() else {
            return;
        };
        let inputs = vec![status_of(fields, false), Arg::named("datatype", "MPI_BYTE")];
        self.call(thread, "MPI_Get_count", inputs, vec![Arg::int(fields.2)]);
    }
}

/// The status of a message.
fn status_of(fields: (i32, i32, i64), ignored: bool) -> Arg {
    let value = match records::message(fields.0, fields.1, fields.2) {
        Value::Status { bytes, .. } => Value::Status { bytes, ignored },
        other => other,
    };
    Arg(value, Expected::Message { fields, cancelled: false, error: None, ignored })
}
