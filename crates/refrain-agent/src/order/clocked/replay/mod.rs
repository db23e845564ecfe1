//! Replaying with the clock method: receives are held back until it is known which messages they get.
//!
//! Which message a wildcard receive gets is known when it completes, not when it is posted, and receives that were
//! posted later must not take its message. So no receive is posted as the program asks: [`early_messages`] receives all
//! messages early, and delivers them to the program's receives.
//!
//! Processes query each other whether an earlier message can still arrive, and a process that waits has to answer.
//! So the agent never blocks inside MPI: it polls, and calls [`Replaying::pump`] between polls.

mod collective;
mod complete;
mod early_messages;
mod receive;
mod send;

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use crate::inside::process::Uncancelled;
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
use super::super::mpi;
use super::super::names::Names;
use super::super::requests::{Map, Requests};
use super::super::role::{Act, Hooked, Origin};
use super::super::stop::{self, Waiting};
use super::super::thread::{self, Thread};
use super::super::thread_level;
use super::super::turn_key;
use super::Target;
use super::collectives::Collective;
use super::comms::{Comm, Comms};
use super::wire::{Channel, Message};
use early_messages::{EarlyMessages, Redelivery};

static REPLAYING: Guarded<Replaying> = Guarded::new(stop::lock_unavailable);

/// The state of the replay in this process.
struct Replaying {
    me: u32,
    replayer: Replayer,
    channel: Channel,
    comms: Comms,
    requests: Requests<Pending>,
    /// Communicators that are being made, and the addresses of their handles, by request.
    pending_comms: Map<(usize, Comm)>,
    early_messages: EarlyMessages,
    redelivery: Redelivery,
    /// Envelopes of messages that a matched probe has found, by message handle.
    matched: Map<Envelope>,
    /// Communicators that the program has freed and on which receives still wait.
    freed: Vec<usize>,
    /// Processes that have entered a collective operation, with their clocks, by communicator and serial number.
    entered: HashMap<(u32, u64), Vec<(u32, u64)>>,
    /// The operation that a thread waits in, and the other participants.
    waiting_in: HashMap<u32, (Collective, Vec<u32>)>,
    /// The names of call sites, for messages.
    names: Names,
    /// The number of successful completing calls of each thread.
    calls: HashMap<u32, u64>,
    /// The number of polls so far.
    polls: u32,
    /// The call of this rank before which the replay waits for a debugger.
    until: Option<(u32, u64)>,
}

/// A request that the agent tracks.
enum Pending {
    Receive(HeldReceive),
    /// Receives a message that a probe has matched.
    Matched(Envelope),
    /// A persistent send.
    Send(Target),
    /// A generalized request.
    Generalized,
    /// A nonblocking collective operation.
    Collective(Collective, Participation),
}

/// The participation of this process in a collective operation.
#[derive(Clone)]
struct Participation {
    /// This process's clock when it began.
    clock: u64,
    /// The other participants.
    others: Vec<u32>,
    /// The participants whose clocks count.
    peers: Vec<u32>,
}

/// A receive that is held back.
struct HeldReceive {
    /// Its ticket, while it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// The program's communicator.
    comm: usize,
    /// Its tag on the communicator of [`Redelivery`].
    tag: c_int,
    /// How many bytes its buffer holds.
    capacity: usize,
    /// Its message, once it is delivered.
    delivered: Option<Delivered>,
    persistent: bool,
    /// The send of `MPI_Isendrecv`: its request, and the packed data.
    sending: Option<(usize, Vec<u8>)>,
}

/// A message that was delivered to a receive.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Delivered {
    from: Envelope,
    bytes: usize,
    /// Whether it is longer than the buffer.
    truncated: bool,
}

impl HeldReceive {
    fn delivered(&self, from: Envelope, bytes: usize) -> Delivered {
        Delivered { from, bytes, truncated: bytes > self.capacity }
    }
}

/// The recorded outcome of a completing call.
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

    /// Receives the messages and notes that have arrived, and answers queries.
    fn pump(&mut self) {
        // MPI may pass a cancellation point here, which the program's call need not have.
        let _uncancelled = Uncancelled::keep();
        while let Some((from, message)) = self.channel.receive() {
            match message {
                Message::Entered { communicator, serial, clock } => {
                    self.entered(from, (communicator, serial), clock);
                }
                Message::Note(note) => {
                    if let Note::Sent { communicator, source, tag, .. } = note {
                        self.early_messages.announce(from, communicator, Envelope { source, tag });
                    }
                    self.replayer.receive_note(from, note);
                }
            }
        }
        self.early_messages.take(&self.comms);
        self.redelivery.reap();
        self.send_notes();
    }

    /// Whether receives on a communicator wait for messages.
    fn awaits_messages(&self, comm: usize) -> bool {
        let waits = |held: &HeldReceive| held.ticket.is_some() && held.comm == comm;
        let mut pending = self.requests.iter().map(|(_, pending)| pending);
        pending.any(|pending| matches!(pending, Pending::Receive(held) if waits(held)))
    }

    fn send_notes(&mut self) {
        while let Some((to, note)) = self.replayer.next_note() {
            self.channel.send(to, Message::Note(note));
        }
    }

    /// The receive that a call posts, as when recording.
    fn post_of(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.get(call.comm()).number;
        call.post(origin.site, communicator)
    }

    /// Whether it is this thread's turn; always, unless threads call MPI concurrently.
    fn has_turn(&self, origin: Origin, key: u64) -> bool {
        !thread_level::is_multiple() || self.replayer.turn(origin.stream, key) == Turn::Go
    }

    fn took_turn(&mut self, key: u64) {
        if thread_level::is_multiple() {
            self.replayer.took_turn(key);
        }
    }
}

/// Adds the name of a call site.
pub fn note_site(site: u64, name: &str) {
    REPLAYING.with(|state| state.names.note(site, name));
}

fn facts() -> Vec<(String, String)> {
    let facts = String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default();
    let pair = |line: &str| Some(line.split_once(' ')?).map(|(a, b)| (a.to_owned(), b.to_owned()));
    facts.lines().filter_map(pair).collect()
}

/// Starts the replay, when MPI is initialized with `size` ranks.
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
    replayer.expect_collectives();
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
        pending_comms: Map::default(),
        early_messages: EarlyMessages::default(),
        redelivery,
        matched: Map::default(),
        freed: Vec::new(),
        entered: HashMap::new(),
        waiting_in: HashMap::new(),
        names,
        calls: HashMap::new(),
        polls: 0,
        until: stop::until(),
    });
}

/// Lets MPI make progress, and answers other processes.
pub fn pump() {
    REPLAYING.with(Replaying::pump);
}

/// Ends the replay, before MPI is finalized. Answers the queries of other processes until all have come here.
pub fn end() {
    if !REPLAYING.is_present() {
        return;
    }
    if let Some(board) = board::get() {
        board.set_state(State::Finalizing, "");
    }
    let barrier = REPLAYING.with(|state| {
        state.replayer.all_ended();
        state.send_notes();
        state.channel.barrier()
    });
    if let Some(Some(mut request)) = barrier {
        let ignore = mpi::status_ignore() as usize;
        loop {
            pump();
            let mut flag: c_int = 0;
            let words = [&raw mut request as usize, &raw mut flag as usize, ignore];
            // SAFETY: the agent's request, an int, and no status.
            let result = unsafe { mpi::call(table::MPI_Test, &words) };
            if result != 0 || flag != 0 {
                break;
            }
            std::thread::yield_now();
        }
    }
    let Some(state) = REPLAYING.take() else { return };
    for (mut request, held) in state.requests.iter() {
        let is_held = matches!(held, Pending::Receive(held) if held.ticket.is_some());
        if is_held {
            let address = &raw mut request as usize;
            // SAFETY: a receive on the agent's communicator, to which nothing is sent.
            unsafe {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Request_free, &[address]);
            }
        }
    }
    let Replaying { replayer, names, channel, redelivery, calls, .. } = state;
    channel.close(|_, _| {});
    redelivery.close();
    if let Err(Stop::Diverged(divergence)) = replayer.finish() {
        let name = |site: u64| names.name(site).unwrap_or_else(|| format!("{site:#x}"));
        let text = divergence.text(name);
        stop::abort(stop::DIVERGED, &format!("diverged at MPI_Finalize: {text}"));
    }
    if !stop::is_record_complete() {
        let calls = calls.get(&thread::this().stream()).copied();
        stop::record_ends_at_finalize(calls.unwrap_or(0));
    }
}

/// Asks the record. If it has no answer, the job is aborted.
fn ask<R>(stream: u32, what: impl FnOnce(&mut Replaying) -> Result<R, Stop>) -> R {
    let answer = REPLAYING.with(|state| {
        let answer = what(state);
        state.send_notes();
        answer.map_err(|stop| {
            let text = match &stop {
                Stop::Diverged(divergence) => divergence.text(|site| state.name(site)),
                _ => String::new(),
            };
            (text, state.calls.get(&stream).copied().unwrap_or(0), stop)
        })
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

/// Asks the record repeatedly, until there is an answer.
fn ask_until<R>(
    stream: u32,
    waits_for: impl Fn() -> String,
    mut what: impl FnMut(&mut Replaying) -> Result<Option<R>, Stop>,
) -> R {
    let mut waiting = Waiting::new(waits_for);
    loop {
        let answer = ask(stream, |state| {
            state.pump();
            what(state)
        });
        match answer {
            Some(answer) => return answer,
            None => waiting.again(),
        }
    }
}

/// The recorded value of a clock or a random number.
pub fn value(thread: &Thread, which: u8) -> Option<u64> {
    let stream = thread.stream();
    REPLAYING.is_present().then(|| ask(stream, |state| state.replayer.value(stream, which)))
}

/// Whether a replay is in progress.
pub fn is_on() -> bool {
    REPLAYING.is_present()
}

/// Whether it is a thread's turn to acquire a lock of the program. Also answers other processes.
pub fn turn_of_lock(stream: u32) -> Turn {
    let turn = REPLAYING.with(|state| {
        state.pump();
        state.replayer.turn(stream, turn_key::of_locks())
    });
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
    let origin = super::origin(&call, thread);
    thread.set_current_call(Some((call.role.function, origin.site)));
    if let Act::Complete(kind) = call.role.act
        && kind.polls()
        && known_to_fail(origin, kind)
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

/// How many polls may fail at once before the agent receives notes again.
const POLLS_PER_PUMP: u32 = 32;

/// Whether a poll is known to fail.
fn known_to_fail(origin: Origin, kind: Kind) -> bool {
    let fails = |state: &mut Replaying| {
        state.polls = state.polls.wrapping_add(1);
        if state.polls.is_multiple_of(POLLS_PER_PUMP) {
            state.pump();
        }
        state.replayer.poll_fails(origin.stream, kind, origin.site)
    };
    REPLAYING.with(fails) == Some(true)
}

/// Waits for the recorded outcome of a completing call; waits for a debugger if this call is the one to stop at.
fn decide(origin: Origin, kind: Kind, count: u32, tickets: &[Option<Ticket>]) -> Decided {
    let call = Call { kind, site: origin.site, count };
    let what = || format!("{kind} at {}, until its messages are certain", name(origin));
    let (decided, held) = ask_until(origin.stream, what, |state| {
        let decided = match state.replayer.call(origin.stream, &call, tickets)? {
            Answer::Later => return Ok(None),
            Answer::Fail => return Ok(Some((Decided::Fail, None))),
            Answer::Undefined => Decided::Undefined,
            Answer::All(deliveries) => Decided::All(deliveries.to_vec()),
            Answer::These(deliveries) => Decided::These(deliveries.to_vec()),
        };
        let calls = state.calls.entry(origin.stream).or_default();
        let position = *calls;
        *calls += 1;
        let due = state.until == Some((origin.stream, position));
        let held =
            due.then(|| format!("at call {position}, {kind} at {}", state.name(origin.site)));
        Ok(Some((decided, held)))
    });
    if let Some(held) = held {
        stop::hold_for_debugger(&held);
    }
    decided
}

/// The name of the call site of an origin.
fn name(origin: Origin) -> String {
    REPLAYING.with(|state| state.name(origin.site)).unwrap_or_default()
}

/// Waits until a request is complete, but does not free it.
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

/// Sets the source and tag of a status to those of the delivered message.
fn set_envelope(status: Statuses, from: Option<Envelope>) {
    let Some(from) = from.filter(|_| status as usize != abi().status_ignore) else { return };
    let layout = &mpi::layout().status;
    // SAFETY: a status of the program; its fields are ints.
    unsafe {
        status.add(layout.source).cast::<c_int>().write_unaligned(from.source);
        status.add(layout.tag).cast::<c_int>().write_unaligned(from.tag);
    }
}

/// The result of a receive after its message was delivered: not every MPI reports truncation of messages to the own
/// process.
fn outcome(error: c_int, delivered: Option<Delivered>, status: Statuses) -> c_int {
    match delivered {
        Some(delivered) if delivered.truncated && error == 0 => {
            if status as usize != abi().status_ignore {
                let words = [status as usize, mpi::byte(), delivered.bytes];
                // SAFETY: a status of the program.
                unsafe { mpi::call(table::MPI_Status_set_elements_x, &words) };
            }
            mpi::layout().err_truncate
        }
        _ => error,
    }
}

/// Raises the error of a delivered receive on the program's communicator.
fn call_errhandler(comm: usize, error: c_int) -> c_int {
    if error != 0 {
        // SAFETY: a communicator of the program, and an error code of MPI.
        unsafe { mpi::call(table::MPI_Comm_call_errhandler, &[comm, error as usize]) };
    }
    error
}
