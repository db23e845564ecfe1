//! Replaying: the record decides, and the agent makes MPI do the same.

mod complete;
mod concurrent;
mod receive;

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
use super::mpi;
use super::names::Names;
use super::requests::{Comms, Map, Requests};
use super::role::{Act, Hooked, Origin};
use super::stop::{self, PRIVATE_COMM};
use super::thread::{self, Thread};
use super::thread_level;
use super::turn_key;

static REPLAYING: Guarded<Replaying> = Guarded::new(stop::lock_unavailable);

/// The state of the replay in this process.
struct Replaying {
    replayer: Replayer,
    requests: Requests<Receive>,
    comms: Comms,
    /// With `MPI_THREAD_MULTIPLE`: the turn keys of persistent sends, by request.
    send_keys: Map<u64>,
    sites: SiteNames,
    /// The record was derived from a trace of calls: it has no call sites, communicators, threads or clock
    /// values.
    traced: bool,
    /// The call of this rank before which the replay waits for a debugger.
    until: Option<(u32, u64)>,
}

/// A receive that completes later.
struct Receive {
    /// While it is active: the request in MPI. It is the program's request unless that is persistent.
    active: Option<usize>,
    /// It is not posted; its request is one that never receives anything.
    withheld: bool,
    /// The program has cancelled it. Some MPIs do not allow a second `MPI_Cancel`.
    cancelled: bool,
    /// The source and tag it waits for, for messages.
    from: (Option<i32>, Option<i32>),
    persistent: Option<Persistent>,
}

/// A persistent receive.
#[derive(Clone, Copy)]
struct Persistent {
    /// The arguments of `MPI_Irecv` without the request.
    words: [usize; 6],
    /// The datatype among them, if it is a duplicate that the agent made.
    datatype: Option<usize>,
    large: bool,
    post: Post,
}

/// The recorded outcome of a completing call.
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

    /// Describes where the program diverged from the record.
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

    /// The origin of a call as the record has it.
    fn recorded(&mut self, origin: Origin) -> Origin {
        if !self.traced {
            return origin;
        }
        self.sites.last = Some(origin.site);
        Origin { stream: 0, site: 0 }
    }
}

/// Adds the name of a call site.
pub fn note_site(site: u64, name: &str) {
    REPLAYING.with(|state| state.sites.names.note(site, name));
}

fn facts() -> impl Iterator<Item = (String, String)> {
    let facts = String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default();
    let pair = |line: &str| {
        let (fact, value) = line.split_once(' ').unwrap_or((line, ""));
        (fact.to_owned(), value.to_owned())
    };
    facts.lines().map(pair).collect::<Vec<_>>().into_iter()
}

/// Starts the replay, when MPI is initialized with `size` ranks.
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
        send_keys: Map::default(),
        sites: SiteNames { names, last: None },
        traced: facts.iter().any(|(fact, _)| fact == "traced"),
        until: stop::until(),
    });
    // For the requests of receives that are withheld.
    let private_comm = lifetime::private_comm();
    error_field::learn(mpi::handle(private_comm));
    PRIVATE_COMM.store(private_comm as u64, Ordering::Relaxed);
}

/// Ends the replay, before MPI is finalized.
pub fn end() {
    let position = REPLAYING.with(|state| state.replayer.position(thread::this().stream()));
    let Some(state) = REPLAYING.take() else { return };
    for (_, receive) in state.requests.iter().filter(|(_, receive)| receive.withheld) {
        if let Some(mut request) = receive.active {
            let address = &raw mut request as usize;
            // SAFETY: the agent's request.
            unsafe {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Request_free, &[address]);
            }
        }
    }
    state.requests.iter().filter_map(|(_, one)| one.persistent.as_ref()).for_each(receive::release);
    lifetime::free_private_comm(PRIVATE_COMM.swap(0, Ordering::Relaxed) as usize);
    let Replaying { replayer, sites, .. } = state;
    if let Err(Stop::Diverged(divergence)) = replayer.finish() {
        let text = sites.describe(&divergence);
        stop::abort(stop::DIVERGED, &format!("diverged at MPI_Finalize: {text}"));
    }
    if !stop::is_record_complete() {
        stop::record_ends_at_finalize(position.unwrap_or(0));
    }
    if let Some(board) = board::get() {
        board.set_state(State::Finalizing, "");
    }
}

/// MPI is finalized. This is noted in the facts too, for the `refrain` process: if the board is on a network
/// file system, it may see the board's change later.
pub fn over() {
    files::note("over");
    if let Some(board) = board::get() {
        board.set_state(State::Over, "");
    }
}

/// Asks the record. If it has no answer, the job is aborted.
fn ask<R>(what: impl FnOnce(&mut Replaying) -> Result<R, Stop>) -> R {
    let answer = REPLAYING.with(|state| match what(state) {
        Ok(answer) => Ok(answer),
        Err(stop) => Err((
            match &stop {
                Stop::Diverged(divergence) => state.sites.describe(divergence),
                _ => String::new(),
            },
            state.replayer.position(thread::this().stream()),
            stop,
        )),
    });
    match answer {
        Some(Ok(answer)) => answer,
        Some(Err((text, _, Stop::Diverged(_)))) => {
            stop::abort(stop::DIVERGED, &format!("diverged: {text}"))
        }
        Some(Err((_, position, Stop::RecordEnds))) => {
            let name = |site| REPLAYING.with(|state| state.name(site)).unwrap_or_default();
            stop::record_ends(position, name)
        }
        Some(Err((_, _, Stop::Unreadable(error)))) => {
            stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
        }
        None => stop::abort(stop::NO_RECORD, "the replay was interrupted in the middle of a call"),
    }
}

/// The recorded value of a clock or a random number.
pub fn value(thread: &Thread, which: u8) -> Option<u64> {
    let stream = thread.stream();
    let recorded = |state: &mut Replaying| match state.traced {
        true => Ok(None),
        false => state.replayer.value(stream, which).map(Some),
    };
    REPLAYING.is_present().then(|| ask(recorded)).flatten()
}

/// Whether a replay is in progress.
pub fn is_on() -> bool {
    REPLAYING.is_present()
}

/// Whether it is a thread's turn to acquire a lock of the program.
pub fn turn_of_lock(stream: u32) -> Turn {
    let turn = REPLAYING.with(|state| state.replayer.turn(stream, turn_key::of_locks()));
    turn.filter(|_| REPLAYING.is_present()).unwrap_or(Turn::Go)
}

/// The thread whose turn it was has acquired a lock of the program.
pub fn took_lock() {
    REPLAYING.with(|state| state.replayer.took_turn(turn_key::of_locks()));
}

/// Replays a call of the program.
pub fn call(call: Hooked<'_>, thread: &Thread) -> c_int {
    if !REPLAYING.is_present() {
        return call.forward();
    }
    if let Some(board) = board::get() {
        board.begin_call(thread, call.entry.stack);
    }
    let origin = Origin { stream: thread.stream(), site: thread.site(&call.entry) };
    thread.set_current_call(Some((call.role.function, origin.site)));
    match call.role.act {
        Act::Receive(kind) if thread_level::is_multiple() && kind != Kind::Mrecv => {
            concurrent::receive(call, origin, kind)
        }
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Send(mode) if thread_level::is_multiple() => concurrent::send(call, origin, mode),
        Act::InitSend => concurrent::init_send(call),
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

/// Forwards a call that is not recorded.
fn inside(call: &Hooked<'_>) -> c_int {
    let _inside = board::Inside::of(call.role.function);
    call.forward()
}

/// The recorded outcome of a completing call; waits for a debugger if this call is the one to stop at.
fn decide(origin: Origin, kind: Kind, count: u32) -> Decided {
    let (decided, held) = ask(|state| {
        let Origin { stream, site } = state.recorded(origin);
        let call = Call { kind, site, count };
        let position = state.replayer.position(stream);
        let decided = match state.replayer.call(stream, &call)? {
            Decision::Fail => Decided::Fail,
            Decision::All => Decided::All,
            Decision::Undefined => Decided::Undefined,
            Decision::These(indices) => Decided::These(indices.to_vec()),
        };
        let due = !matches!(decided, Decided::Fail) && state.until == Some((stream, position));
        Ok((
            decided,
            due.then(|| format!("at call {position}, {kind} at {}", state.name(origin.site))),
        ))
    });
    if let Some(held) = held {
        stop::hold_for_debugger(&held);
    }
    decided
}

impl Replaying {
    /// The receive that a call posts, as when recording.
    fn post_of(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = if self.traced { 0 } else { self.comms.number(call.comm()) };
        call.post(origin.site, communicator)
    }

    /// How the record says to post a receive.
    fn posting(&mut self, post: &Post, origin: Origin) -> Result<Posting, Stop> {
        let Origin { stream, site } = self.recorded(origin);
        self.replayer.post(stream, &Post { site, ..*post })
    }
}

/// The request whose address is an argument of the call.
fn request_of(call: &Hooked<'_>) -> usize {
    // SAFETY: by the interface table, the argument points to a request.
    unsafe { mpi::handle_at(call.word(call.role.request) as *mut u8, 0) }
}

fn put_request(call: &Hooked<'_>, index: usize, handle: usize) {
    // SAFETY: by the interface table, the argument points to that many requests.
    unsafe { mpi::put_handle(call.word(call.role.request) as *mut u8, index, handle) };
}
