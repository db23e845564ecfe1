//! Replaying by clocks: receives are held back until it is known which messages they get.
//!
//! Which message a wildcard gets is known when it completes, not when it is posted, and receives
//! posted behind it must not take its message. So none is posted where the program wants it:
//! [`early_messages`] takes all messages out of MPI, and hands them over.
//!
//! Processes ask each other whether anything earlier can still come, and whoever waits for anything
//! has to answer: so nothing of MPI's is waited for in MPI, but asked for again and again, with
//! [`Replaying::pump`] in between.

mod collective;
mod complete;
mod early_messages;
mod receive;
mod send;

use crate::inside::memory::Statuses;
use crate::inside::process::{Uncancelled, abi};
use crate::table;
use refrain_order::clock::Replayer;
use refrain_order::clock::{Answer, Delivery, Note};
use refrain_order::{Call, Envelope, Kind, Post, Stop, Ticket, Turn};
use std::collections::HashMap;
use std::ffi::c_int;

use super::super::board::{self, State};
use super::super::error_field;
use super::super::files;
use super::super::guarded::Guarded;
use super::super::line;
use super::super::mpi;
use super::super::names::Names;
use super::super::requests::{Map, Requests};
use super::super::role::{Act, Hooked, Origin};
use super::super::stop::{self, Waiting};
use super::super::thread::{self, Thread};
use super::Target;
use super::collectives::Gathering;
use super::comms::{Comm, Comms};
use super::wire::{Channel, Word};
use early_messages::{EarlyMessages, Redelivery};

static REPLAYING: Guarded<Replaying> = Guarded::new(stop::missed);

/// What is replayed in this process.
struct Replaying {
    me: u32,
    replayer: Replayer,
    channel: Channel,
    comms: Comms,
    requests: Requests<Pending>,
    /// Communicators that are being made: where their handles will be, by request.
    unborn: Map<(usize, Comm)>,
    early_messages: EarlyMessages,
    redelivery: Redelivery,
    /// Where messages are from that were handed over to be received later, by their handles.
    matched: Map<Envelope>,
    /// Communicators that the program has freed and receives still wait on.
    freed: Vec<usize>,
    /// Who is in which collective operation, with its clock.
    here: HashMap<(u32, u64), Vec<(u32, u64)>>,
    /// The operation that a thread waits in, and who else takes part.
    inside: HashMap<u32, (Gathering, Vec<u32>)>,
    /// The names of call sites, for messages.
    names: Names,
    /// Completing calls of each thread.
    calls: HashMap<u32, u64>,
    /// Polls that were asked whether they fail.
    polls: u32,
    /// The call of this rank before which to wait for a debugger.
    until: Option<(u32, u64)>,
}

/// A request that is more than one of MPI's.
enum Pending {
    Receive(Held),
    /// Receives a message that was matched before.
    Matched(Envelope),
    /// A send that can be started.
    Send(Target),
    /// The program completes it itself.
    Generalized,
    /// A collective operation, with the clock it was begun with.
    Collective(Gathering, BegunCollective),
}

/// A collective operation that completes later.
#[derive(Clone)]
struct BegunCollective {
    /// The clock it was begun with.
    clock: u64,
    /// Who else takes part, and of whom clocks count.
    others: Vec<u32>,
    heard: Vec<u32>,
}

/// A receive that is held back.
struct Held {
    /// While it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// The program's communicator.
    comm: usize,
    /// Its tag among those of [`Redelivery`].
    tag: c_int,
    /// How many bytes it has room for.
    room: usize,
    /// Its message, when it has got one.
    got: Option<Got>,
    persistent: bool,
    /// What is sent along with it, from this place.
    sending: Option<(usize, Vec<u8>)>,
}

/// A message that a receive was handed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Got {
    from: Envelope,
    bytes: usize,
    /// Whether that is more than there was room for.
    truncated: bool,
}

impl Held {
    fn got(&self, from: Envelope, bytes: usize) -> Got {
        Got { from, bytes, truncated: bytes > self.room }
    }
}

/// What a matching call is to do.
enum Decided {
    Fail,
    Undefined,
    All(Vec<Delivery>),
    These(Vec<Delivery>),
}

impl Replaying {
    fn name(&self, site: u64) -> String {
        self.names.name(site).unwrap_or_else(|| format!("{site:#x}"))
    }

    /// Takes in what has come, and tells others what they want to know.
    fn pump(&mut self) {
        // What MPI does meanwhile may be a cancellation point, which the program's call need not be.
        let _uncancelled = Uncancelled::keep();
        while let Some((from, word)) = self.channel.hear() {
            match word {
                Word::Here { communicator, serial, clock } => {
                    self.comes(from, (communicator, serial), clock);
                }
                Word::Note(note) => {
                    if let Note::Sent { communicator, source, tag, .. } = note {
                        self.early_messages.hear(from, communicator, Envelope { source, tag });
                    }
                    self.replayer.hear(from, note);
                }
            }
        }
        self.early_messages.take(&self.comms);
        self.redelivery.land();
        self.speak();
    }

    /// Whether receives on a communicator wait for messages.
    fn awaits_messages(&self, comm: usize) -> bool {
        let waits = |held: &Held| held.ticket.is_some() && held.comm == comm;
        let mut pending = self.requests.iter().map(|(_, pending)| pending);
        pending.any(|pending| matches!(pending, Pending::Receive(held) if waits(held)))
    }

    fn speak(&mut self) {
        while let Some((to, note)) = self.replayer.say() {
            self.channel.tell(to, Word::Note(note));
        }
    }

    /// As when recording.
    fn wanted(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.get(call.comm()).number;
        call.post(origin.site, communicator)
    }

    /// Where threads share MPI: whether it is this one's turn.
    fn may(&self, origin: Origin, key: u64) -> bool {
        !line::is_shared() || self.replayer.turn(origin.stream, key) == Turn::Go
    }

    fn took(&mut self, key: u64) {
        if line::is_shared() {
            self.replayer.took_turn(key);
        }
    }
}

/// A call site has that name.
pub fn note_site(site: u64, name: &str) {
    REPLAYING.with(|own| own.names.note(site, name));
}

fn facts() -> Vec<(String, String)> {
    let facts = String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default();
    let pair = |line: &str| Some(line.split_once(' ')?).map(|(a, b)| (a.to_owned(), b.to_owned()));
    facts.lines().filter_map(pair).collect()
}

/// MPI has begun, with so many ranks.
pub fn start(rank: c_int, size: c_int) {
    let channel = Channel::open(size as usize);
    let (Some(channel), Some(redelivery)) = (channel, Redelivery::open()) else {
        stop::abort(stop::NO_RECORD, "MPI gives no communicators for the replay");
    };
    let Some(record) = files::read("order") else {
        stop::abort(stop::NO_RECORD, "there is no record of this rank");
    };
    let facts = facts();
    let recorded = facts.iter().find(|(fact, _)| fact == "size").map(|(_, size)| size.as_str());
    if let Some(recorded) = recorded.filter(|recorded| *recorded != size.to_string()) {
        stop::abort(stop::NO_RECORD, &format!("{size} ranks run, but {recorded} were recorded"));
    }
    let mut replayer = Replayer::new(record, rank as u32, size as u32).unwrap_or_else(|error| {
        stop::abort(stop::NO_RECORD, &format!("the record cannot be read: {error}"))
    });
    replayer.expect_gatherings();
    error_field::learn(redelivery.comm);
    let names = Names::recorded(facts.iter().map(|(fact, text)| (fact.as_str(), text.as_str())));
    board::start(rank as usize, size as usize);
    let mut comms = Comms::default();
    comms.get(mpi::handle(abi().comm_world));
    REPLAYING.put(Replaying {
        me: rank as u32,
        replayer,
        channel,
        comms,
        requests: Requests::default(),
        unborn: Map::default(),
        early_messages: EarlyMessages::default(),
        redelivery,
        matched: Map::default(),
        freed: Vec::new(),
        here: HashMap::new(),
        inside: HashMap::new(),
        names,
        calls: HashMap::new(),
        polls: 0,
        until: stop::until(),
    });
}

/// Lets MPI make progress, and answers others.
pub fn pump() {
    REPLAYING.with(Replaying::pump);
}

/// MPI is about to end. Others may still have questions: this process answers until all are here.
pub fn end() {
    if !REPLAYING.is_there() {
        return;
    }
    if let Some(board) = board::get() {
        board.say(State::Finalizing, "");
    }
    let barrier = REPLAYING.with(|own| {
        own.replayer.all_over();
        own.speak();
        own.channel.barrier()
    });
    if let Some(Some(mut request)) = barrier {
        let ignore = mpi::status_ignore() as usize;
        loop {
            pump();
            let mut flag: c_int = 0;
            let words = [&raw mut request as usize, &raw mut flag as usize, ignore];
            // SAFETY: a request of our own, an int, and no status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            if result != 0 || flag != 0 {
                break;
            }
            std::thread::yield_now();
        }
    }
    let Some(own) = REPLAYING.take() else { return };
    for (mut request, held) in own.requests.iter() {
        let is_held = matches!(held, Pending::Receive(held) if held.ticket.is_some());
        if is_held {
            let address = &raw mut request as usize;
            // SAFETY: a receive on a communicator of our own, for which nothing comes.
            unsafe {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Request_free, &[address]);
            }
        }
    }
    let Replaying { replayer, names, channel, redelivery, calls, .. } = own;
    channel.close(|_, _| {});
    redelivery.close();
    if let Err(Stop::Diverged(divergence)) = replayer.finish() {
        let name = |site: u64| names.name(site).unwrap_or_else(|| format!("{site:#x}"));
        let text = divergence.text(name);
        stop::abort(stop::DIVERGED, &format!("diverged at MPI_Finalize: {text}"));
    }
    if !stop::is_recorded_to_the_end() {
        let calls = calls.get(&thread::this().stream()).copied();
        stop::record_ends_at_finalize(calls.unwrap_or(0));
    }
}

/// Asks the record; where it has no answer, the job ends.
fn ask<R>(stream: u32, what: impl FnOnce(&mut Replaying) -> Result<R, Stop>) -> R {
    let answer = REPLAYING.with(|own| {
        let answer = what(own);
        own.speak();
        answer.map_err(|stop| {
            let text = match &stop {
                Stop::Diverged(divergence) => divergence.text(|site| own.name(site)),
                _ => String::new(),
            };
            (text, own.calls.get(&stream).copied().unwrap_or(0), stop)
        })
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

/// Asks again and again, until there is an answer.
fn ask_until<R>(
    stream: u32,
    waits_for: impl Fn() -> String,
    mut what: impl FnMut(&mut Replaying) -> Result<Option<R>, Stop>,
) -> R {
    let mut waiting = Waiting::new(waits_for);
    loop {
        let answer = ask(stream, |own| {
            own.pump();
            what(own)
        });
        match answer {
            Some(answer) => return answer,
            None => waiting.again(),
        }
    }
}

/// What the clock said.
pub fn value(thread: &Thread, which: u8) -> Option<u64> {
    let stream = thread.stream();
    REPLAYING.is_there().then(|| ask(stream, |own| own.replayer.value(stream, which)))
}

/// Whether something is replayed.
pub fn is_on() -> bool {
    REPLAYING.is_there()
}

/// Whether it is a thread's turn to get a lock of the program's own. Others may want to know something
/// meanwhile.
pub fn turn_of_lock(stream: u32) -> Turn {
    let turn = REPLAYING.with(|own| {
        own.pump();
        own.replayer.turn(stream, line::of_locks())
    });
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
    let origin = super::origin(&call, thread);
    thread.set_doing(Some((call.role.function, origin.site)));
    if let Act::Complete(kind) = call.role.act
        && kind.polls()
        && fails(origin, kind)
    {
        return complete::fail(&call, kind);
    }
    pump();
    match call.role.act {
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Post => receive::post(call, origin),
        Act::Init => receive::init(call, origin),
        Act::Start => send::start_all(call, origin),
        Act::Probe(kind) => receive::probe(call, origin, kind),
        Act::Complete(kind) => complete::complete(call, origin, kind),
        Act::Arrive => complete::arrive(call, origin),
        Act::Cancel => complete::cancel(call, origin),
        Act::Free => complete::free(call),
        Act::Generalized => complete::generalized(call),
        Act::Send(mode) => send::send(call, origin, mode),
        Act::InitSend => send::init(call),
        Act::FreeComm => collective::free_comm(call),
        Act::MakeComm { parent, new } => collective::make_comm(call, origin, parent, new),
        Act::Collective(synchronization) => collective::collective(call, origin, synchronization),
        Act::Begin | Act::End | Act::Unsupported | Act::UntrackedSync | Act::Other => {
            let _inside = board::Inside::of(call.role.function);
            call.forward()
        }
    }
}

/// So many polls fail before others are listened to again.
const POLLS: u32 = 32;

/// Whether a poll is known to fail.
fn fails(origin: Origin, kind: Kind) -> bool {
    let fails = |own: &mut Replaying| {
        own.polls = own.polls.wrapping_add(1);
        if own.polls.is_multiple_of(POLLS) {
            own.pump();
        }
        own.replayer.fails(origin.stream, kind, origin.site)
    };
    REPLAYING.with(fails) == Some(true)
}

/// What the record says of a matching call, as soon as it is known.
fn decide(origin: Origin, kind: Kind, count: u32, tickets: &[Option<Ticket>]) -> Decided {
    let call = Call { kind, site: origin.site, count };
    let what = || format!("{kind} at {}, for it to be known what it gets", name(origin));
    let (decided, held) = ask_until(origin.stream, what, |own| {
        let decided = match own.replayer.call(origin.stream, &call, tickets)? {
            Answer::Later => return Ok(None),
            Answer::Fail => return Ok(Some((Decided::Fail, None))),
            Answer::Undefined => Decided::Undefined,
            Answer::All(deliveries) => Decided::All(deliveries.to_vec()),
            Answer::These(deliveries) => Decided::These(deliveries.to_vec()),
        };
        let calls = own.calls.entry(origin.stream).or_default();
        let position = *calls;
        *calls += 1;
        let due = own.until == Some((origin.stream, position));
        let held = due.then(|| format!("at call {position}, {kind} at {}", own.name(origin.site)));
        Ok(Some((decided, held)))
    });
    if let Some(held) = held {
        stop::hold(&held);
    }
    decided
}

/// The name of a origin.
fn name(origin: Origin) -> String {
    REPLAYING.with(|own| own.name(origin.site)).unwrap_or_default()
}

/// Waits until a request is known to be complete, and leaves it.
fn await_request(request: usize, what: impl Fn() -> String) {
    let ignore = mpi::status_ignore() as usize;
    let mut waiting = Waiting::new(what);
    loop {
        let mut flag: c_int = 0;
        let words = [request, &raw mut flag as usize, ignore];
        // SAFETY: a request, an int, and no status.
        let result = unsafe { mpi::call(table::MPI_Request_get_status, &words) };
        if flag != 0 || result != 0 {
            return;
        }
        pump();
        waiting.again();
    }
}

/// Puts source and tag of a message into the status of the receive that it was handed to.
fn put_right(status: Statuses, from: Option<Envelope>) {
    let Some(from) = from.filter(|_| status as usize != abi().status_ignore) else { return };
    let layout = &mpi::layout().status;
    // SAFETY: a status of the program; its fields are ints.
    unsafe {
        status.add(layout.source).cast::<c_int>().write_unaligned(from.source);
        status.add(layout.tag).cast::<c_int>().write_unaligned(from.tag);
    }
}

/// What has become of a receive that was handed a message: not every MPI says that it was truncated
/// where it is one to oneself.
fn outcome(error: c_int, got: Option<Got>, status: Statuses) -> c_int {
    match got {
        Some(got) if got.truncated && error == 0 => {
            if status as usize != abi().status_ignore {
                let words = [status as usize, mpi::byte(), got.bytes];
                // SAFETY: a status of the program.
                unsafe { mpi::call(table::MPI_Status_set_elements_x, &words) };
            }
            mpi::layout().err_truncate
        }
        _ => error,
    }
}

/// An error of a receive that was handed its message is one of the program's communicator.
fn raise(comm: usize, error: c_int) -> c_int {
    if error != 0 {
        // SAFETY: a communicator of the program, and an error code of MPI's.
        unsafe { mpi::call(table::MPI_Comm_call_errhandler, &[comm, error as usize]) };
    }
    error
}
