//! Requests in the model: created, stored in arrays that all threads use, completed one by one or
//! together.

use super::{Arg, Expected, Process};
use crate::records;
use refrain_mpi::status::StatusFields;
use refrain_reader::event::Value;

const NULL: u64 = 0x2c00_0000;
/// MPICH's handle for all requests that are complete when they are created.
const DONE: u64 = 0x6c00_0001;
const UNDEFINED: i64 = -32766;
/// Arrays of requests that the program keeps.
const ARRAYS: usize = 3;
/// The most elements of an array.
const LONGEST: usize = 6;

/// What a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    /// An operation whose status is empty.
    Send,
    /// An operation whose status describes a message.
    Receive,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    raw: u64,
    identity: usize,
    /// The thread that made it.
    thread: usize,
    kind: RequestKind,
    persistent: bool,
    cancelled: bool,
}

/// The requests of a process.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The pending requests, the oldest first.
    live: Vec<Request>,
    arrays: [Vec<u64>; ARRAYS],
}

impl Requests {
    /// The requests that a thread means by some handles. If several requests have the same handle, these are
    /// the oldest that the thread created itself, or else any.
    fn resolve(&self, raws: &[u64], thread: usize) -> Vec<Option<Request>> {
        let turn = |i: usize| raws[..i].iter().filter(|raw| **raw == raws[i]).count();
        let all = |i: usize| self.live.iter().filter(move |r| r.raw == raws[i]);
        let own = |i: usize| all(i).filter(|r| r.thread == thread).nth(turn(i));
        (0..raws.len()).map(|i| own(i).or(all(i).nth(turn(i))).copied()).collect()
    }
}

fn handle(raw: u64, request: Option<Request>) -> Arg {
    match request {
        Some(request) => Arg(Value::Word(raw), Expected::Object("request", request.identity)),
        None => Arg::named("request", "MPI_REQUEST_NULL"),
    }
}

/// Numbers in an array as arguments.
fn numbers(all: &[usize]) -> Arg {
    Arg::list(all.iter().map(|n| Arg::int(*n as i64)).collect())
}

impl Process {
    /// Creates a request, and puts it into an array.
    pub(super) fn post(&mut self, thread: usize, a: u8, b: u8, c: u8) {
        let array = &self.requests.arrays[usize::from(b) % ARRAYS];
        let place = array.iter().position(|raw| *raw == NULL);
        if place.is_none() && array.len() >= LONGEST {
            return;
        }
        let shared = a.is_multiple_of(4);
        let (name, kind, persistent) = match a % 16 {
            0..=5 => ("MPI_Isend", RequestKind::Send, false),
            6..=11 => ("MPI_Irecv", RequestKind::Receive, false),
            12 => ("MPI_Ibarrier", RequestKind::Send, false),
            13 => ("MPI_Send_init", RequestKind::Send, true),
            14 => ("MPI_Recv_init", RequestKind::Receive, true),
            _ if c % 2 == 1 => return self.find(thread, place, b),
            _ => {
                let envelope = self.envelope(a, c, b);
                return self.fail(thread, "MPI_Irecv", envelope, vec![Arg::unset()]);
            }
        };
        let inputs = match name {
            "MPI_Ibarrier" => vec![self.comm(c)],
            // Few different ones, so that several requests have the same signature.
            _ => self.envelope(10 + c % 2, 3, b % 2),
        };
        let call = self.enter(thread, name, inputs);
        let raw = match shared && !persistent {
            true => DONE,
            false => (0x9800_0000u64..)
                .find(|raw| self.requests.live.iter().all(|r| r.raw != *raw))
                .unwrap_or(0),
        };
        let identity = self.identity();
        let request = Request { raw, identity, thread, kind, persistent, cancelled: false };
        self.requests.live.push(request);
        self.leave(thread, name, call, (0, 0), vec![handle(raw, Some(request))]);
        let array = &mut self.requests.arrays[usize::from(b) % ARRAYS];
        match place {
            Some(place) => array[place] = raw,
            None => array.push(raw),
        }
    }

    /// Tests a request whose creation was not recorded, and puts it into an array.
    fn find(&mut self, thread: usize, place: Option<usize>, b: u8) {
        let raw = 0xac00_0000 + u64::from(b % 2);
        if self.requests.live.iter().any(|r| r.raw == raw) {
            return;
        }
        let identity = self.identity();
        let (kind, persistent, cancelled) = (RequestKind::Receive, false, false);
        let request = Request { raw, identity, thread, kind, persistent, cancelled };
        self.requests.live.push(request);
        let same = handle(raw, Some(request));
        let outputs = vec![same.clone(), Arg::int(0), Arg::unset()];
        self.call(thread, "MPI_Test", vec![same], outputs);
        let array = &mut self.requests.arrays[usize::from(b) % ARRAYS];
        match place {
            Some(place) => array[place] = raw,
            None => array.push(raw),
        }
    }

    /// Waits, tests, starts, cancels or frees.
    pub(super) fn complete(&mut self, thread: usize, a: u8, b: u8, c: u8) {
        let array = usize::from(b) % ARRAYS;
        let raws = self.requests.arrays[array].clone();
        let place = usize::from(c) % raws.len().max(1);
        // In some cases, different requests complete on different ranks.
        let spread = if c > 220 { self.rank as usize * 5 } else { 0 };
        let chosen = |i: usize| (usize::from(c) + spread) >> (i % 7) & 1 == 1;
        match a % 16 {
            0 | 1 if !raws.is_empty() => self.one(thread, array, place, "MPI_Wait", true),
            2 | 3 if !raws.is_empty() => self.one(thread, array, place, "MPI_Test", chosen(0)),
            4 | 5 => self.all(thread, array, false, c),
            6 => match chosen(1) {
                true => self.all(thread, array, true, c),
                false => self.none(thread, array, "MPI_Testall"),
            },
            7 | 8 => self.any_of(thread, array, chosen(2), place),
            9 => self.none(thread, array, "MPI_Testany"),
            10 | 11 => self.some(thread, array, chosen, "MPI_Waitsome"),
            12 => self.some(thread, array, chosen, "MPI_Testsome"),
            13 => self.start(thread, array),
            14 if !raws.is_empty() => self.free_request(thread, array, place),
            15 if !raws.is_empty() => self.cancel(thread, array, place),
            _ => {}
        }
    }

    /// Notes that some requests of an array completed; returns the array after that.
    fn finish(&mut self, array: usize, requests: &[Option<Request>], done: &[usize]) -> Vec<Arg> {
        let mut after = Vec::new();
        for (i, request) in requests.iter().enumerate() {
            let raw = self.requests.arrays[array][i];
            match request.filter(|r| done.contains(&i) && !r.persistent) {
                Some(request) => {
                    self.requests.live.retain(|r| r.identity != request.identity);
                    // It ceases to exist when the call returns, which is next.
                    self.lives[request.identity].died = self.clock + 10;
                    self.requests.arrays[array][i] = NULL;
                    after.push(handle(NULL, None));
                }
                None => after.push(handle(raw, *request)),
            }
        }
        after
    }

    /// The status of a request that completed.
    fn status(&mut self, thread: usize, request: Option<Request>, failed: bool, n: u8) -> Arg {
        let fields = (i32::from(n % 3), i32::from(n % 2), i64::from(n % 5) * 8);
        let error = if failed { i32::from(n % 2) * 77 } else { 0 };
        let (source, tag) = (fields.0, fields.1);
        let cancelled = request.is_some_and(|r| r.cancelled) && n.is_multiple_of(2);
        let value = records::status(&StatusFields {
            source,
            tag,
            error,
            count_bytes: Some(fields.2),
            cancelled,
        });
        let expected = match request {
            Some(Request { kind: RequestKind::Receive, .. }) => {
                if !cancelled {
                    let Arg(..) = self.message(thread, fields, false);
                }
                let error = failed.then_some(error);
                Expected::Message { fields, cancelled, error, ignored: false }
            }
            Some(Request { cancelled: true, .. }) => Expected::Cancelled(cancelled),
            _ if failed => Expected::Error(error),
            _ => Expected::Same(Value::Unset),
        };
        Arg(value, expected)
    }

    fn one(&mut self, thread: usize, array: usize, place: usize, name: &'static str, done: bool) {
        let raws = self.requests.arrays[array].clone();
        let raw = raws[place];
        let request = self.requests.resolve(&[raw], thread)[0];
        let call = self.enter(thread, name, vec![handle(raw, request)]);
        let mut outputs = if done {
            // Of the requests that share the handle, the first completes.
            let mut alone = vec![None; raws.len()];
            alone[place] = request;
            vec![self.finish(array, &alone, &[place]).swap_remove(place)]
        } else {
            vec![handle(raw, request)]
        };
        if name == "MPI_Test" {
            outputs.push(Arg::int(done.into()));
        }
        outputs.push(if done {
            self.status(thread, request, false, raw as u8)
        } else {
            Arg::unset()
        });
        self.leave(thread, name, call, (0, 0), outputs);
    }

    /// The inputs of a call on an array: the number of requests, and those.
    fn array_inputs(&self, thread: usize, array: usize) -> (Vec<Arg>, Vec<Option<Request>>) {
        let raws = &self.requests.arrays[array];
        let requests = self.requests.resolve(raws, thread);
        let handles = raws.iter().zip(&requests).map(|(raw, r)| handle(*raw, *r)).collect();
        (vec![Arg::int(raws.len() as i64), Arg::list(handles)], requests)
    }

    fn all(&mut self, thread: usize, array: usize, tests: bool, c: u8) {
        let (inputs, requests) = self.array_inputs(thread, array);
        let name = if tests { "MPI_Testall" } else { "MPI_Waitall" };
        let failed = c % 8 == 7 && !requests.is_empty();
        let call = self.enter(thread, name, inputs);
        let done: Vec<usize> = (0..requests.len()).collect();
        let mut outputs = vec![Arg::list(self.finish(array, &requests, &done))];
        if tests {
            outputs.push(Arg::int(1));
        }
        outputs.push(match c % 8 {
            6 => Arg::same(Value::Ignored),
            how => {
                let statuses: Vec<Arg> = requests
                    .iter()
                    .enumerate()
                    .map(|(i, r)| self.status(thread, *r, failed, c.wrapping_add(i as u8)))
                    .collect();
                Arg::list(if how == 5 { ignored(statuses) } else { statuses })
            }
        });
        let returned = if failed { (0x0fc0_0011, 17) } else { (0, 0) };
        self.leave(thread, name, call, returned, outputs);
    }

    fn none(&mut self, thread: usize, array: usize, name: &'static str) {
        let (inputs, _) = self.array_inputs(thread, array);
        let same = inputs[1].clone();
        let outputs = match name {
            "MPI_Testall" => vec![same, Arg::int(0), Arg::unset()],
            _ => vec![same, Arg::int(UNDEFINED), Arg::int(0), Arg::unset()],
        };
        self.call(thread, name, inputs, outputs);
    }

    fn any_of(&mut self, thread: usize, array: usize, tests: bool, from: usize) {
        let (inputs, requests) = self.array_inputs(thread, array);
        let n = requests.len();
        let live = (0..n).map(|i| (i + from) % n).find(|i| requests[*i].is_some());
        let name = if tests { "MPI_Testany" } else { "MPI_Waitany" };
        let call = self.enter(thread, name, inputs);
        let done: Vec<usize> = live.into_iter().collect();
        let after = Arg::list(self.finish(array, &requests, &done));
        let status = self.status(thread, live.and_then(|i| requests[i]), false, from as u8);
        let index = Arg::int(live.map_or(UNDEFINED, |i| i as i64));
        let outputs = match tests {
            true => vec![after, index, Arg::int(1), status],
            false => vec![after, index, status],
        };
        self.leave(thread, name, call, (0, 0), outputs);
    }

    fn some(
        &mut self,
        thread: usize,
        array: usize,
        chosen: impl Fn(usize) -> bool,
        name: &'static str,
    ) {
        let (inputs, requests) = self.array_inputs(thread, array);
        let live: Vec<usize> = (0..requests.len()).filter(|i| requests[*i].is_some()).collect();
        let mut done: Vec<usize> = live.iter().copied().filter(|i| chosen(*i)).collect();
        if name == "MPI_Waitsome" && done.is_empty() {
            done.extend(live.first());
        }
        // MPI reports them in any order.
        if chosen(3) {
            done.reverse();
        }
        let call = self.enter(thread, name, inputs);
        let after = Arg::list(self.finish(array, &requests, &done));
        let count = if live.is_empty() { UNDEFINED } else { done.len() as i64 };
        let status = |i: &usize| self.status(thread, requests[*i], false, *i as u8);
        let statuses = done.iter().map(status).collect();
        let outputs = vec![after, Arg::int(count), numbers(&done), Arg::list(statuses)];
        self.leave(thread, name, call, (0, 0), outputs);
    }

    fn start(&mut self, thread: usize, array: usize) {
        let raws = self.requests.arrays[array].clone();
        let requests = self.requests.resolve(&raws, thread);
        let persistent: Vec<(u64, Option<Request>)> = raws
            .into_iter()
            .zip(requests)
            .filter(|(_, r)| r.is_some_and(|r| r.persistent))
            .collect();
        let handles: Vec<Arg> = persistent.iter().map(|(raw, r)| handle(*raw, *r)).collect();
        match &handles[..] {
            [] => {}
            [one] => self.call(thread, "MPI_Start", vec![one.clone()], vec![one.clone()]),
            _ => {
                let count = Arg::int(handles.len() as i64);
                let same = Arg::list(handles);
                self.call(thread, "MPI_Startall", vec![count, same.clone()], vec![same]);
            }
        }
    }

    fn free_request(&mut self, thread: usize, array: usize, place: usize) {
        let raw = self.requests.arrays[array][place];
        let Some(request) = self.requests.resolve(&[raw], thread)[0] else { return };
        let call = self.enter(thread, "MPI_Request_free", vec![handle(raw, Some(request))]);
        self.requests.live.retain(|r| r.identity != request.identity);
        self.lives[request.identity].died = self.clock + 10;
        self.requests.arrays[array][place] = NULL;
        self.leave(thread, "MPI_Request_free", call, (0, 0), vec![handle(NULL, None)]);
    }

    fn cancel(&mut self, thread: usize, array: usize, place: usize) {
        let raw = self.requests.arrays[array][place];
        let Some(request) = self.requests.resolve(&[raw], thread)[0] else { return };
        if raw == DONE || request.persistent {
            return;
        }
        let same = handle(raw, Some(request));
        self.call(thread, "MPI_Cancel", vec![same.clone()], vec![same]);
        let mut live = self.requests.live.iter_mut();
        if let Some(request) = live.find(|r| r.identity == request.identity) {
            request.cancelled = true;
        }
    }
}

/// The same statuses, of a program that did not ask for them.
fn ignored(statuses: Vec<Arg>) -> Vec<Arg> {
    let one = |Arg(value, expected)| {
        let value = match value {
            Value::Status { bytes, .. } => Value::Status { bytes, ignored: true },
            other => other,
        };
        let expected = match expected {
            Expected::Message { fields, cancelled, error, .. } => {
                Expected::Message { fields, cancelled, error, ignored: true }
            }
            other => other,
        };
        Arg(value, expected)
    };
    statuses.into_iter().map(one).collect()
}
