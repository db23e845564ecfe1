//! Watches the ranks of a replay through the board that they write.
//!
//! A rank that waits for something in the record checks the progress of all ranks itself. If all ranks
//! hang in calls that are not in a record (one in a barrier, one in a broadcast, after the program was
//! changed), no rank checks. This watchdog does.

use refrain_mpi::interface::{Function, functions};
use refrain_order::board::{Snapshot, Watch};
use refrain_trace::Orders;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The watchdog waits this many times `--stall`, because a large collective call may take long.
const PATIENCE: u32 = 20;

/// Time between two reads of the board.
const PAUSE: Duration = Duration::from_millis(500);

/// The time that a launcher has to end the ranks before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// Whether the program has ended.
#[derive(Default)]
struct Ended {
    has: Mutex<bool>,
    changed: Condvar,
}

impl Ended {
    fn is_within(&self, time: Duration) -> bool {
        let has = self.has.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(has, time, |has| !*has);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn now(&self) {
        *self.has.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// Waits for a program that replays in a folder. If no rank makes progress, ends it and returns a
/// message.
pub fn wait(
    child: &mut Child,
    folder: &Path,
    stall: Duration,
) -> std::io::Result<(ExitStatus, Option<String>)> {
    let (ended, process) = (Ended::default(), child.id() as i32);
    let said = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(&ended, process, folder, stall));
        await_end(process);
        ended.now();
        watcher.join().unwrap_or_default()
    });
    Ok((child.wait()?, said))
}

/// Waits until a child has ended, without reaping it.
fn await_end(process: i32) {
    loop {
        // SAFETY: `known` is a valid buffer for the child's status, which is not used.
        let result = unsafe {
            let mut known: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, process as libc::id_t, &mut known, how)
        };
        let again = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if result == 0 || !again() {
            return;
        }
    }
}

/// Reads the board until the program has ended, or ends it if there is no progress.
fn watch(ended: &Ended, process: i32, folder: &Path, stall: Duration) -> Option<String> {
    // Time during which the job was suspended does not count.
    let (mut last, mut time) = (Instant::now(), Duration::ZERO);
    let patience = stall.saturating_mul(PATIENCE);
    let mut watch = Watch::new(patience);
    while !ended.is_within(PAUSE) {
        let board = Snapshot::from_bytes(&std::fs::read(folder.join("board")).unwrap_or_default());
        time += last.elapsed().min(2 * PAUSE);
        last = Instant::now();
        if watch.is_over(time, &board, may_last) {
            // SAFETY: plain system calls on a child that was not reaped yet.
            unsafe { libc::kill(process, libc::SIGTERM) };
            if !ended.is_within(GRACE) {
                // SAFETY: as above.
                unsafe { libc::kill(process, libc::SIGKILL) };
            }
            return Some(format!(
                "all ranks have been in MPI calls without progress for {} s ({PATIENCE} x --stall):{}",
                patience.as_secs_f64(),
                board.report(name)
            ));
        }
    }
    None
}

/// The exit code with which the replay stopped ranks; the smallest if there are several.
pub fn stopped(folder: &Path, orders: &Orders) -> Option<u8> {
    let code = |rank: u32| {
        let facts = std::fs::read(folder.join(format!("rank-{rank}.facts"))).unwrap_or_default();
        let facts = String::from_utf8_lossy(&facts);
        facts.lines().filter_map(|fact| fact.strip_prefix("stopped ")?.parse().ok()).min()
    };
    (0..orders.size()).filter_map(code).min()
}

/// A message if ranks ended without `MPI_Finalize` although they called it in the recorded run.
pub fn left_early(folder: &Path, orders: &Orders) -> Option<String> {
    let is_over = |rank: u32| {
        let facts = std::fs::read(folder.join(format!("rank-{rank}.facts"))).unwrap_or_default();
        facts.split(|byte| *byte == b'\n').any(|fact| fact == b"over")
    };
    let recorded = orders.ranks.iter().filter(|rank| rank.finalized);
    let left: Vec<u32> = recorded.map(|rank| rank.rank).filter(|rank| !is_over(*rank)).collect();
    let list: Vec<String> = left.iter().map(u32::to_string).collect();
    let who = match left.len() {
        0 => return None,
        1 => format!("rank {}", list.join("")),
        several if several == orders.ranks.len() => "all ranks".to_owned(),
        _ => format!("ranks {}", list.join(",")),
    };
    Some(format!("{who} ended without MPI_Finalize, but called it in the recorded run"))
}

fn name(function: usize) -> String {
    functions().get(function).map_or_else(String::new, |function| function.name.clone())
}

/// Whether a call may last: it waits for a file system, or for programs that are not of this job.
fn may_last(function: usize) -> bool {
    functions().get(function).is_some_and(Function::waits_beyond_job)
}
