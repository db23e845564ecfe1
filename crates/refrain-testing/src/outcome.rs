//! The outcome of a command.

use std::fmt;
use std::time::Duration;

/// The output of a command, and how it ended.
///
/// Its [`Display`](fmt::Display) form shows everything, for the message of an assertion.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Standard output; that of several ranks is interleaved, see [`sorted_lines`].
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit code; 128 + n after signal n, as a shell has it.
    pub code: i32,
    /// Whether the command, or something it had started, still ran at the time limit. It has
    /// then been killed, and all its processes with it.
    pub timed_out: bool,
    /// How long the command ran, not counting the wait for other jobs to end.
    pub elapsed: Duration,
    /// The command itself.
    pub command: String,
}

impl Outcome {
    /// Whether the command ended by itself, with exit code 0.
    pub fn is_success(&self) -> bool {
        self.code == 0 && !self.timed_out
    }

    /// Returns the outcome if the command succeeded.
    ///
    /// # Panics
    ///
    /// If it did not, with the command's output.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(self.is_success(), "a command failed\n{self}");
        self
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = if self.timed_out { " (killed at the time limit)" } else { "" };
        writeln!(f, "command: {}", self.command)?;
        writeln!(f, "exit code: {}{limit}, after {:.2?}", self.code, self.elapsed)?;
        writeln!(f, "--- stdout\n{}", self.stdout.trim_end())?;
        write!(f, "--- stderr\n{}", self.stderr.trim_end())
    }
}

/// The lines of an output in alphabetical order.
///
/// The lines of different ranks arrive in any order; sorted, two runs can be compared.
pub fn sorted_lines(output: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines
}
