//! How a replay waits, and how it ends when it cannot continue.
//!
//! A replay never diverges silently and never hangs: if a wait takes too long and no rank makes progress, the
//! job is aborted with a report of what every rank waits for.

use crate::inside::abandon::Waited;
use crate::inside::library::abi;
use crate::inside::locked::Lazy;
use crate::inside::process::{Quiet, Uncancelled};
use crate::table;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::board::{self, Board, Inside, State};
use super::guarded::LockUnavailable;
use super::{Method, clocked, files, lifetime, method, mpi, thread};

/// Exit code if the program diverged from the record.
pub const DIVERGED: i32 = 94;
/// Exit code if no rank made progress.
pub const STALLED: i32 = 95;
/// Exit code if the record ends before the program.
pub const RECORD_ENDS: i32 = 96;
/// Exit code if there is no usable record.
pub const NO_RECORD: i32 = 97;

/// Writes a line to stderr in one system call. May be called in a signal handler.
pub fn print(text: &str) {
    let (mut room, rank) = ([0; files::DIGITS], files::rank());
    let sign: &[u8] = if rank < 0 { b"-" } else { b"" };
    let rank = files::decimal(rank.unsigned_abs(), &mut room);
    let pieces = [b"refrain: rank ", sign, rank, b": ", text.as_bytes(), b"\n"];
    files::write_pieces(libc::STDERR_FILENO, pieces);
}

/// The time that launchers get to forward the printed line. Some discard output that they have not read when
/// a job is aborted.
const FORWARDING: Duration = Duration::from_millis(200);

/// Seconds that `MPI_Abort` may take. It takes milliseconds, unless it waits for a lock that this
/// thread holds.
const MOST_SECONDS_TO_ABORT: u32 = 30;

/// Aborts the job. The exit code is also written to the facts: not every launcher forwards it.
pub fn abort(code: i32, text: &str) -> ! {
    // With signals blocked, no handler of the program can jump out of this function.
    let _quiet = Quiet::keep();
    print(text);
    let mut room = [0; files::DIGITS];
    files::note_pieces([b"stopped ", files::decimal(code.unsigned_abs(), &mut room), b"\n"]);
    std::thread::sleep(FORWARDING);
    let comm = match lifetime::has_world() {
        true => abi().comm_world,
        false => PRIVATE_COMM.load(Ordering::Relaxed) as usize,
    };
    // SAFETY: MPI is initialized during a replay; the communicator is predefined, or the agent's.
    unsafe {
        // If MPI_Abort hangs, this signal ends the process. A signal that is already pending is discarded.
        let mut alarm = std::mem::zeroed();
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(MOST_SECONDS_TO_ABORT);
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        if comm != 0 {
            mpi::call(table::MPI_Abort, &[comm, code as usize]);
        }
        libc::_exit(code)
    }
}

/// Aborts the job because a call could not be replayed: the program would diverge from the record.
///
/// May be called in a signal handler: up to `MPI_Abort` it makes system calls only. `MPI_Abort` itself is not
/// async-signal-safe. If it waits for a lock of MPI that the interrupted call holds, the alarm that [`abort`]
/// has set ends the process.
pub fn lock_unavailable(why: LockUnavailable) {
    abort(NO_RECORD, why.reason_of_stop());
}

/// How long a replay may make no progress (`--stall`).
fn patience() -> Duration {
    static PATIENCE: Lazy<Duration> = Lazy::new();
    *PATIENCE.get_or_make(|| {
        let text = std::env::var("REFRAIN_STALL").ok();
        let seconds = text.and_then(|text| text.parse().ok()).filter(|s: &f64| *s > 0.0);
        Duration::from_secs_f64(seconds.unwrap_or(30.0).min(1e6))
    })
}

/// How many times longer a rank may compute without an MPI call while others wait for it.
const COMPUTING: u32 = 20;

/// How long a replay may make no progress, given the states of all ranks.
fn patience_with(board: &Board) -> Duration {
    match board.states().any(|state| state == State::Running) {
        true => patience() * COMPUTING,
        false => patience(),
    }
}

/// The agent's private communicator, on which nothing is ever sent.
pub static PRIVATE_COMM: AtomicU64 = AtomicU64::new(0);

/// Lets MPI make progress, without touching the program's requests and messages.
pub fn drive() {
    if method() == Method::Clock {
        clocked::replay::pump();
        return;
    }
    // MPI may pass a cancellation point here, which the program's call need not have.
    let _uncancelled = Uncancelled::keep();
    let comm = PRIVATE_COMM.load(Ordering::Relaxed) as usize;
    let mut flag: i32 = 0;
    if comm != 0 {
        let ignore = mpi::status_ignore() as usize;
        // SAFETY: probes for a message that is never sent, on the agent's communicator.
        unsafe { mpi::call(table::MPI_Iprobe, &[0, 0, comm, &raw mut flag as usize, ignore]) };
    }
}

/// How often a wait polls before it yields the core and looks at the time.
const SPINS: u32 = 64;
/// At most this much is counted between two looks at the time: a suspended job has not stalled.
const LONGEST_LOOK: Duration = Duration::from_millis(500);
/// A wait that takes longer than this is shown on the board.
const NOTICEABLE: Duration = Duration::from_millis(200);

/// A wait for something that was recorded.
pub struct Waiting<F: Fn() -> String> {
    what: F,
    polls: u32,
    began: Option<Instant>,
    on_board: Option<Inside>,
    /// The progress of all ranks at the last look, and how long it has been the same.
    progress: u64,
    unchanged: Option<Waited>,
    /// The text on the board was renewed, so that it is current if the wait takes too long.
    is_renewed: bool,
}

impl<F: Fn() -> String> Waiting<F> {
    /// A wait; `what` describes it.
    pub fn new(what: F) -> Waiting<F> {
        let (progress, unchanged, is_renewed) = (0, None, false);
        Waiting { what, polls: 0, began: None, on_board: None, progress, unchanged, is_renewed }
    }

    /// A poll has failed.
    #[inline]
    pub fn again(&mut self) {
        self.polls += 1;
        if self.polls > SPINS {
            std::thread::yield_now();
            if self.polls.is_multiple_of(SPINS) {
                self.look_at_time();
            }
        }
    }

    #[cold]
    fn look_at_time(&mut self) {
        let now = Instant::now();
        let began = *self.began.get_or_insert(now);
        let Some(board) = board::get() else {
            if now - began > patience() {
                abort(STALLED, &format!("waits for too long: {}", (self.what)()));
            }
            return;
        };
        if self.on_board.is_none() && now - began > NOTICEABLE {
            self.on_board = Some(Inside::waiting(&(self.what)()));
        }
        // Any change of a rank's state counts as progress: a rank that has computed for long and then sent
        // something restarts the time, since its message may still arrive.
        let (progress, held) = (board.progress(), board.states().any(|state| state == State::Held));
        if progress != self.progress || held {
            (self.progress, self.unchanged) = (progress, None);
        }
        let waited = || Waited::since(now, LONGEST_LOOK);
        let unchanged = self.unchanged.get_or_insert_with(waited).look(now);
        if unchanged > patience_with(board) / 2 && !self.is_renewed {
            self.is_renewed = true;
            board.set_text(&(self.what)());
        }
        if unchanged > patience_with(board) {
            let seconds = patience_with(board).as_secs_f64();
            let first = board.is_first();
            let report = if first { board.report() } else { " another rank says why".to_owned() };
            abort(STALLED, &format!("nothing has gone on for {seconds} s (--stall):{report}"));
        }
    }
}

/// How long a rank at the end of its record waits without progress while all others wait too.
const GRACE: Duration = Duration::from_secs(2);

fn facts() -> String {
    String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default()
}

/// Whether the record is complete: it reaches `MPI_Finalize`.
pub fn is_record_complete() -> bool {
    facts().lines().any(|fact| fact == "finalized")
}

/// Stops where the record ends, after this many completing calls of the thread. The records of other ranks may
/// go further: this rank waits until all ranks are at the end of theirs, or none makes progress.
pub fn record_ends(calls: u64, name: impl Fn(u64) -> String) -> ! {
    let current_call = thread::this().current_call().map(|(function, site)| {
        let function = table::NAMES.get(function).copied().unwrap_or_default();
        // With the clock method, calls that find no message have no call site.
        let site = if site == 0 { String::new() } else { format!(" at {}", name(site)) };
        format!(", in {function}{site}")
    });
    stop_at_end(calls, &current_call.unwrap_or_default())
}

/// Stops in `MPI_Finalize` because the record is truncated. The program made no call that is recorded between
/// the end of the record and `MPI_Finalize`.
pub fn record_ends_at_finalize(calls: u64) -> ! {
    stop_at_end(calls, ", in MPI_Finalize")
}

fn stop_at_end(calls: u64, current_call: &str) -> ! {
    let calls = format!("{calls} completing {}", if calls == 1 { "call" } else { "calls" });
    let where_ = &format!("after {calls}{current_call}");
    let facts = facts();
    if is_record_complete() {
        let text = format!(
            "diverged {where_}: there was MPI_Finalize in the recorded run, and the \
             program goes on"
        );
        abort(DIVERGED, &text);
    }
    let reason = facts.lines().find_map(|fact| fact.strip_prefix("cut "));
    let why = reason.unwrap_or("the recorded run went no further");
    print(&format!("the record ends here, {where_}: {why}"));
    let Some(board) = board::get() else { abort(RECORD_ENDS, "stops") };
    board.set_state(State::AtEnd, where_);
    let wait_from_now = || Waited::since(Instant::now(), LONGEST_LOOK);
    let (mut progress, mut waited) = (board.progress(), wait_from_now());
    loop {
        drive();
        std::thread::sleep(Duration::from_millis(1));
        let now = board.progress();
        if now != progress {
            (progress, waited) = (now, wait_from_now());
        }
        let is_done = |state| matches!(state, State::AtEnd | State::Finalizing | State::Over);
        let all_done = board.states().all(is_done);
        let waits = |state| matches!(state, State::Waiting | State::Inside);
        let all_wait = board.states().all(|state| is_done(state) || waits(state));
        let unchanged = waited.look(Instant::now());
        if all_done || (all_wait && unchanged > GRACE) || unchanged > patience_with(board) {
            abort(
                RECORD_ENDS,
                &format!("stops with all that was recorded replayed:{}", board.report()),
            );
        }
    }
}

/// The call of this rank before which the replay waits for a debugger: the thread's stream, and the number of
/// the call.
pub fn until() -> Option<(u32, u64)> {
    let text = std::env::var("REFRAIN_UNTIL").ok()?;
    let (who, event) = text.split_once(':')?;
    let (rank, stream) = who.split_once('.')?;
    let is_here = rank.parse() == Ok(files::rank());
    is_here.then_some((stream.parse().ok()?, event.parse().ok()?))
}

/// Waits until a debugger is attached, then stops in it.
pub fn hold_for_debugger(where_: &str) {
    let mut host = [0u8; 64];
    // SAFETY: the buffer is writable for its length, and its last byte stays zero.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
    let pid = std::process::id();
    print(&format!(
        "is held {where_}: process {pid} on {}; attach a debugger (gdb -p {pid}) and say `continue`: it \
         gets SIGTRAP here, in the thread that makes the call",
        String::from_utf8_lossy(host)
    ));
    if let Some(board) = board::get() {
        board.set_state(State::Held, where_);
    }
    let is_traced = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    };
    while !is_traced() {
        drive();
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Some(board) = board::get() {
        board.set_state(State::Running, "");
    }
    // SAFETY: the debugger that is attached gets the signal.
    unsafe { libc::raise(libc::SIGTRAP) };
}
