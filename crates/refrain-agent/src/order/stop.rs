//! How a replay ends that cannot go on, and how it waits.
//!
//! Nothing diverges silently, and nothing hangs: a wait that takes too long while no rank gets on
//! ends the job, and says what everybody waits for.

use crate::inside::abandon::Waited;
use crate::inside::locked::Lazy;
use crate::inside::process::{Quiet, Uncancelled, abi};
use crate::table;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::board::{self, Board, Inside, State};
use super::guarded::Missed;
use super::{Method, clocked, files, lifetime, method, mpi, thread};

/// Exit code of a program that did not do what was recorded.
pub const DIVERGED: i32 = 94;
/// Exit code of a replay in which nothing went on.
pub const STALLED: i32 = 95;
/// Exit code where the record ends before the program.
pub const RECORD_ENDS: i32 = 96;
/// Exit code where there is nothing to replay.
pub const NO_RECORD: i32 = 97;

/// Says something on stderr, in one piece. A system call alone, so it may be called in a handler.
pub fn say(text: &str) {
    let (mut room, rank) = ([0; files::DIGITS], files::rank());
    let sign: &[u8] = if rank < 0 { b"-" } else { b"" };
    let rank = files::decimal(rank.unsigned_abs(), &mut room);
    let pieces = [b"refrain: rank ", sign, rank, b": ", text.as_bytes(), b"\n"];
    files::write_pieces(libc::STDERR_FILENO, pieces);
}

/// So long launchers have to pass on what was said: some drop what they have not read when a job is
/// aborted.
const SAYING: Duration = Duration::from_millis(200);

/// Seconds that `MPI_Abort` may take. It takes milliseconds, unless it waits for a lock that this
/// thread holds.
const ABORTING: u32 = 30;

/// Ends the job. The code is noted, too: not every launcher passes it on.
pub fn abort(code: i32, text: &str) -> ! {
    // A handler of the program that jumps away from here would let it go on.
    let _quiet = Quiet::keep();
    say(text);
    let mut room = [0; files::DIGITS];
    files::note_pieces([b"stopped ", files::decimal(code.unsigned_abs(), &mut room), b"\n"]);
    std::thread::sleep(SAYING);
    let comm = match lifetime::has_world() {
        true => abi().comm_world,
        false => OWN_COMM.load(Ordering::Relaxed) as usize,
    };
    // SAFETY: MPI is initialised wherever something is replayed; the communicator is predefined, or
    // ours.
    unsafe {
        // Should MPI_Abort hang, this signal ends the process. One that is pending is discarded.
        let mut alarm = std::mem::zeroed();
        libc::signal(libc::SIGALRM, libc::SIG_IGN);
        libc::signal(libc::SIGALRM, libc::SIG_DFL);
        libc::alarm(ABORTING);
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &alarm, std::ptr::null_mut());
        if comm != 0 {
            mpi::call(table::MPI_Abort, &[comm, code as usize]);
        }
        libc::_exit(code)
    }
}

/// A call could not be replayed: what comes would not be what was recorded, so the job ends.
///
/// May be called in a handler: up to `MPI_Abort` there are nothing but system calls. `MPI_Abort` is
/// not made for handlers. Should it wait for a lock of MPI that the interrupted call holds, the signal
/// that [`abort`] has asked for ends the process.
pub fn missed(why: Missed) {
    abort(NO_RECORD, why.stops_replay());
}

/// How long nothing may go on.
fn patience() -> Duration {
    static PATIENCE: Lazy<Duration> = Lazy::new();
    *PATIENCE.get_or_make(|| {
        let text = std::env::var("REFRAIN_STALL").ok();
        let seconds = text.and_then(|text| text.parse().ok()).filter(|s: &f64| *s > 0.0);
        Duration::from_secs_f64(seconds.unwrap_or(30.0).min(1e6))
    })
}

/// A rank may compute for so many times as long without a call, while others wait for it.
const COMPUTING: u32 = 20;

/// How long to wait for the ranks of a board while nobody makes a call.
fn patience_with(board: &Board) -> Duration {
    match board.states().any(|state| state == State::Running) {
        true => patience() * COMPUTING,
        false => patience(),
    }
}

/// The communicator of our own, on which nothing is ever sent.
pub static OWN_COMM: AtomicU64 = AtomicU64::new(0);

/// Lets MPI make progress, without looking at anything of the program.
pub fn drive() {
    if method() == Method::Clock {
        clocked::replay::pump();
        return;
    }
    // What MPI does meanwhile may be a cancellation point, which the program's call need not be.
    let _uncancelled = Uncancelled::keep();
    let comm = OWN_COMM.load(Ordering::Relaxed) as usize;
    let mut flag: i32 = 0;
    if comm != 0 {
        let ignore = mpi::status_ignore() as usize;
        // SAFETY: asks for a message that nobody sends, on a communicator that is ours.
        unsafe { mpi::call(table::MPI_Iprobe, &[0, 0, comm, &raw mut flag as usize, ignore]) };
    }
}

/// So many looks in vain before the time is looked at, and the core given to others.
const SPINS: u32 = 64;
/// Between two looks no more than this counts: a job that is suspended stands still by no fault of its
/// own.
const LONGEST_LOOK: Duration = Duration::from_millis(500);
/// What takes longer than this is told on the board.
const NOTICEABLE: Duration = Duration::from_millis(200);

/// A wait for something that was recorded.
pub struct Waiting<F: Fn() -> String> {
    what: F,
    looks: u32,
    began: Option<Instant>,
    told: Option<Inside>,
    /// How far all ranks were, and for how long.
    progress: u64,
    still: Option<Waited>,
    /// The text on the board is the one that will be read if this takes too long.
    told_again: bool,
}

impl<F: Fn() -> String> Waiting<F> {
    /// For what `what` says.
    pub fn new(what: F) -> Waiting<F> {
        let (progress, still, told_again) = (0, None, false);
        Waiting { what, looks: 0, began: None, told: None, progress, still, told_again }
    }

    /// It has not come yet.
    #[inline]
    pub fn again(&mut self) {
        self.looks += 1;
        if self.looks > SPINS {
            std::thread::yield_now();
            if self.looks.is_multiple_of(SPINS) {
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
        if self.told.is_none() && now - began > NOTICEABLE {
            self.told = Some(Inside::waiting(&(self.what)()));
        }
        // Who has computed for long and is done gets a new chance: what it sent is still to come.
        let (progress, held) = (board.progress(), board.states().any(|state| state == State::Held));
        if progress != self.progress || held {
            (self.progress, self.still) = (progress, None);
        }
        let still = self.still.get_or_insert_with(|| Waited::since(now, LONGEST_LOOK)).look(now);
        if still > patience_with(board) / 2 && !self.told_again {
            self.told_again = true;
            board.tell(&(self.what)());
        }
        if still > patience_with(board) {
            let seconds = patience_with(board).as_secs_f64();
            let first = board.is_first();
            let report = if first { board.report() } else { " another rank says why".to_owned() };
            abort(STALLED, &format!("nothing has gone on for {seconds} s (--stall):{report}"));
        }
    }
}

/// Others that can still get on are waited for so long when they do not.
const GRACE: Duration = Duration::from_secs(2);

fn facts() -> String {
    String::from_utf8(files::read("facts").unwrap_or_default()).unwrap_or_default()
}

/// Whether the recorded run has reached `MPI_Finalize`, and is recorded up to there.
pub fn is_recorded_to_the_end() -> bool {
    facts().lines().any(|fact| fact == "finalized")
}

/// The record ends here, behind so many completing calls of the thread. Other ranks may have more: this
/// one stays where it is until all are where theirs end, or nobody gets on.
pub fn record_ends(calls: u64, name: impl Fn(u64) -> String) -> ! {
    let doing = thread::this().doing().map(|(function, site)| {
        let function = table::NAMES.get(function).copied().unwrap_or_default();
        // By clocks, calls that find no messages have no site.
        let site = if site == 0 { String::new() } else { format!(" at {}", name(site)) };
        format!(", in {function}{site}")
    });
    stop_at_end(calls, &doing.unwrap_or_default())
}

/// The record ends before `MPI_Finalize`, which the program has come to: no call after its end asked for
/// anything that is recorded.
pub fn record_ends_at_finalize(calls: u64) -> ! {
    stop_at_end(calls, ", in MPI_Finalize")
}

fn stop_at_end(calls: u64, doing: &str) -> ! {
    let calls = format!("{calls} completing {}", if calls == 1 { "call" } else { "calls" });
    let where_ = &format!("after {calls}{doing}");
    let facts = facts();
    if is_recorded_to_the_end() {
        let text = format!(
            "diverged {where_}: there was MPI_Finalize in the recorded run, and the \
             program goes on"
        );
        abort(DIVERGED, &text);
    }
    let cut = facts.lines().find_map(|fact| fact.strip_prefix("cut "));
    let why = cut.unwrap_or("the recorded run went no further");
    say(&format!("the record ends here, {where_}: {why}"));
    let Some(board) = board::get() else { abort(RECORD_ENDS, "stops") };
    board.say(State::AtEnd, where_);
    let clock_bound = || Waited::since(Instant::now(), LONGEST_LOOK);
    let (mut progress, mut waited) = (board.progress(), clock_bound());
    loop {
        drive();
        std::thread::sleep(Duration::from_millis(1));
        let now = board.progress();
        if now != progress {
            (progress, waited) = (now, clock_bound());
        }
        let stand = |state| matches!(state, State::AtEnd | State::Finalizing | State::Over);
        let all_stand = board.states().all(stand);
        let waits = |state| matches!(state, State::Waiting | State::Inside);
        let all_wait = board.states().all(|state| stand(state) || waits(state));
        let still = waited.look(Instant::now());
        if all_stand || (all_wait && still > GRACE) || still > patience_with(board) {
            abort(
                RECORD_ENDS,
                &format!("stops with all that was recorded replayed:{}", board.report()),
            );
        }
    }
}

/// The call of this rank before which to wait for a debugger: its thread's stream, and its position.
pub fn until() -> Option<(u32, u64)> {
    let text = std::env::var("REFRAIN_UNTIL").ok()?;
    let (who, event) = text.split_once(':')?;
    let (rank, stream) = who.split_once('.')?;
    let is_here = rank.parse() == Ok(files::rank());
    is_here.then_some((stream.parse().ok()?, event.parse().ok()?))
}

/// Waits until a debugger is attached, and lets it have the thread.
pub fn hold(where_: &str) {
    let mut host = [0u8; 64];
    // SAFETY: the buffer is writable for its length, and closed by a zero.
    unsafe { libc::gethostname(host.as_mut_ptr().cast(), host.len() - 1) };
    let host = host.split(|byte| *byte == 0).next().unwrap_or_default();
    let pid = std::process::id();
    say(&format!(
        "is held {where_}: process {pid} on {}; attach a debugger (gdb -p {pid}) and say `continue`: it \
         gets SIGTRAP here, in the thread that makes the call",
        String::from_utf8_lossy(host)
    ));
    if let Some(board) = board::get() {
        board.say(State::Held, where_);
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
        board.say(State::Running, "");
    }
    // SAFETY: the debugger that is attached gets the signal.
    unsafe { libc::raise(libc::SIGTRAP) };
}
