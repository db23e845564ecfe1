//! Recording: lets MPI decide, and records its choices.

mod complete;
mod receive;
mod shared;

pub use complete::consumes;

use crate::inside::memory::Statuses;
use crate::inside::process::{self, Uncancelled};
use crate::inside::reserve::has_memory;
use crate::table;
use refrain_order::causal::record::Pending;
use refrain_order::{
    Call, Completed, Envelope, Kind, Log, MatchResult, Post, Recorder, Sums, Ticket,
};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::files::{self, unsupported};
use super::guarded::{Guarded, Missed};
use super::line;
use super::locks;
use super::mpi::{self, Status};
use super::requests::{Comms, Map, Requests};
use super::role::{Act, Hooked, Origin};
use super::thread::Thread;
use super::unseen::{AllUnseen, Posted};

/// Words of the window in front of the frames. To seal as many of one half as it takes at most when that
/// is slow takes a third of a millisecond.
const WINDOW: usize = 1 << 16;

static RECORDING: Guarded<Recording> = Guarded::new(missed);

/// Whether a status that the program ignores may be needed: a wildcard receive was posted to
/// complete later, or something cancelled.
static STATUSES_MATTER: AtomicBool = AtomicBool::new(false);

/// Where a completing call is forwarded, unless threads share MPI: its stack pointer, or 0. One that an
/// error handler has left by `longjmp` stays here.
static IN_COMPLETION: AtomicUsize = AtomicUsize::new(0);

/// The state of the recording in this process.
struct Recording {
    log: Log<'static>,
    recorder: Recorder,
    /// Bytes of frames in the file.
    written: u64,
    /// Something could not be written: the record is truncated there.
    ended: bool,
    requests: Requests<Receive>,
    comms: Comms,
    /// Receives that the program freed before they were complete.
    orphans: Vec<(usize, Ticket, Posted)>,
    /// With `MPI_THREAD_MULTIPLE`: the lines of persistent sends, by their requests.
    lines: Map<u64>,
    unseen: AllUnseen,
    /// A completing call was left by `longjmp`: it is not known which requests are still there, so MPI
    /// is not asked about any.
    is_blind: bool,
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// Its ticket, while it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// Its position in posting order.
    posted: Posted,
    /// It can be started again.
    persistent: bool,
    /// The program has tried to cancel it.
    cancelled: bool,
}

/// A message was probed for: nothing is posted, and all receives are earlier.
const LAST: u64 = u64::MAX;

impl Recording {
    #[inline(always)]
    fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        self.make_room(0);
        self.log.post(stream, post)
    }

    #[inline(always)]
    fn resolve(&mut self, ticket: Ticket, match_result: MatchResult) {
        self.make_room(0);
        self.log.resolve(ticket, match_result);
    }

    #[inline(always)]
    fn matched(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        let several = if let Completed::These(indices) = completed { indices.len() } else { 0 };
        if !self.log.could_hold(several) {
            return self.matched_many(stream, call, completed);
        }
        self.make_room(several);
        self.log.matched(stream, call, completed);
    }

    /// More than there ever is room for in the log. What is pending is not kept back: of so many there
    /// may be blocks of their own, and a replay looks one block ahead for receives.
    #[cold]
    fn matched_many(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        self.seal();
        if self.ended {
            return;
        }
        self.recorder.matched(stream, call, completed);
        self.seal();
    }

    /// Seals what is in the log, with all that is pending.
    fn seal(&mut self) {
        if !has_memory(files::SPARE) {
            return self.end(files::NO_MEMORY);
        }
        self.apply_log();
        let mut frames = Vec::new();
        self.recorder.seal(&mut frames);
        self.write(&frames, &[]);
    }

    #[inline]
    fn make_room(&mut self, indices: usize) {
        if !self.log.has_room(indices) {
            self.flush();
        }
    }

    /// Seals what is in the log.
    #[cold]
    fn flush(&mut self) {
        let _uncancelled = Uncancelled::keep();
        if !has_memory(files::SPARE) {
            return self.end(files::NO_MEMORY);
        }
        self.ask_orphans();
        self.apply_log();
        let mut frames = Vec::new();
        let pending = self.recorder.seal_settled(&mut frames);
        self.write(&frames, &pending);
    }

    /// Applies what is in the log to the recorder.
    fn apply_log(&mut self) {
        if refrain_order::causal::log::apply(self.log.content(), &mut self.recorder).is_err() {
            self.ended = true;
        }
    }

    fn write(&mut self, frames: &[u8], pending: &[Pending]) {
        if !self.ended && files::append("order", frames) {
            self.written += frames.len() as u64;
            self.log.restart(self.written, pending);
        } else {
            self.end(files::NO_ROOM);
        }
    }

    /// The record ends here. What the file and the window hold stays as it is; what comes is not
    /// recorded any more.
    #[cold]
    fn end(&mut self, why: &CStr) {
        self.ended = true;
        RECORDING.close();
        files::note_cut(why);
    }

    /// Learns the match results of receives that the program freed.
    fn ask_orphans(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.retain_mut(|(request, ticket, posted)| {
            let mut status = Status::new();
            let mut flag: c_int = 0;
            // SAFETY: a request that is ours alone now, an int and a status.
            let result = unsafe {
                let words =
                    [&raw mut *request as usize, &raw mut flag as usize, status.address() as usize];
                mpi::call(table::MPI_Test, &words)
            };
            let is_done = result != 0 || flag != 0;
            if is_done {
                self.unseen.is_seen(*posted);
                if receive::has_status(result) {
                    self.settle_status(*ticket, true, status.address());
                }
            }
            !is_done
        });
        self.orphans = orphans;
    }

    /// Records the match result of a complete operation, from its status.
    #[inline(always)]
    fn settle_status(
        &mut self,
        ticket: Ticket,
        cancelled: bool,
        status: Statuses,
    ) -> Option<MatchResult> {
        // SAFETY: MPI has filled that status in.
        let match_result = unsafe {
            match cancelled && mpi::is_cancelled(status) {
                true => MatchResult::Cancelled,
                false => MatchResult::Matched(mpi::envelope(status)?),
            }
        };
        if ticket.wild || match_result == MatchResult::Cancelled {
            self.resolve(ticket, match_result);
        }
        Some(match_result)
    }

    /// A message was observed: receives posted earlier that would have matched it have matched others.
    #[inline(always)]
    fn seen(&mut self, sequence: u64, communicator: u32, match_result: Option<MatchResult>) {
        if let Some(MatchResult::Matched(from)) = match_result
            && self.unseen.has_earlier(sequence)
            && !line::is_shared()
            && !self.is_blind
        {
            for (ticket, match_result) in self.unseen.earlier(sequence, communicator, from) {
                self.resolve(ticket, match_result);
            }
        }
    }

    /// Requests are complete, and perhaps freed: MPI cannot be asked about them any more.
    fn gone(&mut self, handles: impl Iterator<Item = usize>) {
        if !self.unseen.are_none() {
            for handle in handles {
                if let Some(receive) = self.requests.get(handle) {
                    self.unseen.is_seen(receive.posted);
                }
            }
        }
    }

    /// Records the match result of a request that completed (`consumed`), or is known to be complete.
    #[inline(always)]
    fn settle(
        &mut self,
        (handle, receive): (usize, Receive),
        statuses: Option<Statuses>,
        at: usize,
        consumed: bool,
    ) {
        let Receive { ticket, post, posted, persistent, cancelled } = receive;
        // What completes is taken out before, since others may get the handle.
        if consumed && persistent {
            self.requests.add(handle, Receive { ticket: None, cancelled: false, ..receive });
        }
        let Some(ticket) = ticket else { return };
        let mut match_result = match (post.source, post.tag) {
            (Some(source), Some(tag)) => Some(MatchResult::Matched(Envelope { source, tag })),
            _ => None,
        };
        if let Some(statuses) = statuses
            && (ticket.wild || cancelled)
        {
            let status = statuses.wrapping_add(at * process::abi().status_bytes);
            match_result = self.settle_status(ticket, cancelled, status);
        }
        self.unseen.is_seen(posted);
        self.seen(posted.sequence, post.communicator, match_result);
    }

    /// At the end: cancels what is pending. What cannot be cancelled has matched a message.
    fn ask_pending(&mut self) {
        if self.is_blind {
            return;
        }
        self.ask_orphans();
        let listed = self.requests.iter().filter_map(|(handle, own)| Some((handle, own.ticket?)));
        let mut pending: Vec<(usize, Ticket)> = listed.filter(|(_, ticket)| ticket.wild).collect();
        pending.extend(self.orphans.drain(..).map(|(request, ticket, _)| (request, ticket)));
        for (mut request, ticket) in pending {
            let (mut status, address) = (Status::new(), &raw mut request as usize);
            // SAFETY: a request that was not completed, and a status.
            let result = unsafe {
                mpi::call(table::MPI_Cancel, &[address]);
                mpi::call(table::MPI_Wait, &[address, status.address() as usize])
            };
            // SAFETY: MPI has filled the status in.
            if receive::has_status(result) && !unsafe { mpi::is_cancelled(status.address()) } {
                self.settle_status(ticket, false, status.address());
            }
        }
    }
}

/// An event could not be recorded: the record is truncated there. It is exact up to that point.
fn missed(why: Missed) {
    RECORDING.close();
    files::note_cut(why.cuts_record());
}

/// Starts recording, when MPI is initialised with `size` ranks.
pub fn start(size: c_int) {
    files::introduce(size);
    let Some(words) = files::own("log").and_then(|path| files::map(&path, WINDOW)) else {
        files::note_cut(files::NO_ROOM);
        return;
    };
    RECORDING.put(Recording {
        log: Log::new(words, 0),
        recorder: Recorder::new(),
        written: 0,
        ended: false,
        requests: Requests::default(),
        comms: Comms::default(),
        orphans: Vec::new(),
        lines: Map::default(),
        unseen: AllUnseen::default(),
        is_blind: false,
    });
}

/// Ends the record, before MPI is finalised.
pub fn end() {
    if IN_COMPLETION.load(Ordering::Relaxed) != 0 {
        left_completion(usize::MAX);
    }
    let Some(mut recording) = RECORDING.take() else { return };
    let _uncancelled = Uncancelled::keep();
    recording.ask_pending();
    recording.seal();
    if recording.log.has_lost() || recording.ended {
        files::note_cut(files::NO_ROOM);
        return;
    }
    let Sums { receives, calls, polls, values, value_bytes } = recording.recorder.sums();
    files::note(&format!("sums {receives} {calls} {polls} {values} {value_bytes}"));
    let mut frames = Vec::new();
    let recorder = std::mem::take(&mut recording.recorder);
    recorder.finish(&mut frames);
    recording.write(&frames, &[]);
    match recording.ended {
        true => files::note_cut(files::NO_ROOM),
        false => files::note("finalized"),
    }
}

/// Records the value of a clock or a random number.
pub fn value(thread: &Thread, which: u8, bits: u64) {
    let stream = thread.stream();
    RECORDING.with(|own| {
        own.make_room(0);
        own.log.value(stream, which, bits);
    });
}

/// Records that a thread has acquired a lock of the program.
pub fn took_lock(thread: &Thread) {
    let stream = thread.stream();
    RECORDING.with(|own| {
        own.make_room(0);
        own.log.turn(stream, line::of_locks());
    });
}

/// A call begins while a completing call is forwarded. A call of a callback enters below it, and all is
/// well. Otherwise an error handler has left that one: some of its requests are gone, and it is not
/// known which.
#[cold]
#[inline(never)]
fn left_completion(stack: usize) {
    if !line::is_shared() && stack > IN_COMPLETION.load(Ordering::Relaxed) {
        IN_COMPLETION.store(0, Ordering::Relaxed);
        RECORDING.with(|own| own.is_blind = true);
        unsupported("completing calls that an error handler left by longjmp");
    }
}

/// Whether this process is recording: MPI is initialised and not finalised.
#[inline(always)]
pub fn is_on() -> bool {
    RECORDING.is_there()
}

/// Records a call of the program. `act` is that of the call's role: passed separately, the compiler may know
/// it.
#[inline(always)]
pub fn call(call: &mut Hooked<'_>, act: Act, origin: Origin) -> c_int {
    let shared = line::is_shared();
    if IN_COMPLETION.load(Ordering::Relaxed) != 0 {
        left_completion(call.entry.stack);
    }
    if origin.stream > 0 && !shared && !locks::are_seen() {
        unsupported("the order of threads that call MPI one after the other");
    }
    match act {
        Act::Receive(kind) if shared && kind != Kind::Mrecv => {
            shared::receive(&mut call.lent(), origin, kind)
        }
        Act::Probe(kind) if shared => shared::probe(&mut call.lent(), origin, kind),
        Act::Send(mode) => shared::send(&mut call.lent(), origin, mode),
        Act::InitSend => shared::init_send(&mut call.lent()),
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Post => receive::post(call, origin, shared),
        Act::Init => receive::init(&mut call.lent(), origin),
        Act::Start => receive::start_all(&mut call.lent(), origin),
        Act::Probe(kind) => receive::probe(call, origin, kind),
        Act::Complete(kind) => complete::complete(call, origin, kind, shared),
        Act::Arrive => complete::arrive(&mut call.lent(), origin),
        Act::Cancel => complete::cancel(&mut call.lent()),
        Act::Free => complete::free(&mut call.lent()),
        Act::FreeComm => complete::free_comm(&mut call.lent()),
        Act::Unsupported => {
            unsupported(table::NAMES.get(call.role.function).copied().unwrap_or_default());
            call.forward()
        }
        Act::Collective(_) | Act::MakeComm { .. } | Act::UntrackedSync => call.forward(),
        Act::Begin | Act::End | Act::Other | Act::Generalized => call.forward(),
    }
}

impl Recording {
    /// The receive that a call posts.
    #[inline(always)]
    fn wanted(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.number(call.comm());
        call.post(origin.site, communicator)
    }

    /// The message of a receive without wildcards was seen.
    #[inline(always)]
    fn seen_named(&mut self, call: &Hooked<'_>) {
        let communicator = self.comms.number(call.comm());
        let post = call.post(0, communicator);
        if let (Some(source), Some(tag), false) = (post.source, post.tag, call.takes_known()) {
            self.seen(LAST, communicator, Some(MatchResult::Matched(Envelope { source, tag })));
        }
    }

    #[inline(always)]
    fn succeeded(&mut self, origin: Origin, kind: Kind) {
        let call = Call { kind, site: origin.site, count: 0 };
        self.matched(origin.stream, &call, Completed::All);
    }
}
