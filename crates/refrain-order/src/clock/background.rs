//! The encoder in a thread of its own (Sato et al., §4.2).
//!
//! Events go through a bounded [queue](crate::clock::queue): if the encoder falls behind, the program
//! waits for it, and nothing is lost. What cannot be written is given up as a whole: the record
//! ends there, and the program goes on without waiting.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

use crate::clock::encoder::{Encoder, Statistics};
use crate::clock::event::{Event, Sink};
use crate::clock::queue::{Receiver, Sender, queue};

/// Events that may wait to be encoded: a megabyte of them.
const CAPACITY: usize = 1 << 14;

/// Where the recorder puts events for the encoder's thread.
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
            // A chunk is there as a whole, whatever happens to the process behind this.
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

    /// Whether writing has failed: what comes now is not recorded.
    pub fn has_failed(&self) -> bool {
        self.sender.is_none()
    }

    /// Waits until everything is written; says what was, or why it was not.
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
