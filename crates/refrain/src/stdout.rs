//! Output on stdout, to a reader that may have seen enough (`| head`).

use crate::output;
use anyhow::Result;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Nobody reads stdout any more. That ends a command early and is no failure: `main` exits with 0.
#[derive(Debug, thiserror::Error)]
#[error("stdout is closed")]
pub struct Closed;

/// Prints text, with control characters escaped. A closed stdout changes nothing: the caller's exit code still
/// counts.
pub fn print(text: &str) -> Result<()> {
    written(io::stdout().write_all(output::lines(text).as_bytes()))
}

/// Prints JSON, which has its own escapes, and ends the line.
pub fn print_json(json: &str) -> Result<()> {
    written(writeln!(io::stdout(), "{json}"))
}

fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Lines of text, buffered.
pub struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    /// On stdout.
    pub fn new() -> Lines {
        Lines(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Prints a line of text, with control characters escaped; [`Closed`] if nobody reads on.
    pub fn line(&mut self, line: &str) -> Result<()> {
        checked(writeln!(self.0, "{}", output::line(line)))
    }

    /// Prints a line of JSON; [`Closed`] if nobody reads on.
    pub fn json(&mut self, json: &str) -> Result<()> {
        checked(writeln!(self.0, "{json}"))
    }

    /// Prints what is buffered.
    pub fn finish(&mut self) -> Result<()> {
        checked(self.0.flush())
    }
}

fn checked(written: io::Result<()>) -> Result<()> {
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Closed.into(),
        _ => error.into(),
    })
}
