//! Recording with the clock method: lets MPI decide, and records the outcomes with the clocks of messages.
//!
//! The encoder runs in its own thread behind a bounded queue: a call only puts its events there, and waits only if the
//! encoder cannot keep up. No event is dropped.

mod collective;
mod complete;
mod receive;
mod send;

use crate::inside::library::abi;
use crate::inside::process::{Quiet, Uncancelled};
use crate::inside::reserve::has_memory;
use crate::table;
use refrain_order::clock::Note;
use refrain_order::clock::Recorder;
use refrain_order::clock::background::Background;
use refrain_order::clock::event::{Event, Sink};
use refrain_order::clock::record::CLOCK_KEY;
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording as _, Stamp, Sums,
    Ticket,
};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::time::{Duration, Instant};

use super::super::files::{self, note_unsupported};
use super::super::guarded::{Guarded, LockUnavailable};
use super::super::mpi::{self, Status};
use super::super::requests::{Map, Requests};
use super::super::role::{Act, Hooked, Origin};
use super::super::thread::Thread;
use super::super::{error_field, lifetime, mpi::status_ignore, thread_level, turn_key};
use super::collectives::Collective;
use super::comms::{Comm, Comms};
use super::wire::{Channel, Message};
use super::{Target, has_source};

static RECORDING: Guarded<Recording> = Guarded::new(lock_unavailable);

/// An event could not be recorded. Recording continues, because other processes need the clocks of this one.
fn lock_unavailable(why: LockUnavailable) {
    files::note_truncated(why.reason_of_truncation());
}

/// The state of the recording in this process.
struct Recording {
    me: u32,
    recorder: Recorder<Events>,
    channel: Channel,
    comms: Comms,
    requests: Requests<Pending>,
    /// Communicators that are being made, and the addresses of their handles, by request.
    pending_comms: Map<(usize, Comm)>,
    /// Requests of active receives, about which MPI can be asked; including those that the program freed.
    active: HashMap<Ticket, usize>,
    /// Receives that the program freed while they were active.
    orphans: Vec<usize>,
    sums: Sums,
    /// When a chunk was last sealed.
    sealed: Instant,
}

/// A request that the agent tracks.
enum Pending {
    Receive(Receive),
    /// A persistent send.
    Send(Target),
    /// A generalized request.
    Generalized,
    /// A collective operation, with the reduction of the clocks.
    Collective(Collective, Option<Box<ClockReduction>>),
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// Its ticket, while it is active.
    ticket: Option<Ticket>,
    post: Post,
    persistent: bool,
    cancelled: bool,
}

/// A reduction for the maximum of the clocks. MPI has its address, so it must not move.
struct ClockReduction {
    clock: u64,
    maximum: u64,
    request: usize,
}

/// A chunk is sealed at least this often, so that little is lost if the process is killed.
const SEAL_INTERVAL: Duration = Duration::from_secs(1);
/// How many failed polls there are between two looks at the time.
const POLLS_PER_LOOK: u32 = 1 << 6;

/// If this environment variable is set, messages carry clocks but nothing is recorded: for measuring the cost of
/// piggybacks.
const CLOCKS_ONLY: &str = "REFRAIN_CLOCKS_ONLY";

/// Writes chunks to the file of this rank.
struct Chunks;

impl io::Write for Chunks {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        match files::append("order", chunk) {
            true => Ok(chunk.len()),
            false => Err(io::Error::other("a chunk was not written")),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many events there are between two checks for memory.
const EVENTS_PER_MEMORY_CHECK: u32 = 1 << 13;

/// The sink of events.
enum Events {
    /// The encoder's thread, and the number of events so far.
    Encoded(Background, u32),
    /// Events are discarded, because the thread could not be started or memory ran out. Messages still carry clocks:
    /// other processes need them.
    Discarded,
}

impl Sink for Events {
    fn put(&mut self, event: Event) {
        let Events::Encoded(background, count) = self else { return };
        background.put(event);
        *count = count.wrapping_add(1);
        if count.is_multiple_of(EVENTS_PER_MEMORY_CHECK) && !has_memory(files::SPARE) {
            files::note_truncated(files::NO_MEMORY);
            // Ending the thread would encode the rest, which takes memory.
            std::mem::forget(std::mem::replace(self, Events::Discarded));
        }
    }

    fn is_full(&self) -> bool {
        false
    }

    fn drain(&mut self, _out: &mut Vec<u8>) {}
}

/// Starts recording, when MPI is initialized with `size` ranks.
pub fn start(rank: c_int, size: c_int) {
    // Opening is collective: every rank has to do it first, whatever fails later.
    let Some(channel) = Channel::open(size as usize) else { return };
    files::begin_record(size);
    files::note("method clock");
    if thread_level::is_multiple() {
        // Blocking completing calls then poll with other functions than the program called.
        let comm = lifetime::private_comm();
        error_field::learn(mpi::handle(comm));
        lifetime::free_private_comm(comm);
    }
    // The encoder's thread inherits the blocked signals: signals must go to the program's threads.
    let _quiet = Quiet::keep();
    let events = match std::env::var_os(CLOCKS_ONLY) {
        Some(_) => Events::Discarded,
        None => Background::start(Chunks).map_or(Events::Discarded, |to| Events::Encoded(to, 0)),
    };
    let mut comms = Comms::default();
    comms.get(mpi::handle(abi().comm_world));
    RECORDING.put(Recording {
        me: rank as u32,
        recorder: Recorder::with(rank as u32, events),
        channel,
        comms,
        requests: Requests::default(),
        pending_comms: Map::default(),
        active: HashMap::new(),
        orphans: Vec::new(),
        sums: Sums::default(),
        sealed: Instant::now(),
    });
}

/// Ends the record, before MPI is finalized.
pub fn end() {
    let Some(state) = RECORDING.take() else { return };
    let _uncancelled = Uncancelled::keep();
    let Recording { recorder, channel, orphans, sums, .. } = state;
    for mut request in orphans {
        let (address, mut flag, ignore) = (&raw mut request as usize, 0, status_ignore() as usize);
        // SAFETY: a request that the program freed. It may be cancelled already, and not every MPI survives a second
        // MPI_Cancel, so it is tested first.
        unsafe {
            mpi::call(table::MPI_Test, &[address, &raw mut flag as *mut c_int as usize, ignore]);
            if flag == 0 {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Wait, &[address, ignore]);
            }
        }
    }
    channel.close(|_, _| {});
    // Only the encoder's thread knows how many bytes values took.
    let Sums { receives, calls, polls, values, .. } = sums;
    let written = match recorder.close() {
        Events::Encoded(background, _) => background.finish().is_ok(),
        Events::Discarded => false,
    };
    match written {
        true => {
            files::note(&format!("sums {receives} {calls} {polls} {values} 0"));
            files::note("finalized");
        }
        false => files::note_truncated(files::no_room()),
    }
}

/// Records the value of a clock or a random number.
pub fn value(thread: &Thread, which: u8, bits: u64) {
    let stream = thread.stream();
    RECORDING.with(|state| {
        state.sums.values += 1;
        state.recorder.value(stream, which, bits);
    });
}

/// Records that a thread has acquired a lock of the program.
pub fn took_lock(thread: &Thread) {
    let stream = thread.stream();
    RECORDING.with(|state| state.recorder.turn(stream, turn_key::of_locks()));
}

/// Records a call of the program.
pub fn call(call: Hooked<'_>, thread: &Thread) -> c_int {
    if !RECORDING.is_present() {
        return call.forward();
    }
    let origin = super::origin(&call, thread);
    if origin.stream > 0 && !thread_level::is_multiple() {
        note_unsupported("the order of threads that call MPI one after the other");
    }
    RECORDING.with(Recording::receive_notes);
    match call.role.act {
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Post => receive::post(call, origin),
        Act::Init => receive::init(call, origin),
        Act::Start => send::start_all(call, origin),
        Act::Probe(kind) => receive::probe(call, origin, kind),
        Act::Complete(kind) => complete::complete(call, origin, kind),
        Act::Arrive => complete::arrive(call, origin),
        Act::Cancel => complete::cancel(call),
        Act::Free => complete::free(call),
        Act::Generalized => complete::generalized(call),
        Act::Send(mode) => send::send(call, origin, mode),
        Act::InitSend => send::init(call),
        Act::FreeComm => collective::free_comm(call),
        Act::MakeComm { parent, new } => collective::make_comm(call, origin, parent, new),
        Act::Collective(synchronization) => collective::collective(call, origin, synchronization),
        Act::Unsupported | Act::UntrackedSync => {
            note_unsupported(table::NAMES.get(call.role.function).copied().unwrap_or_default());
            call.forward()
        }
        Act::Begin | Act::End | Act::Other => call.forward(),
    }
}

impl Recording {
    /// Receives the notes that have arrived.
    fn receive_notes(&mut self) {
        // MPI may pass a cancellation point here, which the program's call need not have.
        let _uncancelled = Uncancelled::keep();
        while let Some((from, message)) = self.channel.receive() {
            if let Message::Note(note) = message {
                self.recorder.receive_note(from, &note);
            }
        }
    }

    /// The receive that a call posts.
    fn post_of(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.get(call.comm()).number;
        call.post(origin.site, communicator)
    }

    /// With `MPI_THREAD_MULTIPLE`: records a turn.
    fn take_turn(&mut self, origin: Origin, key: u64) {
        if thread_level::is_multiple() {
            self.recorder.turn(origin.stream, key);
        }
    }

    /// The clock; with `MPI_THREAD_MULTIPLE`, records a turn for it.
    fn clock(&mut self, stream: u32) -> &mut refrain_order::clock::Lamport {
        if thread_level::is_multiple() {
            self.recorder.turn(stream, CLOCK_KEY);
        }
        self.recorder.clock()
    }

    /// A message is about to be sent: sends the note with its clock first.
    fn stamp(&mut self, origin: Origin, target: Target) {
        let comm = self.comms.get(target.comm);
        let (communicator, source) = (comm.number, comm.rank);
        let Some(to) = comm.process(target.dest) else {
            if comm.is_unsupported {
                note_unsupported("messages to processes of other worlds");
            }
            return;
        };
        let tag = target.tag;
        self.take_turn(origin, turn_key::of_sends_to(communicator, target.dest, tag));
        let post = Post { site: 0, communicator, source: Some(0), tag: Some(tag) };
        let ticket = self.recorder.post(origin.stream, &post);
        let Some(Stamp { clock, .. }) = self.recorder.stamp(ticket, to) else { return };
        let note = Note::Sent { clock, communicator, source, tag };
        match to == self.me {
            true => self.recorder.receive_note(to, &note),
            false => self.channel.send(to, Message::Note(note)),
        }
        self.seal_in_time();
    }

    /// Waits for the match result of a receive that was posted earlier and must have been matched.
    fn observe(&mut self, ticket: Ticket) {
        let Some(request) = self.active.get(&ticket).copied() else {
            self.recorder.observe(ticket, MatchResult::Never);
            return;
        };
        loop {
            let (mut status, mut flag) = (Status::new(), 0 as c_int);
            let words = [request, &raw mut flag as usize, status.address() as usize];
            // SAFETY: a request that is active, an int and a status.
            let match_result = unsafe {
                let result = mpi::call(table::MPI_Request_get_status, &words);
                match (result, flag, mpi::envelope(status.address())) {
                    (0, 0, _) => None,
                    (0, _, _) if mpi::is_cancelled(status.address()) => {
                        Some(MatchResult::Cancelled)
                    }
                    (0, _, Some(from)) => Some(MatchResult::Matched(from)),
                    _ => Some(MatchResult::Never),
                }
            };
            if let Some(match_result) = match_result {
                self.recorder.observe(ticket, match_result);
                return;
            }
            self.receive_notes();
            std::thread::yield_now();
        }
    }

    /// The stamp of the message that a receive got, or a probe found.
    fn stamp_of(&mut self, ticket: Option<Ticket>, comm: u32, from: Envelope) -> Option<Stamp> {
        for earlier in self.recorder.unresolved(ticket, comm, from) {
            self.observe(earlier);
        }
        let mut began = None;
        loop {
            let stamp = self.recorder.stamp_of(ticket, comm, from);
            if stamp.is_some() {
                return stamp;
            }
            // The note was sent before the message, so it arrives soon.
            self.receive_notes();
            if began.get_or_insert_with(Instant::now).elapsed() > NOTE_PATIENCE {
                note_unsupported("messages without a clock");
                return None;
            }
        }
    }

    /// A receive of the program has completed with this match result.
    fn finished(
        &mut self,
        ticket: Ticket,
        comm: u32,
        match_result: MatchResult,
    ) -> Option<Finished> {
        if !self.recorder.is_open(ticket) {
            return None;
        }
        let stamp = match match_result {
            MatchResult::Matched(from) => self.stamp_of(Some(ticket), comm, from),
            _ => None,
        };
        self.sums.receives += u64::from(ticket.wild);
        Some(Finished { ticket, match_result, stamp })
    }

    /// A completing call has succeeded.
    fn succeeded(
        &mut self,
        origin: Origin,
        call: &Call,
        tickets: &[Option<Ticket>],
        completed: Completed<'_>,
        finished: &[Finished],
    ) {
        self.sums.calls += 1;
        self.recorder.completed(origin.stream, call, tickets, completed, finished);
        for one in finished {
            self.active.remove(&one.ticket);
        }
        self.seal_in_time();
    }

    /// A poll has failed.
    fn failed(&mut self, origin: Origin, kind: Kind) {
        self.sums.polls += 1;
        self.recorder.failed(origin.stream, kind, origin.site);
        if self.sums.polls.is_multiple_of(POLLS_PER_LOOK.into()) {
            self.seal_in_time();
        }
    }

    fn seal_in_time(&mut self) {
        if self.sealed.elapsed() > SEAL_INTERVAL {
            self.sealed = Instant::now();
            // The encoder's thread writes to the file.
            self.recorder.seal(&mut Vec::new());
        }
    }
}

/// How long to wait for the note of a message that has arrived; it was sent before the message.
const NOTE_PATIENCE: Duration = Duration::from_secs(60);

/// The match result of a receive: its own source and tag if it has no wildcard, otherwise those of the status.
///
/// # Safety
/// MPI must have filled the status in, if there is one.
unsafe fn match_result(
    post: &Post,
    cancelled: bool,
    status: Option<crate::inside::memory::Statuses>,
) -> MatchResult {
    // SAFETY: the caller's promise.
    unsafe {
        match (status, post.source, post.tag) {
            (Some(status), ..) if cancelled && mpi::is_cancelled(status) => MatchResult::Cancelled,
            (_, Some(source), Some(tag)) => MatchResult::Matched(Envelope { source, tag }),
            (Some(status), ..) => {
                mpi::envelope(status).map_or(MatchResult::Never, MatchResult::Matched)
            }
            _ => MatchResult::Never,
        }
    }
}
