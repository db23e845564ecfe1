//! Recording: lets MPI decide, and records its choices.

mod complete;
mod concurrent;
mod receive;

pub use complete::consumes;

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use crate::inside::process::Uncancelled;
use crate::inside::reserve::has_memory;
use crate::table;
use refrain_order::causal::record::Pending;
use refrain_order::{
    Call, Completed, Envelope, Kind, Log, MatchResult, Post, Recorder, Sums, Ticket,
};
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::files::{self, note_unsupported};
use super::guarded::{Guarded, LockUnavailable};
use super::locks;
use super::mpi::{self, Status};
use super::requests::{Comms, Map, Requests};
use super::role::{Act, Hooked, Origin};
use super::thread::Thread;
use super::thread_level;
use super::turn_key;
use super::unobserved::{Posted, UnobservedReceives};

/// Words of the window for events that are not sealed. Sealing half of it takes at most a third of a millisecond.
const WINDOW: usize = 1 << 16;

static RECORDING: Guarded<Recording> = Guarded::new(lock_unavailable);

/// Whether a status that the program ignores may be needed: a nonblocking wildcard receive was posted, or an
/// operation was cancelled.
static STATUSES_MATTER: AtomicBool = AtomicBool::new(false);

/// The stack pointer of the completing call that is being forwarded, or 0. Not used with
/// `MPI_THREAD_MULTIPLE`. It stays set if an error handler leaves the call by `longjmp`.
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
    /// With `MPI_THREAD_MULTIPLE`: the turn keys of persistent sends, by request.
    send_keys: Map<u64>,
    unobserved: UnobservedReceives,
    /// A completing call was left by `longjmp`. It is not known which requests still exist, so MPI is asked about
    /// none.
    has_lost_requests: bool,
}

/// A receive that completes later.
#[derive(Clone, Copy)]
struct Receive {
    /// Its ticket, while it is active.
    ticket: Option<Ticket>,
    post: Post,
    /// Its position in posting order.
    posted: Posted,
    /// It is persistent.
    persistent: bool,
    /// The program has tried to cancel it.
    cancelled: bool,
}

/// The sequence number of a message that was observed without a nonblocking receive: all pending receives were
/// posted earlier.
const LAST: u64 = u64::MAX;

impl Recording {
    #[inline(always)]
    fn post(&mut self, stream: u32, post: &Post) -> Ticket {
        self.make_room(0);
        self.log.post(stream, post)
    }

    /// Records a match result. `request` is the index of the request in the call that is recorded next, if
    /// that call completes it.
    #[inline(always)]
    fn resolve(&mut self, ticket: Ticket, match_result: MatchResult, request: Option<u32>) {
        self.make_room(0);
        match request {
            Some(index) => self.log.complete(ticket, match_result, index),
            None => self.log.resolve(ticket, match_result),
        }
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

    /// A call with more indices than fit into the log. Pending receives are sealed too: such calls may fill whole
    /// blocks, and a replay looks only one block ahead for the match of a receive.
    #[cold]
    fn matched_many(&mut self, stream: u32, call: &Call, completed: Completed<'_>) {
        self.seal();
        if self.ended {
            return;
        }
        self.recorder.matched(stream, call, completed);
        self.seal();
    }

    /// Seals the events in the log, including pending receives.
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

    /// Seals the events in the log; pending receives stay in the log.
    #[cold]
    fn flush(&mut self) {
        let _uncancelled = Uncancelled::keep();
        if !has_memory(files::SPARE) {
            return self.end(files::NO_MEMORY);
        }
        self.resolve_orphans();
        self.apply_log();
        let mut frames = Vec::new();
        let pending = self.recorder.seal_settled(&mut frames);
        self.write(&frames, &pending);
    }

    /// Applies the events in the log to the recorder.
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
            self.end(files::no_room());
        }
    }

    /// Truncates the record here. The file and the window stay as they are; nothing more is recorded.
    #[cold]
    fn end(&mut self, why: &CStr) {
        self.ended = true;
        RECORDING.close();
        files::note_truncated(why);
    }

    /// Asks MPI for the match results of receives that the program freed.
    fn resolve_orphans(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.retain_mut(|(request, ticket, posted)| {
            let mut status = Status::new();
            let mut flag: c_int = 0;
            // SAFETY: a request that only the agent has now, an int and a status.
            let result = unsafe {
                let words =
                    [&raw mut *request as usize, &raw mut flag as usize, status.address() as usize];
                mpi::call(table::MPI_Test, &words)
            };
            let is_done = result != 0 || flag != 0;
            if is_done {
                self.unobserved.observed(*posted);
                if receive::has_status(result) {
                    self.settle_status(*ticket, true, status.address(), None);
                }
            }
            !is_done
        });
        self.orphans = orphans;
    }

    /// Records the match result of a complete operation, from its status; `request` as in
    /// [`Recording::resolve`].
    #[inline(always)]
    fn settle_status(
        &mut self,
        ticket: Ticket,
        cancelled: bool,
        status: Statuses,
        request: Option<u32>,
    ) -> Option<MatchResult> {
        // SAFETY: MPI has filled that status in.
        let match_result = unsafe {
            match cancelled && mpi::is_cancelled(status) {
                true => MatchResult::Cancelled,
                false => MatchResult::Matched(mpi::envelope(status)?),
            }
        };
        if ticket.wild || match_result == MatchResult::Cancelled {
            self.resolve(ticket, match_result, request);
        }
        Some(match_result)
    }

    /// A message was observed. Receives that were posted earlier and accept it have matched earlier messages:
    /// records those matches.
    #[inline(always)]
    fn observed(&mut self, sequence: u64, communicator: u32, match_result: Option<MatchResult>) {
        if let Some(MatchResult::Matched(from)) = match_result
            && self.unobserved.has_earlier(sequence)
            && !thread_level::is_multiple()
            && !self.has_lost_requests
        {
            for (ticket, match_result) in
                self.unobserved.observe_earlier(sequence, communicator, from)
            {
                self.resolve(ticket, match_result, None);
            }
        }
    }

    /// Requests are complete and perhaps freed: MPI must not be asked about them.
    fn forget_unobserved(&mut self, handles: impl Iterator<Item = usize>) {
        if !self.unobserved.is_empty() {
            for handle in handles {
                if let Some(receive) = self.requests.get(handle) {
                    self.unobserved.observed(receive.posted);
                }
            }
        }
    }

    /// Records the match result of a request that is complete, and whose status is `statuses[at]`. `request` is
    /// its index in the call, if the call frees it.
    #[inline(always)]
    fn settle(
        &mut self,
        (handle, receive): (usize, Receive),
        statuses: Option<Statuses>,
        at: usize,
        request: Option<u32>,
    ) {
        let Receive { ticket, post, posted, persistent, cancelled } = receive;
        // A consumed request was removed from the table: another one may get its handle.
        if request.is_some() && persistent {
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
            let status = statuses.wrapping_add(at * abi().status_bytes);
            match_result = self.settle_status(ticket, cancelled, status, request);
        }
        self.unobserved.observed(posted);
        self.observed(posted.sequence, post.communicator, match_result);
    }

    /// At the end: cancels pending receives. A receive that cannot be cancelled has matched a message.
    fn resolve_pending(&mut self) {
        if self.has_lost_requests {
            return;
        }
        self.resolve_orphans();
        let listed = self.requests.iter().filter_map(|(handle, one)| Some((handle, one.ticket?)));
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
                self.settle_status(ticket, false, status.address(), None);
            }
        }
    }
}

/// An event could not be recorded: the record is truncated there. It is exact up to that point.
fn lock_unavailable(why: LockUnavailable) {
    RECORDING.close();
    files::note_truncated(why.reason_of_truncation());
}

/// Starts recording, when MPI is initialized with `size` ranks.
pub fn start(size: c_int) {
    files::begin_record(size);
    let Some(words) = files::of_rank("log").and_then(|path| files::map(&path, WINDOW)) else {
        files::note_truncated(files::no_room());
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
        send_keys: Map::default(),
        unobserved: UnobservedReceives::default(),
        has_lost_requests: false,
    });
}

/// Ends the record, before MPI is finalized.
pub fn end() {
    if IN_COMPLETION.load(Ordering::Relaxed) != 0 {
        left_completion(usize::MAX);
    }
    let Some(mut recording) = RECORDING.take() else { return };
    let _uncancelled = Uncancelled::keep();
    recording.resolve_pending();
    recording.seal();
    if recording.log.has_lost() || recording.ended {
        files::note_truncated(files::no_room());
        return;
    }
    let Sums { receives, calls, polls, values, value_bytes } = recording.recorder.sums();
    files::note(&format!("sums {receives} {calls} {polls} {values} {value_bytes}"));
    let mut frames = Vec::new();
    let recorder = std::mem::take(&mut recording.recorder);
    recorder.finish(&mut frames);
    recording.write(&frames, &[]);
    match recording.ended {
        true => files::note_truncated(files::no_room()),
        false => files::note("finalized"),
    }
}

/// Records the value of a clock or a random number.
pub fn value(thread: &Thread, which: u8, bits: u64) {
    let stream = thread.stream();
    RECORDING.with(|state| {
        state.make_room(0);
        state.log.value(stream, which, bits);
    });
}

/// Records that a thread has acquired a lock of the program.
pub fn took_lock(thread: &Thread) {
    let stream = thread.stream();
    RECORDING.with(|state| {
        state.make_room(0);
        state.log.turn(stream, turn_key::of_locks());
    });
}

/// A call begins while a completing call is being forwarded. The stack pointer of a callback's call is lower;
/// that is fine. Otherwise an error handler has left the completing call by `longjmp`: some of its requests no
/// longer exist, and it is not known which.
#[cold]
#[inline(never)]
fn left_completion(stack: usize) {
    if !thread_level::is_multiple() && stack > IN_COMPLETION.load(Ordering::Relaxed) {
        IN_COMPLETION.store(0, Ordering::Relaxed);
        RECORDING.with(|state| state.has_lost_requests = true);
        note_unsupported("completing calls that an error handler left by longjmp");
    }
}

/// Whether this process is recording: MPI is initialized and not finalized.
#[inline(always)]
pub fn is_on() -> bool {
    RECORDING.is_present()
}

/// Records a call of the program. `act` is that of the call's role; it is passed separately so that the compiler
/// can treat it as a constant.
#[inline(always)]
pub fn call(call: &mut Hooked<'_>, act: Act, origin: Origin) -> c_int {
    let shared = thread_level::is_multiple();
    if IN_COMPLETION.load(Ordering::Relaxed) != 0 {
        left_completion(call.entry.stack);
    }
    if origin.stream > 0 && !shared && !locks::are_seen() {
        note_unsupported("the order of threads that call MPI one after the other");
    }
    match act {
        Act::Receive(kind) if shared && kind != Kind::Mrecv => {
            concurrent::receive(&mut call.reborrow(), origin, kind)
        }
        Act::Probe(kind) if shared => concurrent::probe(&mut call.reborrow(), origin, kind),
        Act::Send(mode) => concurrent::send(&mut call.reborrow(), origin, mode),
        Act::InitSend => concurrent::init_send(&mut call.reborrow()),
        Act::Receive(kind) => receive::receive(call, origin, kind),
        Act::Post => receive::post(call, origin, shared),
        Act::Init => receive::init(&mut call.reborrow(), origin),
        Act::Start => receive::start_all(&mut call.reborrow(), origin),
        Act::Probe(kind) => receive::probe(call, origin, kind),
        Act::Complete(kind) => complete::complete(call, origin, kind, shared),
        Act::Arrive => complete::arrive(&mut call.reborrow(), origin),
        Act::Cancel => complete::cancel(&mut call.reborrow()),
        Act::Free => complete::free(&mut call.reborrow()),
        Act::FreeComm => complete::free_comm(&mut call.reborrow()),
        Act::Unsupported => {
            note_unsupported(table::NAMES.get(call.role.function).copied().unwrap_or_default());
            call.forward()
        }
        Act::Collective(_) | Act::MakeComm { .. } | Act::UntrackedSync => call.forward(),
        Act::Begin | Act::End | Act::Other | Act::Generalized => call.forward(),
    }
}

impl Recording {
    /// The receive that a call posts.
    #[inline(always)]
    fn post_of(&mut self, call: &Hooked<'_>, origin: Origin) -> Post {
        let communicator = self.comms.number(call.comm());
        call.post(origin.site, communicator)
    }

    /// The message of a receive without wildcards was observed.
    #[inline(always)]
    fn observed_named(&mut self, call: &Hooked<'_>) {
        let communicator = self.comms.number(call.comm());
        let post = call.post(0, communicator);
        if let (Some(source), Some(tag), false) = (post.source, post.tag, call.receives_matched()) {
            self.observed(LAST, communicator, Some(MatchResult::Matched(Envelope { source, tag })));
        }
    }

    #[inline(always)]
    fn succeeded(&mut self, origin: Origin, kind: Kind) {
        let call = Call { kind, site: origin.site, count: 0 };
        self.matched(origin.stream, &call, Completed::All);
    }
}
