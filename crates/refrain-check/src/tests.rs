//! Checks simulated jobs: the calls of a few ranks, as a trace would have them.

use crate::finding::{Class, Findings};
use crate::job::{Job, Options};
use crate::repeat::Source;
use proptest::prelude::*;
use refrain_format::define::FunctionDef;
use refrain_mpi::abi::Family;
use refrain_mpi::interface::function;
use refrain_mpi::names::HandleTable;
use refrain_reader::{Ended, Event, Item, TraceError, Value};
use std::sync::Arc;

const WORLD: u64 = 100;
const INT: u64 = 200;
const FLOAT: u64 = 201;
const SUM: u64 = 300;
const MAX: u64 = 301;
const NULL: u64 = 400;

fn names() -> HandleTable {
    [
        ("comm", WORLD, "MPI_COMM_WORLD"),
        ("comm", NULL, "MPI_COMM_NULL"),
        ("datatype", INT, "MPI_INT"),
        ("datatype", FLOAT, "MPI_FLOAT"),
        ("op", SUM, "MPI_SUM"),
        ("op", MAX, "MPI_MAX"),
        ("request", NULL, "MPI_REQUEST_NULL"),
    ]
    .into_iter()
    .collect()
}

/// The calls of a rank.
#[derive(Clone, Default)]
struct Calls {
    all: Vec<Item>,
    requests: u64,
}

/// The items of a simulated rank.
struct Simulated(std::vec::IntoIter<Item>);

impl Iterator for Simulated {
    type Item = Result<(u32, Item), TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|item| Ok((0, item)))
    }
}

impl Source for Simulated {}

fn int(n: i64) -> Value {
    Value::Int(n)
}

/// Four bytes at that place of the rank's memory.
fn memory(offset: i64) -> Value {
    Value::Location { thread: None, segment: 1, name: "heap1".into(), offset }
}

type Arguments<'a> = &'a [(&'a str, Value)];

impl Calls {
    fn add(&mut self, name: &str, inputs: Arguments<'_>, outputs: Arguments<'_>) -> &mut Calls {
        self.call(name, inputs, outputs, true)
    }

    fn call(
        &mut self,
        name: &str,
        inputs: Arguments<'_>,
        outputs: Arguments<'_>,
        returned: bool,
    ) -> &mut Calls {
        let of = function(name).expect(name);
        let values = |given: Arguments<'_>| {
            let value =
                |name: &str| given.iter().find(|(of, _)| *of == name).map(|(_, v)| v.clone());
            of.params.iter().map(|p| value(p.name)).collect::<Vec<_>>()
        };
        for (name, _) in inputs.iter().chain(outputs) {
            assert!(of.params.iter().any(|p| p.name == *name), "{} has no {name}", of.name);
        }
        let event = Event {
            number: self.all.len() as u64,
            depth: 0,
            function: Arc::new(FunctionDef::from(of)),
            site: Some(format!("app+{:x}", self.all.len()).into()),
            start: self.all.len() as u64,
            end: returned.then_some(0),
            result: returned.then_some(0),
            error_class: returned.then_some(0),
            inputs: values(inputs),
            outputs: values(outputs),
        };
        self.all.push(Item::new(event, Family::Mpich, names()));
        self
    }

    fn message(
        peer: (&'static str, i64),
        tag: i64,
        (at, count, datatype): (i64, i64, u64),
    ) -> Vec<(&'static str, Value)> {
        vec![
            ("buf", memory(at)),
            ("count", int(count)),
            ("datatype", Value::Word(datatype)),
            (peer.0, int(peer.1)),
            ("tag", int(tag)),
            ("comm", Value::Word(WORLD)),
        ]
    }

    fn send(&mut self, to: i64, tag: i64, what: (i64, i64, u64)) -> &mut Calls {
        self.add("MPI_Send", &Calls::message(("dest", to), tag, what), &[])
    }

    fn recv(&mut self, from: i64, tag: i64, what: (i64, i64, u64)) -> &mut Calls {
        self.add("MPI_Recv", &Calls::message(("source", from), tag, what), &[])
    }

    fn nonblocking(
        &mut self,
        name: &str,
        peer: (&'static str, i64),
        tag: i64,
        what: (i64, i64, u64),
    ) -> u64 {
        self.requests += 1;
        let request = 1000 + self.requests;
        self.add(name, &Calls::message(peer, tag, what), &[("request", Value::Word(request))]);
        request
    }

    fn wait(&mut self, request: u64) -> &mut Calls {
        let null = ("request", Value::Word(NULL));
        self.add("MPI_Wait", &[("request", Value::Word(request))], &[null])
    }

    fn allreduce(&mut self, count: i64, datatype: u64, op: u64) -> &mut Calls {
        let arguments = [
            ("sendbuf", memory(1000)),
            ("recvbuf", memory(2000)),
            ("count", int(count)),
            ("datatype", Value::Word(datatype)),
            ("op", Value::Word(op)),
            ("comm", Value::Word(WORLD)),
        ];
        self.add("MPI_Allreduce", &arguments, &[])
    }

    fn bcast(&mut self, root: i64, count: i64, datatype: u64) -> &mut Calls {
        let arguments = [
            ("buffer", memory(1000)),
            ("count", int(count)),
            ("datatype", Value::Word(datatype)),
            ("root", int(root)),
            ("comm", Value::Word(WORLD)),
        ];
        self.add("MPI_Bcast", &arguments, &[])
    }

    fn barrier(&mut self) -> &mut Calls {
        self.add("MPI_Barrier", &[("comm", Value::Word(WORLD))], &[])
    }

    fn finalize(&mut self) -> &mut Calls {
        self.add("MPI_Finalize", &[], &[])
    }
}

fn checked_with(options: Options, ranks: Vec<Calls>) -> Vec<Class> {
    let (mut job, mut findings) = (Job::new(options, ranks.len()), Findings::default());
    for (rank, calls) in ranks.into_iter().enumerate() {
        job.add(rank as i32, Ended::Finalized, Box::new(Simulated(calls.all.into_iter())));
    }
    job.run(&mut findings).expect("simulated calls");
    findings.into_sorted().iter().map(|finding| finding.class).collect()
}

fn checked(ranks: Vec<Calls>) -> Vec<Class> {
    checked_with(Options::default(), ranks)
}

/// Ends an expression whose value does not matter.
fn end<T>(_: T) {}

/// Two ranks; `body` gives the calls of each between initialization and finalization.
fn two(body: impl Fn(i64, &mut Calls)) -> Vec<Calls> {
    (0..2)
        .map(|rank| {
            let mut calls = Calls::default();
            calls.add("MPI_Init", &[], &[]);
            body(rank, &mut calls);
            calls.finalize();
            calls
        })
        .collect()
}

const ONE: (i64, i64, u64) = (0, 1, INT);
const OTHER: (i64, i64, u64) = (64, 1, INT);

#[test]
fn sends_before_receives_on_both_sides_rely_on_buffering() {
    let job = || two(|rank, calls| end(calls.send(1 - rank, 0, ONE).recv(1 - rank, 0, OTHER)));
    assert_eq!(checked(job()), [Class::PotentialDeadlock]);
    assert_eq!(checked_with(Options { assume_buffering: true }, job()), []);
}

#[test]
fn a_receive_that_is_posted_first_needs_no_buffer() {
    let job = two(|rank, calls| {
        let request = calls.nonblocking("MPI_Irecv", ("source", 1 - rank), 0, OTHER);
        calls.send(1 - rank, 0, ONE).wait(request);
    });
    assert_eq!(checked(job), []);
}

#[test]
fn ranks_in_calls_that_never_returned_hang() {
    let mut job: Vec<Calls> = Vec::new();
    for rank in 0..2 {
        let mut calls = Calls::default();
        calls.add("MPI_Init", &[], &[]);
        calls.call("MPI_Recv", &Calls::message(("source", 1 - rank), 0, ONE), &[], false);
        job.push(calls);
    }
    assert_eq!(checked(job), [Class::Deadlock]);
}

#[test]
fn a_rooted_collective_before_a_send_may_wait_for_the_others() {
    let job = two(|rank, calls| match rank {
        0 => end(calls.bcast(0, 1, INT).send(1, 0, ONE)),
        _ => end(calls.recv(0, 0, OTHER).bcast(0, 1, INT)),
    });
    assert_eq!(checked(job), [Class::PotentialDeadlock]);
}

#[test]
fn arguments_of_collectives_are_compared() {
    let with = |change: &dyn Fn(i64, &mut Calls)| checked(two(|rank, calls| change(rank, calls)));
    let found =
        |class: Class, found: Vec<Class>| assert!(found.contains(&class), "{class:?}: {found:?}");
    found(
        Class::CollectiveOrder,
        with(&|rank, calls| match rank {
            0 => end(calls.barrier().allreduce(1, INT, SUM)),
            _ => end(calls.allreduce(1, INT, SUM).barrier()),
        }),
    );
    found(Class::RootMismatch, with(&|rank, calls| end(calls.bcast(rank, 1, INT))));
    found(Class::CountMismatch, with(&|rank, calls| end(calls.bcast(0, 1 + rank, INT))));
    found(
        Class::DatatypeMismatch,
        with(&|rank, calls| {
            end(calls.allreduce(1, if rank == 0 { INT } else { FLOAT }, SUM));
        }),
    );
    found(
        Class::OperationMismatch,
        with(&|rank, calls| {
            end(calls.allreduce(1, INT, if rank == 0 { SUM } else { MAX }));
        }),
    );
}

#[test]
fn a_message_must_fit_its_receive() {
    let with = |sent, received| {
        checked(two(|rank, calls| match rank {
            0 => end(calls.send(1, 0, sent)),
            _ => end(calls.recv(0, 0, received)),
        }))
    };
    assert_eq!(with((0, 2, INT), (0, 4, INT)), []);
    assert_eq!(with((0, 4, INT), (0, 2, INT)), [Class::Truncation]);
    assert_eq!(with((0, 1, INT), (0, 1, FLOAT)), [Class::DatatypeMismatch]);
}

#[test]
fn arguments_that_mpi_does_not_allow_are_named() {
    let with = |what: &dyn Fn(&mut Calls)| {
        let mut calls = Calls::default();
        calls.add("MPI_Init", &[], &[]);
        what(&mut calls);
        checked(vec![calls])
    };
    let open = |name: &str, peer, tag| {
        let arguments = Calls::message(peer, tag, ONE);
        with(&|calls: &mut Calls| end(calls.call(name, &arguments, &[], false)))
    };
    assert_eq!(open("MPI_Send", ("dest", 7), 0), [Class::InvalidArgument]);
    assert_eq!(open("MPI_Send", ("dest", 0), -5), [Class::InvalidArgument]);
    let null = [("comm", Value::Word(NULL))];
    assert_eq!(
        with(&|calls| end(calls.call("MPI_Barrier", &null, &[], false))),
        [Class::InvalidHandle]
    );
}

#[test]
fn requests_must_be_completed_and_started() {
    let job = two(|rank, calls| match rank {
        0 => end(calls.nonblocking("MPI_Isend", ("dest", 1), 0, ONE)),
        _ => end(calls.recv(0, 0, OTHER)),
    });
    assert_eq!(checked(job), [Class::RequestLeak]);
    let job = two(|rank, calls| {
        if rank == 0 {
            let request = calls.nonblocking("MPI_Send_init", ("dest", 1), 0, ONE);
            calls.add(
                "MPI_Wait",
                &[("request", Value::Word(request))],
                &[("request", Value::Word(request))],
            );
            calls.add(
                "MPI_Request_free",
                &[("request", Value::Word(request))],
                &[("request", Value::Word(NULL))],
            );
        }
    });
    assert_eq!(checked(job), [Class::NeverStarted]);
}

#[test]
fn a_send_may_be_freed_if_a_later_call_can_tell_that_it_is_complete() {
    let job = |answers: bool| {
        two(move |rank, calls| match rank {
            0 => {
                let request = calls.nonblocking("MPI_Isend", ("dest", 1), 0, ONE);
                let (before, after) = (Value::Word(request), Value::Word(NULL));
                calls.add("MPI_Request_free", &[("request", before)], &[("request", after)]);
                if answers {
                    calls.recv(1, 1, OTHER);
                }
            }
            _ => {
                calls.recv(0, 0, OTHER);
                if answers {
                    calls.send(0, 1, ONE);
                }
            }
        })
    };
    assert_eq!(checked(job(true)), []);
    assert_eq!(checked(job(false)), [Class::ActiveRequestFreed]);
}

#[test]
fn two_receives_in_flight_must_not_share_memory() {
    let job = |second: (i64, i64, u64)| {
        two(move |rank, calls| match rank {
            0 => end(calls.send(1, 0, ONE).send(1, 1, ONE)),
            _ => {
                let first = calls.nonblocking("MPI_Irecv", ("source", 0), 0, ONE);
                let second = calls.nonblocking("MPI_Irecv", ("source", 0), 1, second);
                calls.wait(first).wait(second);
            }
        })
    };
    assert_eq!(checked(job((3, 1, INT))), [Class::BufferOverlap]);
    assert_eq!(checked(job((4, 1, INT))), []);
}

#[test]
fn a_message_without_a_receive_is_lost() {
    let job = two(|rank, calls| {
        if rank == 0 {
            let request = calls.nonblocking("MPI_Isend", ("dest", 1), 0, ONE);
            calls.wait(request);
        }
    });
    assert!(checked(job).contains(&Class::UnmatchedSend));
}

/// A step that all ranks take together, and that is correct.
#[derive(Clone, Copy, Debug)]
enum Step {
    Ring(i64),
    Exchange(i64),
    Pair(i64, i64),
    Allreduce(i64),
    Bcast(i64),
    Barrier,
}

const RANKS: i64 = 4;

fn take(step: Step, rank: i64, calls: &mut Calls) {
    let (left, right) = ((rank + RANKS - 1) % RANKS, (rank + 1) % RANKS);
    match step {
        Step::Ring(tag) => {
            let arguments = [
                ("sendbuf", memory(0)),
                ("sendcount", int(1)),
                ("sendtype", Value::Word(INT)),
                ("dest", int(right)),
                ("sendtag", int(tag)),
                ("recvbuf", memory(64)),
                ("recvcount", int(1)),
                ("recvtype", Value::Word(INT)),
                ("source", int(left)),
                ("recvtag", int(tag)),
                ("comm", Value::Word(WORLD)),
            ];
            calls.add("MPI_Sendrecv", &arguments, &[]);
        }
        Step::Exchange(tag) => {
            let from = calls.nonblocking("MPI_Irecv", ("source", left), tag, OTHER);
            let to = calls.nonblocking("MPI_Isend", ("dest", right), tag, ONE);
            calls.wait(from).wait(to);
        }
        Step::Pair(from, to) if from != to && rank == from => end(calls.send(to, 9, ONE)),
        Step::Pair(from, to) if from != to && rank == to => end(calls.recv(from, 9, OTHER)),
        Step::Pair(..) => {}
        Step::Allreduce(count) => end(calls.allreduce(count, INT, SUM)),
        Step::Bcast(root) => end(calls.bcast(root, 2, INT)),
        Step::Barrier => end(calls.barrier()),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..3i64).prop_map(Step::Ring),
        (0..3i64).prop_map(Step::Exchange),
        (0..RANKS, 0..RANKS).prop_map(|(from, to)| Step::Pair(from, to)),
        (1..4i64).prop_map(Step::Allreduce),
        (0..RANKS).prop_map(Step::Bcast),
        Just(Step::Barrier),
    ];
    prop::collection::vec(step, 1..30)
}

fn job_of(steps: &[Step], change: impl Fn(i64, usize) -> Option<Step>) -> Vec<Calls> {
    (0..RANKS)
        .map(|rank| {
            let mut calls = Calls::default();
            calls.add("MPI_Init", &[], &[]);
            for (at, step) in steps.iter().enumerate() {
                take(change(rank, at).unwrap_or(*step), rank, &mut calls);
            }
            calls.finalize();
            calls
        })
        .collect()
}

proptest! {
    #[test]
    fn a_correct_program_has_no_finding(steps in steps()) {
        prop_assert_eq!(checked(job_of(&steps, |_, _| None)), []);
    }

    #[test]
    fn a_rank_that_calls_another_collective_is_found(steps in steps(), at in 0..30usize, rank in 0..RANKS) {
        let mut steps = steps;
        let at = at.min(steps.len() - 1);
        steps[at] = Step::Barrier;
        let found = checked(job_of(&steps, |r, n| (r == rank && n == at).then_some(Step::Allreduce(1))));
        prop_assert!(found.contains(&Class::CollectiveOrder), "{:?}", found);
    }
}
