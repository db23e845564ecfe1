//! The encoder in its own thread (Sato et al., §4.2).
//!
//! Events go through a bounded [queue](crate::clock::queue): if the encoder falls behind, the program waits for it, and
//! no event is lost. If writing fails, the record is truncated there, and the program continues without waiting.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

use crate::clock::encoder::{Encoder, Statistics};
use crate::clock::event::{Event, Sink};
use crate::clock::queue::{Receiver, Sender, queue};

/// The capacity of the queue: about a megabyte of events.
const CAPACITY: usize = 1 << 14;

/// Passes events to the encoder's thread.
#[derive(Debug)]
pub struct Background {
    sender: Option<Sender<Event>>,
    thread: Option<JoinHandle<io::Result<Statistics>>>,
}

fn encode(mut events: Receiver<Event>, mut file: impl Write) -> io::Result<Statistics> {
    let mut encoder = Encoder::default();
    let mut bytes = Vec::new();
    while let Some(event) = events.take() {
        encoder.put(event);
        if encoder.is_full() {
            encoder.drain(&mut bytes);
            // After this, the chunk is in the file even if the process is killed.
            file.write_all(&bytes)?;
            file.flush()?;
            bytes.clear();
        }
    }
    Ok(encoder.statistics())
}

impl Background {
    /// Starts the thread. Chunks go to `file`, each with one write.
    pub fn start(file: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = queue(CAPACITY);
        let builder = thread::Builder::new().name("refrain-encoder".to_string());
        let thread = builder.spawn(move || encode(receiver, file))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    /// Whether writing has failed; then events are discarded.
    pub fn has_failed(&self) -> bool {
        self.sender.is_none()
    }

    /// Waits until everything is written. Returns the counts, or the error.
    pub fn finish(mut self) -> io::Result<Statistics> {
        self.sender = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) | None => Err(io::Error::other("the encoder has ended")),
        }
    }
}

impl Sink for Background {
    fn put(&mut self, event: Event) {
        if let Some(sender) = &mut self.sender
            && sender.put(event).is_err()
        {
            self.sender = None;
        }
    }

    fn is_full(&self) -> bool {
        false
    }

    fn drain(&mut self, _out: &mut Vec<u8>) {}
}
