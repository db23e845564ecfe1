//! The agent's messages between processes.
//!
//! They travel on a duplicate of `MPI_COMM_WORLD` with a single tag, so messages between two processes stay in order,
//! whichever communicator of the program they are about. Each is three words long; every MPI sends that eagerly.
//!
//! Receives are posted in advance, so testing the oldest is enough to learn of the next message. If all of them are
//! used up, messages wait in MPI until the oldest receive was read and posted again; so the order is kept.

use crate::inside::library::abi;
use crate::inside::memory::Statuses;
use crate::table;
use refrain_order::clock::Note;
use std::collections::VecDeque;
use std::ffi::c_int;

use super::super::mpi::{self, Status};

/// A message from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A note of the replayer or recorder.
    Note(Note),
    /// The sender has entered a collective operation.
    Entered {
        /// The communicator's number.
        communicator: u32,
        /// The number of the operation among those of the communicator.
        serial: u64,
        /// The sender's clock.
        clock: u64,
    },
}

type Words = [u64; 3];
/// Bytes of a message.
const BYTES: usize = size_of::<Words>();
/// The tag of all messages.
const TAG: usize = 1;
/// The number of receives posted in advance.
const POSTED: usize = 64;

const SENT: u64 = 0;
const QUERY: u64 = 1;
const BOUND: u64 = 2;
const SURE_BOUND: u64 = 3;
const RETRY: u64 = 4;
const ENTERED: u64 = 5;

impl Message {
    fn to_words(self) -> Words {
        let head = |kind: u64, number: u32| kind | u64::from(number) << 32;
        match self {
            Message::Note(Note::Sent { clock, communicator, source, tag }) => {
                let from = u64::from(source as u32) << 32 | u64::from(tag as u32);
                [head(SENT, communicator), clock, from]
            }
            Message::Note(Note::Query { origin, serial, clock }) => {
                [head(QUERY, origin), clock, serial]
            }
            Message::Note(Note::Bound { origin, serial, clock, sure }) => {
                let kind = if sure { SURE_BOUND } else { BOUND };
                [head(kind, origin), clock, serial]
            }
            Message::Note(Note::Retry { origin, serial }) => [head(RETRY, origin), 0, serial],
            Message::Entered { communicator, serial, clock } => {
                [head(ENTERED, communicator), clock, serial]
            }
        }
    }

    fn of_words([head, clock, serial]: Words) -> Option<Message> {
        let number = (head >> 32) as u32;
        let bound = |sure| Note::Bound { origin: number, serial, clock, sure };
        Some(match head & 0xff {
            SENT => {
                let (source, tag) = ((serial >> 32) as i32, serial as u32 as i32);
                Message::Note(Note::Sent { clock, communicator: number, source, tag })
            }
            QUERY => Message::Note(Note::Query { origin: number, serial, clock }),
            BOUND => Message::Note(bound(false)),
            SURE_BOUND => Message::Note(bound(true)),
            RETRY => Message::Note(Note::Retry { origin: number, serial }),
            ENTERED => Message::Entered { communicator: number, serial, clock },
            _ => return None,
        })
    }
}

/// A message being sent or received. MPI has its address, so it must not move.
struct Slot {
    words: Words,
    request: usize,
}

impl Slot {
    fn new() -> Box<Slot> {
        Box::new(Slot { words: [0; 3], request: 0 })
    }

    fn at(&mut self) -> [usize; 2] {
        [self.words.as_mut_ptr() as usize, &raw mut self.request as usize]
    }

    /// Whether its request is complete.
    fn is_done(&mut self, status: Statuses) -> bool {
        let mut flag: c_int = 0;
        let words = [&raw mut self.request as usize, &raw mut flag as usize, status as usize];
        // SAFETY: the agent's request, an int, and a status or none.
        unsafe { mpi::call(table::MPI_Test, &words) == 0 && flag != 0 }
    }
}

/// The channel to all other processes.
pub struct Channel {
    comm: usize,
    byte: usize,
    /// Receives, in posting order.
    posted: VecDeque<Box<Slot>>,
    /// Sends that are not complete, in order.
    in_flight: VecDeque<Box<Slot>>,
    /// Unused slots.
    spare: VecDeque<Box<Slot>>,
    /// The number of messages to each process, and from each.
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Channel {
    /// Opens the channel; collective over `MPI_COMM_WORLD`.
    pub fn open(size: usize) -> Option<Channel> {
        let mut comm = 0usize;
        // SAFETY: a predefined communicator, and room for a handle.
        let result =
            unsafe { mpi::call(table::MPI_Comm_dup, &[abi().comm_world, &raw mut comm as usize]) };
        let byte = mpi::byte();
        let mut channel = Channel {
            comm,
            byte,
            posted: VecDeque::new(),
            in_flight: VecDeque::new(),
            spare: VecDeque::new(),
            sent: vec![0; size],
            received: vec![0; size],
        };
        (0..POSTED).for_each(|_| channel.post(Slot::new()));
        (result == 0).then_some(channel)
    }

    fn post(&mut self, mut slot: Box<Slot>) {
        let [at, request] = slot.at();
        let any = abi().any_source as u32 as usize;
        // SAFETY: room for a message; the slot is boxed and stays in place until it has arrived.
        unsafe {
            mpi::call(table::MPI_Irecv, &[at, BYTES, self.byte, any, TAG, self.comm, request])
        };
        self.posted.push_back(slot);
    }

    /// Sends a message to a process.
    pub fn send(&mut self, to: u32, message: Message) {
        let Some(sent) = self.sent.get_mut(to as usize) else { return };
        *sent += 1;
        let mut slot = self.spare.pop_back().unwrap_or_else(Slot::new);
        slot.words = message.to_words();
        let [at, request] = slot.at();
        // SAFETY: the slot is boxed and stays in place until it is sent.
        unsafe {
            let words = [at, BYTES, self.byte, to as usize, TAG, self.comm, request];
            mpi::call(table::MPI_Isend, &words);
        }
        self.in_flight.push_back(slot);
        self.reap();
    }

    /// Reuses the slots of sends that are complete, in order.
    fn reap(&mut self) {
        while let Some(slot) = self.in_flight.front_mut() {
            if !slot.is_done(mpi::status_ignore()) {
                return;
            }
            self.spare.extend(self.in_flight.pop_front());
        }
    }

    /// The next message, if one has arrived.
    pub fn receive(&mut self) -> Option<(u32, Message)> {
        let mut status = Status::new();
        if !self.posted.front_mut()?.is_done(status.address()) {
            return None;
        }
        let slot = self.posted.pop_front()?;
        let message = Message::of_words(slot.words);
        self.post(slot);
        // SAFETY: MPI has filled the status in.
        let from = unsafe { mpi::status_fields(status.address(), 0) }?.source;
        *self.received.get_mut(usize::try_from(from).ok()?)? += 1;
        Some((from as u32, message?))
    }

    /// Receives the messages that are still in flight, and closes the channel. Collective; no process may send after it.
    pub fn close(mut self, mut receive: impl FnMut(u32, Message)) {
        let mut due = vec![0u64; self.received.len()];
        let [sent, due_at] = [self.sent.as_ptr() as usize, due.as_mut_ptr() as usize];
        let (word, byte) = (size_of::<u64>(), self.byte);
        // SAFETY: a word for each process, and room for one of each.
        unsafe {
            mpi::call(table::MPI_Alltoall, &[sent, word, byte, due_at, word, byte, self.comm])
        };
        while self.received.iter().zip(&due).any(|(received, due)| received < due) {
            match self.receive() {
                Some((from, message)) => receive(from, message),
                None => std::thread::yield_now(),
            }
        }
        while !self.in_flight.is_empty() {
            self.reap();
        }
        let ignore = mpi::status_ignore() as usize;
        for mut slot in std::mem::take(&mut self.posted) {
            let [_, request] = slot.at();
            // SAFETY: the agent's requests, for which no message is in flight.
            unsafe {
                mpi::call(table::MPI_Cancel, &[request]);
                mpi::call(table::MPI_Wait, &[request, ignore]);
            }
        }
        // SAFETY: the agent's communicator.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut self.comm as usize]) };
    }

    /// Begins a nonblocking barrier of all processes. Returns its request.
    pub fn barrier(&self) -> Option<usize> {
        let mut request = 0usize;
        // SAFETY: the agent's communicator, and room for a handle.
        let result =
            unsafe { mpi::call(table::MPI_Ibarrier, &[self.comm, &raw mut request as usize]) };
        (result == 0).then(|| mpi::handle(request))
    }
}
