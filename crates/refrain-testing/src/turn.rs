//! Jobs take turns: ranks that share their cores with many ranks of other jobs are extremely slow.
//!
//! A machine has four slots per core. A job takes a slot for each of its ranks, and at most all of them. Waiting ranks
//! sleep (`tests/preload/yield.c`), so small jobs can start, wait and end side by side; jobs that take more than half of
//! the slots do not.
//! Launchers of Open MPI that start and end at the same moment disturb each other, so its jobs never run side by side.
//!
//! Each turn leaves a line in `target/launches.tsv`: the test, the MPI, the ranks, how long it waited
//! and how long the job ran, in milliseconds. `make test` clears the file first and sums it up at the end.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use crate::workspace;

/// A job's turn, which ends when this is dropped.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub struct Turn {
    _locks: Vec<File>,
    who: String,
    asked: Instant,
    began: Instant,
}

/// Waits for the turn of a job that [`Run`](crate::Run) does not start. No other job runs meanwhile.
///
/// # Panics
///
/// When `target` cannot be written to.
pub fn turn() -> Turn {
    turn_of("-", usize::MAX)
}

/// Waits for the turn of a job with this number of ranks.
pub(crate) fn turn_of(mpi: &str, ranks: usize) -> Turn {
    let asked = Instant::now();
    let mut locks = Vec::new();
    if mpi.starts_with("openmpi") {
        locks.push(locked("mpi-jobs-openmpi.lock"));
    }
    // Whoever is at the gate takes the next free slots, so that small jobs do not overtake a large job forever.
    let gate = locked("mpi-jobs.lock");
    let slots = 4 * thread::available_parallelism().map_or(1, usize::from);
    locks.extend(taken(slots, ranks.clamp(1, slots)));
    drop(gate);
    let test = thread::current().name().unwrap_or("?").to_owned();
    let ranks = if ranks == usize::MAX { 0 } else { ranks };
    Turn { _locks: locks, who: format!("{test}\t{mpi}\t{ranks}"), asked, began: Instant::now() }
}

/// The ranks of the job that a `refrain` command starts: none if it starts no program, one without `-n`.
pub(crate) fn ranks_in<S: AsRef<OsStr>>(args: &[S]) -> usize {
    let mut words = args.iter().map(|word| word.as_ref().to_str().unwrap_or_default());
    if !words.by_ref().any(|word| word == "--") {
        return 0;
    }
    let ranks = words.skip_while(|word| !["-n", "-np"].contains(word)).nth(1);
    ranks.and_then(|ranks| ranks.parse().ok()).unwrap_or(1)
}

/// Takes some of the slots as soon as they are free. Only the process at the gate takes slots.
fn taken(slots: usize, wanted: usize) -> Vec<File> {
    let mut taken = Vec::new();
    let mut free: Vec<File> =
        (0..slots).map(|slot| opened(&format!("mpi-jobs-slot-{slot}.lock"))).collect();
    while taken.len() < wanted {
        let (now, later): (Vec<File>, Vec<File>) =
            free.into_iter().partition(|slot| match slot.try_lock() {
                Ok(()) => true,
                Err(TryLockError::WouldBlock) => false,
                Err(TryLockError::Error(error)) => panic!("cannot lock a slot: {error}"),
            });
        taken.extend(now);
        free = later;
        if taken.len() < wanted {
            thread::sleep(Duration::from_millis(2));
        }
    }
    // Dropped slots are free again.
    taken.truncate(wanted);
    taken
}

fn opened(name: &str) -> File {
    let path = workspace().join("target").join(name);
    File::create(&path).unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()))
}

fn locked(name: &str) -> File {
    let file = opened(name);
    file.lock().unwrap_or_else(|error: io::Error| panic!("cannot lock {name}: {error}"));
    file
}

impl Drop for Turn {
    fn drop(&mut self) {
        let waited = (self.began - self.asked).as_millis();
        let line = format!("{}\t{waited}\t{}\n", self.who, self.began.elapsed().as_millis());
        let list = workspace().join("target/launches.tsv");
        // Only a statistic: the test must not fail because of it.
        let _ = OpenOptions::new()
            .create(true)
            .append(true)
            .open(list)
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::ranks_in;

    #[test]
    fn the_ranks_of_a_command_are_those_of_its_launcher() {
        assert_eq!(ranks_in(&["show", "a.refrain"]), 0);
        assert_eq!(ranks_in(&["show", "-n", "20", "a.refrain"]), 0);
        assert_eq!(ranks_in(&["trace", "--", "./program", "-x"]), 1);
        assert_eq!(ranks_in(&["trace", "-o", "a", "--", "mpirun", "-n", "4", "./program"]), 4);
        assert_eq!(ranks_in(&["record", "--", "mpirun", "-np", "12", "./program"]), 12);
    }
}
