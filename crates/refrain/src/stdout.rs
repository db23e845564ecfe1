//! Output on stdout, which the reader may close early (`| head`).

use crate::output;
use anyhow::Result;
use std::fmt;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Stdout was closed by its reader. That ends a command early and is not a failure: `main` exits with 0.
#[derive(Debug, thiserror::Error)]
#[error("stdout is closed")]
pub struct Closed;

/// Prints text, with control characters escaped. A closed stdout is ignored, so that the caller's exit code is used.
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

/// Buffered lines on stdout.
pub struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    /// Locks stdout.
    pub fn new() -> Lines {
        Lines(BufWriter::with_capacity(1 << 16, io::stdout().lock()))
    }

    /// Prints a line of text, with control characters escaped; [`Closed`] if stdout was closed.
    pub fn line(&mut self, line: &str) -> Result<()> {
        checked(writeln!(self.0, "{}", output::line(line)))
    }

    /// Prints a line of JSON; [`Closed`] if stdout was closed.
    pub fn json(&mut self, json: &str) -> Result<()> {
        self.escaped(format_args!("{json}"))
    }

    /// Prints a line that has no control characters; [`Closed`] if nobody reads on.
    pub fn escaped(&mut self, line: fmt::Arguments<'_>) -> Result<()> {
        checked(writeln!(self.0, "{line}"))
    }

    /// Flushes the buffer.
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
