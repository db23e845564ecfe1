//! A line that says how far a long task is, on a terminal.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the line changes.
const BEAT: Duration = Duration::from_millis(500);

/// The line. It is cleared when this is dropped.
pub struct Progress {
    watcher: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to print what `line` returns, twice a second, if standard error is a terminal.
    pub fn start(mut line: impl FnMut() -> Option<String> + Send + 'static) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { watcher: None };
        }
        let (sender, receiver) = channel();
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(BEAT) {
                if let Some(line) = line() {
                    let _ = write!(std::io::stderr(), "\rrefrain: {line}\x1b[K");
                }
            }
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        };
        Self { watcher: Some((sender, std::thread::spawn(watch))) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((sender, watcher)) = self.watcher.take() {
            drop(sender);
            let _ = watcher.join();
        }
    }
}
