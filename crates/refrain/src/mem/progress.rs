//! A line that says how far the recording is, on a terminal.

use crate::summary::{grouped, size};
use refrain_memrecord::part::progress;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the line changes.
const BEAT: Duration = Duration::from_millis(500);
/// Bytes of an uncompressed reference: a block's number and an address.
const RAW: u64 = 16;

/// The line.
pub struct Progress {
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to watch a folder of parts, if standard error is a terminal.
    pub fn start(parts: &Path) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { watcher: None };
        }
        let (sender, receiver) = channel();
        let parts = parts.to_owned();
        let watch = move || {
            let start = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(BEAT) {
                let (references, bytes) = progress(&parts);
                if references > 0 {
                    let _ = write!(std::io::stderr(), "\r{}\x1b[K", line(start, references, bytes));
                }
            }
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        };
        Self { watcher: Some((sender, std::thread::spawn(watch))) }
    }

    /// Ends, and clears the line.
    pub fn end(self) {
        if let Some((sender, watcher)) = self.watcher {
            drop(sender);
            let _ = watcher.join();
        }
    }
}

fn line(start: Instant, references: u64, bytes: u64) -> String {
    let seconds = start.elapsed().as_secs_f64();
    let rate = references as f64 / seconds / 1e6;
    let mut line = format!("refrain: {} references, {rate:.1} M/s", grouped(references));
    if let Some(ratio) = (references * RAW).checked_div(bytes) {
        line += &format!(", {} put away, {} times smaller", size(bytes), grouped(ratio));
    }
    line
}
