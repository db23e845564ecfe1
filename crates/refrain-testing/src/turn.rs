//! Jobs take turns: ranks that share their cores with another job's ranks are extremely slow, and
//! launchers that start and end at the same moment disturb each other.
//!
//! Each turn leaves a line in `target/launches.tsv`: the test, the MPI, the ranks, how long it waited
//! and how long the job ran, in milliseconds. `make test` clears the file first and sums it up at the end.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::Instant;

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
    turn_of("-", 0)
}

/// Waits for the turn of a job. Jobs of one rank under different MPIs may run at the same time.
pub(crate) fn turn_of(mpi: &str, ranks: usize) -> Turn {
    let asked = Instant::now();
    let locks = match ranks {
        1 => vec![
            locked("mpi-jobs.lock", File::lock_shared),
            locked(&format!("mpi-jobs-{mpi}.lock"), File::lock),
        ],
        _ => vec![locked("mpi-jobs.lock", File::lock)],
    };
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    Turn { _locks: locks, who: format!("{test}\t{mpi}\t{ranks}"), asked, began: Instant::now() }
}

fn locked(name: &str, lock: impl FnOnce(&File) -> std::io::Result<()>) -> File {
    let path = workspace().join("target").join(name);
    let file = File::create(&path)
        .unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
    lock(&file).unwrap_or_else(|error| panic!("cannot lock {}: {error}", path.display()));
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
