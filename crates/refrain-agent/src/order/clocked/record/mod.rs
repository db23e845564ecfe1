//! Recording by clocks: MPI decides; what it decided is told, with the clocks of messages.
//!
//! The encoder has a thread of its own behind a bounded queue: a call pays for events that are put
//! there, and waits only if the encoder cannot keep up. Nothing is dropped.

mod collective;
mod complete;
mod receive;
mod send;

use crate::inside::process::{Quiet, Uncancelled};
use crate::inside::reserve::has_memory;
use crate::table;
use refrain_order::clock::Note;
use refrain_order::clock::Recorder;
use refrain_order::clock::background::Background;
use refrain_order::clock::event::{Event, Sink};
use refrain_order::clock::record::CLOCK_LINE;
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording as _, Stamp, Sums,
    Ticket,
};
use std::collections::HashMap;
use std::ffi::c_int;
use std::io;
use std::time::{Duration, Instant};

use super::super::files::{self, unsupported};
use super::super::guarded::{Guarded, Missed};
use super::super::mpi::{self, Status};
use super::super::requests::{Map, Requests};
use super::super::role::{Act, Hooked, Origin};
use super::super::thread::Thread;
use super::super::{error_field, lifetime, line, mpi::status_ignore};
use super::collectives::Gathering;
use super::comms::{Comm, Comms};
use super::wire::{Channel, Word};
use super::{Target, is_from_somebody};

static RECORDING: Guarded<Recording> = Guarded::new(missed);

/// Something could not be told. Others count on the clocks of this process, so it goes on.
fn missed(why: Missed) {
    files::note_cut(why.cuts_record());
}

/// What is recorded of this process.
struct Recording {
    me: u32,
    recorder: Recorder<Events>,
    channel: Channel,
    comms: Comms,
    requests: Requests<Pending>,
    /// Communicators that are being made: where their handles will be, by request.
    unborn: Map<(usize, Comm)>,
    /// Receives that MPI may be asked about, also those that the program let go of.
    asked: HashMap<Ticket, usize>,
    /// Those that it let go of.
    orphans: Vec<usize>,
    sums: Sums,
    /// When a chunk was last sealed.
    sealed: Instant,
}

/// A request that is more than one of MPI's.
enum Pending {
    Receive(Receive),
    /// A send that can be started.
    Send(Target),
    /// The program completes it itself.
    Generalized,
    /// A collective operation, with the request of the search for the greatest clock.
    Collective(Gathering, Option<Box<Search>>),
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// While it is active.
    ticket: Option<Ticket>,
    post: Post,
    persistent: bool,
    cancelled: bool,
}

/// A search for the greatest clock. MPI knows where it is, so it stays there.
struct Search {
    own: u64,
    greatest: u64,
    request: usize,
}

/// A chunk is sealed after so long, so that little is lost if the process is killed.
const SEAL: Duration = Duration::from_secs(1);
/// The time is looked at every so many failed polls.
const LOOK: u32 = 1 << 6;

/// Where this is set, clocks go with messages and nothing is kept: so it is measured what they cost.
const CLOCKS_ONLY: &str = "REFRAIN_CLOCKS_ONLY";

/// Chunks in the file of this rank.
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

/// After so many events it is asked whether there is memory for more.
const ASK_EVERY: u32 = 1 << 13;

/// Where events go.
enum Events {
    /// To the encoder's thread; so many have gone there.
    Encoded(Background, u32),
    /// Nowhere, as there could be no such thread. Clocks go with messages all the same: others
    /// need them.
    Lost,
}

impl Sink for Events {
    fn put(&mut self, event: Event) {
        let Events::Encoded(background, count) = self else { return };
        background.put(event);
        *count = count.wrapping_add(1);
        if count.is_multiple_of(ASK_EVERY) && !has_memory(files::SPARE) {
            files::note_cut(files::NO_MEMORY);
            // To end the thread would mean to encode the rest.
            std::mem::forget(std::mem::replace(self, Events::Lost));
        }
    }

    fn is_full(&self) -> bool {
        false
    }

    fn drain(&mut self, _out: &mut Vec<u8>) {}
}

/// MPI has begun, with so many ranks.
pub fn start(rank: c_int, size: c_int) {
    // Whatever happens, all ranks have to open it.
    let Some(channel) = Channel::open(size as usize) else { return };
    files::introduce(size);
    files::note("method clock");
    if line::is_shared() {
        // Blocking completions poll then, by other functions than the program calls.
        let comm = lifetime::own_comm();
        error_field::learn(mpi::handle(comm));
        lifetime::free_own_comm(comm);
    }
    // The thread inherits that signals are blocked: they are the program's.
    let _quiet = Quiet::keep();
    let events = match std::env::var_os(CLOCKS_ONLY) {
        Some(_) => Events::Lost,
        None => Background::start(Chunks).map_or(Events::Lost, |to| Events::Encoded(to, 0)),
    };
    let mut comms = Comms::default();
    comms.get(mpi::handle(crate::inside::process::abi().comm_world));
    RECORDING.put(Recording {
        me: rank as u32,
        recorder: Recorder::with(rank as u32, events),
        channel,
        comms,
        requests: Requests::default(),
        unborn: Map::default(),
        asked: HashMap::new(),
        orphans: Vec::new(),
        sums: Sums::default(),
        sealed: Instant::now(),
    });
}

/// MPI is about to end.
pub fn end() {
    let Some(own) = RECORDING.take() else { return };
    let _uncancelled = Uncancelled::keep();
    let Recording { recorder, channel, orphans, sums, .. } = own;
    for mut request in orphans {
        let (address, mut flag, ignore) = (&raw mut request as usize, 0, status_ignore() as usize);
        // SAFETY: a request that the program let go of. It may have been cancelled before, and not
        // every MPI survives it a second time.
        unsafe {
            mpi::call(table::MPI_Test, &[address, &raw mut flag as *mut c_int as usize, ignore]);
            if flag == 0 {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Wait, &[address, ignore]);
            }
        }
    }
    channel.close(|_, _| {});
    // The encoder's thread alone knows how many bytes values took.
    let Sums { receives, calls, polls, values, .. } = sums;
    let written = match recorder.close() {
        Events::Encoded(background, _) => background.finish().is_ok(),
        Events::Lost => false,
    };
    match written {
        true => {
            files::note(&format!("sums {receives} {calls} {polls} {values} 0"));
            files::note("finalized");
        }
        false => files::note_cut(files::NO_ROOM),
    }
}

/// A clock was read.
pub fn value(thread: &Thread, which: u8, bits: u64) {
    let stream = thread.stream();
    RECORDING.with(|own| {
        own.sums.values += 1;
        own.recorder.value(stream, which, bits);
    });
}

/// A thread has got a lock of the program's own.
pub fn took_lock(thread: &Thread) {
    let stream = thread.stream();
    RECORDING.with(|own| own.recorder.turn(stream, line::of_locks()));
}

/// A call that is the program's.
pub fn call(call: Hooked<'_>, thread: &Thread) -> c_int {
    if !RECORDING.is_there() {
        return call.forward();
    }
    let origin = super::origin(&call, thread);
    if origin.stream > 0 && !line::is_shared() {
        unsupported("the order of threads that call MPI one after the other");
    }
    RECORDING.with(Recording::listen);
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
            unsupported(table::NAMES.get(call.role.function).copied().unwrap_or_default());
            call.forward()
        }
        Act::Begin | Act::End | Act::Other => call.forward(),
    }
}

impl Recording {
    /// Takes in what was told.
    fn listen(&mut self) {
        // What MPI does meanwhile may be a cancellation point, which the program's call need not be.
        let _uncancelled = Uncancelled::keep();
        while let Some((from, word)) = self.channel.hear() {
            if let Word::Note(note) = word {
                self.recorder.hear(from, &note);
            }
        }
    }

    /// The receive that a call posts.
    fn wanted(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.get(call.comm()).number;
        call.post(origin.site, communicator)
    }

    /// Where threads share MPI: takes a origin in line.
    fn take_turn(&mut self, origin: Origin, key: u64) {
        if line::is_shared() {
            self.recorder.turn(origin.stream, key);
        }
    }

    /// The clock, in turn where threads share it.
    fn clock(&mut self, stream: u32) -> &mut refrain_order::clock::Lamport {
        if line::is_shared() {
            self.recorder.turn(stream, CLOCK_LINE);
        }
        self.recorder.clock()
    }

    /// A message is about to be sent: its clock goes ahead.
    fn stamp(&mut self, origin: Origin, target: Target) {
        let comm = self.comms.get(target.comm);
        let (communicator, source) = (comm.number, comm.rank);
        let Some(to) = comm.process(target.dest) else {
            if comm.is_unsupported {
                unsupported("messages to processes of other worlds");
            }
            return;
        };
        let tag = target.tag;
        self.take_turn(origin, line::key_of_sends(communicator, target.dest, tag));
        let post = Post { site: 0, communicator, source: Some(0), tag: Some(tag) };
        let ticket = self.recorder.post(origin.stream, &post);
        let Some(Stamp { clock, .. }) = self.recorder.stamp(ticket, to) else { return };
        let note = Note::Sent { clock, communicator, source, tag };
        match to == self.me {
            true => self.recorder.hear(to, &note),
            false => self.channel.tell(to, Word::Note(note)),
        }
        self.seal_in_time();
    }

    /// What has become of a receive that was posted earlier: it has taken a message.
    fn learn(&mut self, ticket: Ticket) {
        let Some(request) = self.asked.get(&ticket).copied() else {
            self.recorder.learn(ticket, MatchResult::Never);
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
                self.recorder.learn(ticket, match_result);
                return;
            }
            self.listen();
            std::thread::yield_now();
        }
    }

    /// The stamp of the message that a receive got, or a probe found.
    fn stamp_of(&mut self, ticket: Option<Ticket>, comm: u32, from: Envelope) -> Option<Stamp> {
        for earlier in self.recorder.unknown(ticket, comm, from) {
            self.learn(earlier);
        }
        let mut began = None;
        loop {
            let stamp = self.recorder.stamp_of(ticket, comm, from);
            if stamp.is_some() {
                return stamp;
            }
            // It was sent before the message.
            self.listen();
            if began.get_or_insert_with(Instant::now).elapsed() > LOST {
                unsupported("messages without a clock");
                return None;
            }
        }
    }

    /// A receive of the program's has received that.
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

    /// A matching call has succeeded.
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
            self.asked.remove(&one.ticket);
        }
        self.seal_in_time();
    }

    /// A matching call has found nothing.
    fn failed(&mut self, origin: Origin, kind: Kind) {
        self.sums.polls += 1;
        self.recorder.failed(origin.stream, kind, origin.site);
        if self.sums.polls.is_multiple_of(LOOK.into()) {
            self.seal_in_time();
        }
    }

    fn seal_in_time(&mut self) {
        if self.sealed.elapsed() > SEAL {
            self.sealed = Instant::now();
            // What is encoded goes to the file by itself.
            self.recorder.seal(&mut Vec::new());
        }
    }
}

/// A clock that was sent before a message that has come does not take so long.
const LOST: Duration = Duration::from_secs(60);

/// The match result of a receive without wildcards, or what a status says.
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
