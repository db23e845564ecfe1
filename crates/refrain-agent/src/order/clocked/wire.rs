//! What processes tell each other, and the channel for it.
//!
//! A duplicate of the world with one tag carries all of it, so MPI keeps the order of what one
//! process tells another, across the program's communicators. Everything told is three words long,
//! which is sent at once by any MPI.
//!
//! Receives are posted in advance: what comes lies in them, and asking the oldest is all it costs
//! to learn of it. What comes when all are used up waits in MPI, and is received when the oldest
//! was read and posted anew; so the order stays.

use crate::inside::memory::Statuses;
use crate::inside::process::abi;
use crate::table;
use refrain_order::clock::Note;
use std::collections::VecDeque;
use std::ffi::c_int;

use super::super::mpi::{self, Status};

/// What one process tells another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// A matter of the method.
    Note(Note),
    /// The sender is in a collective operation of that communicator: the how manieth, and its
    /// clock.
    Here {
        /// The communicator's number.
        communicator: u32,
        /// The how manieth of it.
        serial: u64,
        /// The sender's clock.
        clock: u64,
    },
}

type Words = [u64; 3];
/// Bytes of what is told.
const BYTES: usize = size_of::<Words>();
/// The tag of everything.
const TAG: usize = 1;
/// Receives posted in advance.
const POSTED: usize = 64;

const SENT: u64 = 0;
const ASK: u64 = 1;
const NOTHING: u64 = 2;
const SURELY_NOTHING: u64 = 3;
const AGAIN: u64 = 4;
const HERE: u64 = 5;

impl Word {
    fn to_words(self) -> Words {
        let head = |kind: u64, number: u32| kind | u64::from(number) << 32;
        match self {
            Word::Note(Note::Sent { clock, communicator, source, tag }) => {
                let from = u64::from(source as u32) << 32 | u64::from(tag as u32);
                [head(SENT, communicator), clock, from]
            }
            Word::Note(Note::Ask { origin, serial, clock }) => [head(ASK, origin), clock, serial],
            Word::Note(Note::Nothing { origin, serial, clock, sure }) => {
                let kind = if sure { SURELY_NOTHING } else { NOTHING };
                [head(kind, origin), clock, serial]
            }
            Word::Note(Note::Again { origin, serial }) => [head(AGAIN, origin), 0, serial],
            Word::Here { communicator, serial, clock } => [head(HERE, communicator), clock, serial],
        }
    }

    fn of_words([head, clock, serial]: Words) -> Option<Word> {
        let number = (head >> 32) as u32;
        let nothing = |sure| Note::Nothing { origin: number, serial, clock, sure };
        Some(match head & 0xff {
            SENT => {
                let (source, tag) = ((serial >> 32) as i32, serial as u32 as i32);
                Word::Note(Note::Sent { clock, communicator: number, source, tag })
            }
            ASK => Word::Note(Note::Ask { origin: number, serial, clock }),
            NOTHING => Word::Note(nothing(false)),
            SURELY_NOTHING => Word::Note(nothing(true)),
            AGAIN => Word::Note(Note::Again { origin: number, serial }),
            HERE => Word::Here { communicator: number, serial, clock },
            _ => return None,
        })
    }
}

/// Three words under way. MPI knows where they are, so they stay there.
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

    /// Whether it is done.
    fn is_done(&mut self, status: Statuses) -> bool {
        let mut flag: c_int = 0;
        let words = [&raw mut self.request as usize, &raw mut flag as usize, status as usize];
        // SAFETY: a request of our own, an int, and a status or none.
        unsafe { mpi::call(table::MPI_Test, &words) == 0 && flag != 0 }
    }
}

/// The channel.
pub struct Channel {
    comm: usize,
    byte: usize,
    /// In the order they were posted.
    posted: VecDeque<Box<Slot>>,
    /// In the order they were sent.
    flying: VecDeque<Box<Slot>>,
    /// Not in use; boxed, as what is in use is known to MPI by its address.
    spare: VecDeque<Box<Slot>>,
    /// How much was told to each process, and by each.
    told: Vec<u64>,
    heard: Vec<u64>,
}

impl Channel {
    /// Opens it, together with all others of the world.
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
            flying: VecDeque::new(),
            spare: VecDeque::new(),
            told: vec![0; size],
            heard: vec![0; size],
        };
        (0..POSTED).for_each(|_| channel.post(Slot::new()));
        (result == 0).then_some(channel)
    }

    fn post(&mut self, mut slot: Box<Slot>) {
        let [at, request] = slot.at();
        let any = abi().any_source as u32 as usize;
        // SAFETY: room for what comes, which stays where it is until it has come.
        unsafe {
            mpi::call(table::MPI_Irecv, &[at, BYTES, self.byte, any, TAG, self.comm, request])
        };
        self.posted.push_back(slot);
    }

    /// Tells a process something.
    pub fn tell(&mut self, to: u32, word: Word) {
        let Some(told) = self.told.get_mut(to as usize) else { return };
        *told += 1;
        let mut slot = self.spare.pop_back().unwrap_or_else(Slot::new);
        slot.words = word.to_words();
        let [at, request] = slot.at();
        // SAFETY: words that stay where they are until they are sent.
        unsafe {
            let words = [at, BYTES, self.byte, to as usize, TAG, self.comm, request];
            mpi::call(table::MPI_Isend, &words);
        }
        self.flying.push_back(slot);
        self.land();
    }

    /// Forgets what was sent, in order.
    fn land(&mut self) {
        while let Some(slot) = self.flying.front_mut() {
            if !slot.is_done(mpi::status_ignore()) {
                return;
            }
            self.spare.extend(self.flying.pop_front());
        }
    }

    /// What was told next, if something was.
    pub fn hear(&mut self) -> Option<(u32, Word)> {
        let mut status = Status::new();
        if !self.posted.front_mut()?.is_done(status.address()) {
            return None;
        }
        let slot = self.posted.pop_front()?;
        let word = Word::of_words(slot.words);
        self.post(slot);
        // SAFETY: MPI has filled the status in.
        let from = unsafe { mpi::status_fields(status.address(), 0) }?.source;
        *self.heard.get_mut(usize::try_from(from).ok()?)? += 1;
        Some((from as u32, word?))
    }

    /// All have stopped telling: hears what is still under way, and closes.
    pub fn close(mut self, mut hear: impl FnMut(u32, Word)) {
        let mut due = vec![0u64; self.heard.len()];
        let [told, due_at] = [self.told.as_ptr() as usize, due.as_mut_ptr() as usize];
        let (word, byte) = (size_of::<u64>(), self.byte);
        // SAFETY: a word for each process, and room for one of each.
        unsafe {
            mpi::call(table::MPI_Alltoall, &[told, word, byte, due_at, word, byte, self.comm])
        };
        while self.heard.iter().zip(&due).any(|(heard, due)| heard < due) {
            match self.hear() {
                Some((from, word)) => hear(from, word),
                None => std::thread::yield_now(),
            }
        }
        while !self.flying.is_empty() {
            self.land();
        }
        let ignore = mpi::status_ignore() as usize;
        for mut slot in std::mem::take(&mut self.posted) {
            let [_, request] = slot.at();
            // SAFETY: requests of our own, for which nothing comes any more.
            unsafe {
                mpi::call(table::MPI_Cancel, &[request]);
                mpi::call(table::MPI_Wait, &[request, ignore]);
            }
        }
        // SAFETY: a communicator of our own.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut self.comm as usize]) };
    }

    /// A barrier of all that does not wait: its request.
    pub fn barrier(&self) -> Option<usize> {
        let mut request = 0usize;
        // SAFETY: a communicator of our own, and room for a handle.
        let result =
            unsafe { mpi::call(table::MPI_Ibarrier, &[self.comm, &raw mut request as usize]) };
        (result == 0).then(|| mpi::handle(request))
    }
}
