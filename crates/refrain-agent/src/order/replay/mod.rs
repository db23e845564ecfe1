//! Replaying: the record decides, and MPI is made to do it.

mod complete;
mod receive;
mod shared;

use crate::table;
use refrain_order::{
    Call, Decision, Divergence, Frames, Kind, Post, Posting, Replayer, Stop, Turn,
};
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::board::{self, State};
use super::error_field;
use super::files;
use super::guarded::Guarded;
use super::lifetime;
use super::line;
use super::mpi;
use super::names::Names;
use super::requests::{Comms, Map, Requests};
use super::role::{Act, Hooked, Origin};
use super::stop::{self, OWN_COMM};
use super::thread::{self, Thread};

static REPLAYING: Guarded<Replaying> = Guarded::new(stop::missed);

/// What is replayed in this process.
struct Replaying {
    replayer: Replayer,
    requests: Requests<Receive>,
    comms: Comms,
    /// Where threads share MPI: the lines of persistent sends, by their requests.
    lines: Map<u64>,
    sites: SiteNames,
    /// The record was made of a trace of calls: it knows neither places, communicators, threads
    /// nor clocks.
    traced: bool,
    /// The call of this rank before which to wait for a debugger.
    until: Option<(u32, u64)>,
}

/// A receive that completes later.
struct Receive {
    /// While it is active: the request in MPI, which is the program's unless that is persistent.
    active: Option<usize>,
    /// It is not posted, and the program's request is one on which nothing is received.
    withheld: bool,
    /// The program has tried to cancel it: once is enough for some MPIs.
    cancelled: bool,
    /// What it waits for, for messages.
    from: (Option<i32>, Option<i32>),
    persistent: Option<Persistent>,
}

/// A receive that can be started.
#[derive(Clone, Copy)]
struct Persistent {
    /// The arguments of `MPI_Irecv`, but for the request.
    words: [usize; 6],
    /// The datatype among them, if it is our own.
    datatype: Option<usize>,
    large: bool,
    post: Post,
}

/// What a matching call is to do.
enum Decided {
    Fail,
    All,
    Undefined,
    These(Vec<u32>),
}

/// The names of call sites, for messages.
struct SiteNames {
    names: Names,
    /// The last call site, if the record has none.
    last: Option<u64>,
}

impl SiteNames {
    fn name(&self, site: u64) -> String {
        match self.names.name(site) {
            Some(name) => name,
            None if self.last.is_some() => "an unknown call site".to_owned(),
            None => format!("{site:#x}"),
        }
    }

    /// Where the program left the record.
    fn describe(&self, divergence: &Divergence) -> String {
        let text = divergence.text(|site| self.name(site));
        match self.last {
            Some(last) => format!("{text}\n  which is at {}", self.name(last)),
            None => text,
        }
    }
}

impl Replaying {
    fn name(&self, site: u64) -> String {
        self.sites.name(site)
    }

    /// The place of a call, as the record knows it.
    fn recorded(&mut self, origin: Origin) -> Origin {
        if !self.traced {
            return origin;
        }
        self.sites.last = Some(origin.site);
        Origin { stream: 0, site: 0 }
    }
}

/// A origin in the program has that name.
pub fn note_site(site: u64, name: &str) {
    REPLAYING.with(|own| own.sites.names.note(site, name));
}

fn facts() -> impl Iterator<Item = (String, String)> {
    let facts = String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default();
    let pair = |line: &str| {
        let (fact, value) = line.split_once(' ').unwrap_or((line, ""));
        (fact.to_owned(), value.to_owned())
    };
    facts.lines().map(pair).collect::<Vec<_>>().into_iter()
}

/// MPI has begun, with so many ranks.
pub fn start(rank: c_int, size: c_int) {
    let Some(frames) = files::read("order") else {
        stop::abort(stop::NO_RECORD, "there is no record of this rank");
    };
    let recorded = facts().find(|(fact, _)| fact == "size").map(|(_, size)| size);
    if recorded.as_ref().is_some_and(|recorded| *recorded != size.to_string()) {
        let recorded = recorded.unwrap_or_default();
        stop::abort(stop::NO_RECORD, &format!("{size} ranks run, but {recorded} were recorded"));
    }
    let frames = Frames::read(frames);
    let replayer = Replayer::new(frames);
    let replayer = replayer.unwrap_or_else(|error| {
        stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
    });
    let facts: Vec<(String, String)> = facts().collect();
    let names = Names::recorded(facts.iter().map(|(fact, text)| (fact.as_str(), text.as_str())));
    board::start(rank as usize, size as usize);
    REPLAYING.put(Replaying {
        replayer,
        requests: Requests::default(),
        comms: Comms::default(),
        lines: Map::default(),
        sites: SiteNames { names, last: None },
        traced: facts.iter().any(|(fact, _)| fact == "traced"),
        until: stop::until(),
    });
    // For requests on which nothing is received.
    let own_comm = lifetime::own_comm();
    error_field::learn(mpi::handle(own_comm));
    OWN_COMM.store(own_comm as u64, Ordering::Relaxed);
}

/// MPI is about to end.
pub fn end() {
    let position = REPLAYING.with(|own| own.replayer.position(thread::this().stream()));
    let Some(own) = REPLAYING.take() else { return };
    for (_, receive) in own.requests.iter().filter(|(_, receive)| receive.withheld) {
        if let Some(mut request) = receive.active {
            let address = &raw mut request as usize;
            // SAFETY: a request of our own.
            unsafe {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Request_free, &[address]);
            }
        }
    }
    own.requests.iter().filter_map(|(_, one)| one.persistent.as_ref()).for_each(receive::release);
    lifetime::free_own_comm(OWN_COMM.swap(0, Ordering::Relaxed) as usize);
    let Replaying { replayer, sites, .. } = own;
    if let Err(Stop::Diverged(divergence)) = replayer.finish() {
        let text = sites.describe(&divergence);
        stop::abort(stop::DIVERGED, &format!("diverged at MPI_Finalize: {text}"));
    }
    if !stop::is_recorded_to_the_end() {
        stop::record_ends_at_finalize(position.unwrap_or(0));
    }
    if let Some(board) = board::get() {
        board.say(State::Finalizing, "");
    }
}

/// MPI has ended: what comes is the program's own. That is noted in a file, for who has started the
/// ranks, since the board may be on another machine's disk, and be seen there later.
pub fn over() {
    files::note("over");
    if let Some(board) = board::get() {
        board.say(State::Over, "");
    }
}

/// Asks the record; where it has no answer, the job ends.
fn ask<R>(what: impl FnOnce(&mut Replaying) -> Result<R, Stop>) -> R {
    let answer = REPLAYING.with(|own| match what(own) {
        Ok(answer) => Ok(answer),
        Err(stop) => Err((
            match &stop {
                Stop::Diverged(divergence) => own.sites.describe(divergence),
                _ => String::new(),
            },
            own.replayer.position(thread::this().stream()),
            stop,
        )),
    });
    match answer {
        Some(Ok(answer)) => answer,
        Some(Err((text, _, Stop::Diverged(_)))) => {
            stop::abort(stop::DIVERGED, &format!("diverged: {text}"))
        }
        Some(Err((_, position, Stop::RecordEnds))) => {
            let name = |site| REPLAYING.with(|own| own.name(site)).unwrap_or_default();
            stop::record_ends(position, name)
        }
        Some(Err((_, _, Stop::Unreadable(error)))) => {
            stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
        }
        None => stop::abort(stop::NO_RECORD, "the replay was interrupted in the middle of a call"),
    }
}

/// What the clock said.
pub fn value(thread: &Thread, which: u8) -> Option<u64> {
    let stream = thread.stream();
    let recorded = |own: &mut Replaying| match own.traced {
        true => Ok(None),
        false => own.replayer.value(stream, which).map(Some),
    };
    REPLAYING.is_there().then(|| ask(recorded)).flatten()
}

/// Whether something is replayed.
pub fn is_on() -> bool {
    REPLAYING.is_there()
}

/// Whether it is a thread's turn to get a lock of the program's own.
pub fn turn_of_lock(stream: u32) -> Turn {
    let turn = REPLAYING.with(|own| own.replayer.turn(stream, line::of_locks()));
    turn.filter(|_| REPLAYING.is_there()).unwrap_or(Turn::Go)
}

/// A thread has got a lock of the program's own.
pub fn took_lock() {
    REPLAYING.with(|own| own.replayer.took_turn(line::of_locks()));
}

/// A call that is the program's.
pub fn call(call: Hooked<'_>, thread: &Thread) -> c_int {
    if !REPLAYING.is_there() {
        return call.forward();
    }
    if let Some(board) = board::get() {
        board.begin_call(thread, call.entry.stack);
    }
    let origin = Origin { stream: thread.stream(), site: thread.site(&call.entry) };
    thread.set_doing(Some((call.role.function, origin.site)));
    match call.role.act {
        Act::Receive(kind) if line::is_shared() && kind != Kind::Mrecv => {
            shared::receive(call, origin, kind)
        }
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Send(mode) if line::is_shared() => shared::send(call, origin, mode),
        Act::InitSend => shared::init_send(call),
        Act::Post => receive::post(call, origin),
        Act::Init => receive::init(call, origin),
        Act::Start => receive::start_all(call, origin),
        Act::Probe(kind) => receive::probe(call, origin, kind),
        Act::Complete(kind) => complete::complete(call, origin, kind),
        Act::Arrive => complete::arrive(call, origin),
        Act::Cancel => complete::cancel(call),
        Act::Free => complete::free(call),
        Act::FreeComm => complete::free_comm(call),
        Act::Collective(_) | Act::MakeComm { .. } | Act::UntrackedSync | Act::Send(_) => {
            inside(&call)
        }
        Act::Generalized | Act::Begin | Act::End | Act::Unsupported | Act::Other => inside(&call),
    }
}

/// Forwards a call of which nothing was recorded.
fn inside(call: &Hooked<'_>) -> c_int {
    let _inside = board::Inside::of(call.role.function);
    call.forward()
}

/// What the record says of a matching call.
fn decide(origin: Origin, kind: Kind, count: u32) -> Decided {
    let (decided, held) = ask(|own| {
        let Origin { stream, site } = own.recorded(origin);
        let call = Call { kind, site, count };
        let position = own.replayer.position(stream);
        let decided = match own.replayer.call(stream, &call)? {
            Decision::Fail => Decided::Fail,
            Decision::All => Decided::All,
            Decision::Undefined => Decided::Undefined,
            Decision::These(indices) => Decided::These(indices.to_vec()),
        };
        let due = !matches!(decided, Decided::Fail) && own.until == Some((stream, position));
        Ok((
            decided,
            due.then(|| format!("at call {position}, {kind} at {}", own.name(origin.site))),
        ))
    });
    if let Some(held) = held {
        stop::hold(&held);
    }
    decided
}

impl Replaying {
    /// As when recording.
    fn wanted(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = if self.traced { 0 } else { self.comms.number(call.comm()) };
        call.post(origin.site, communicator)
    }

    /// What the record says of a receive.
    fn posting(&mut self, post: &Post, origin: Origin) -> Result<Posting, Stop> {
        let Origin { stream, site } = self.recorded(origin);
        self.replayer.post(stream, &Post { site, ..*post })
    }
}

/// The request that a call gives by address.
fn request_of(call: &Hooked<'_>) -> usize {
    // SAFETY: the table says a request is there.
    unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) }
}

fn put_request(call: &Hooked<'_>, index: usize, handle: usize) {
    // SAFETY: the table says that so many requests are there.
    unsafe { mpi::put_handle(call.word(call.role.request) as *mut u8, index, handle) };
}
