//! Programs whose receive orders are recorded and replayed.

use refrain_testing::{Mpi, Outcome, is_full, sorted_lines};
use std::process::Command;
use tempfile::TempDir;

/// How often a record is replayed.
pub fn times() -> usize {
    if is_full() { 20 } else { 3 }
}

pub fn ranks() -> &'static str {
    if is_full() { "8" } else { "4" }
}

/// A program with its arguments, and a folder to run it in.
pub struct Victim {
    mpi: Mpi,
    pub words: Vec<String>,
    pub folder: TempDir,
    method: &'static str,
}

impl Victim {
    pub fn new(mpi: &Mpi, source: &str, arguments: &[&str]) -> Victim {
        let program = mpi.compile_with(
            source,
            if source.ends_with(".c") { &["-w", "-pthread", "-lm"] } else { &[] },
        );
        let program = program.to_str().expect("a plain path").to_owned();
        let mut words = vec!["mpirun".to_owned(), "-n".to_owned(), ranks().to_owned(), program];
        words.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        let folder = TempDir::new().expect("a folder");
        Victim { mpi: mpi.clone(), words, folder, method: "causal" }
    }

    /// Sets the method of recording.
    pub fn by(self, method: &'static str) -> Victim {
        Victim { method, ..self }
    }

    /// Sets the number of ranks.
    pub fn on(mut self, ranks: &str) -> Victim {
        ranks.clone_into(&mut self.words[2]);
        self
    }

    pub fn with(&self, arguments: &[&str]) -> Vec<String> {
        let mut words = self.words[..4].to_vec();
        words.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        words
    }

    pub fn run(&self, before: &[&str], words: &[String]) -> Outcome {
        let before = before.iter().map(|word| (*word).to_owned());
        let words: Vec<String> = before.chain(words.iter().cloned()).collect();
        self.mpi.refrain_in(self.folder.path(), words)
    }

    /// The command of [`Victim::run`], for the caller to start.
    pub fn command(&self, before: &[&str], words: &[String]) -> Command {
        let mut command = self.mpi.command(refrain_testing::refrain_binary());
        command.args(before).args(words).current_dir(self.folder.path());
        command
    }

    pub fn record(&self, name: &str) -> Outcome {
        self.run(&["record", "--method", self.method, "-o", name, "--"], &self.words)
    }

    pub fn replay(&self, name: &str) -> Outcome {
        self.run(&["replay", "--stall", "20s", name, "--"], &self.words)
    }

    /// Runs it without `refrain`.
    pub fn plain(&self) -> Outcome {
        let ranks = self.words[2].parse().expect("a number");
        self.mpi.run(ranks).program(&self.words[3]).args(&self.words[4..]).output()
    }

    /// Runs `refrain` with these words in the folder.
    pub fn look(&self, words: &[&str]) -> Outcome {
        self.mpi.refrain_in(self.folder.path(), words)
    }

    pub fn is_clean(&self) -> bool {
        let left = std::fs::read_dir(self.folder.path()).expect("the folder is there");
        left.flatten().all(|file| file.path().extension().is_some_and(|e| e == "refrain"))
    }
}

#[track_caller]
pub fn assert_same(recorded: &Outcome, replayed: &Outcome) {
    assert_eq!(
        sorted_lines(&recorded.stdout),
        sorted_lines(&replayed.stdout),
        "a replay differs\n{replayed}"
    );
}

/// Records once and replays several times.
pub fn replays_bit_for_bit(method: &'static str, source: &str, arguments: &[&str]) {
    for mpi in Mpi::usual() {
        if source.ends_with(".F90") && !mpi.has_fortran() {
            continue;
        }
        let victim = Victim::new(&mpi, source, arguments).by(method);
        replays(&victim);
    }
}

/// Records once and replays several times.
pub fn replays(victim: &Victim) {
    let recorded = victim.record("run.refrain").expect_success();
    assert!(recorded.stderr.contains("written to run.refrain"), "{recorded}");
    // A replay with the clock method takes several times as long.
    let times = if victim.method == "clock" && !is_full() { 1 } else { times() };
    for _ in 0..times {
        assert_same(&recorded, &victim.replay("run.refrain").expect_success());
    }
    assert!(victim.is_clean(), "something was left behind");
}
