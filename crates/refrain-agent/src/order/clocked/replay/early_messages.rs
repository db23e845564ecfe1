//! Messages that the agent has received early, before the program's receives get them.
//!
//! The agent receives every message as soon as it arrives, so that senders of large messages do not wait for receives
//! that are held back. MPI keeps the order of messages with the same source, tag and communicator, and their notes
//! arrive in that order too: the n-th message belongs to the n-th note.
//!
//! Only messages that were announced by a note are received: MPI may have its own messages on the program's
//! communicators, as Open MPI does when it makes intercommunicators.

use crate::inside::library::predefined;
use crate::table;
use refrain_order::{Envelope, Stamp};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_int;

use super::super::super::error_field;
use super::super::super::mpi::{self, Status};
use super::super::super::role::Mode;
use super::super::super::split;
use super::super::comms::Comms;

/// Communicator, source and tag.
type Name = (u32, i32, i32);

/// A message that was received early.
pub struct EarlyMessage {
    /// Its packed data.
    pub bytes: Vec<u8>,
    /// What a matched probe writes to `MPI_ERROR`, if it does.
    pub error: Option<c_int>,
    request: usize,
}

/// All messages that were announced or received early, and not delivered.
#[derive(Default)]
pub struct EarlyMessages {
    waiting: HashMap<(Name, u64), EarlyMessage>,
    /// How many messages of a name were received early, and how many were announced.
    taken: HashMap<Name, u64>,
    announced: HashMap<Name, u64>,
    /// Names of messages that were announced and not received.
    due: Vec<Name>,
    /// How many messages each process has announced.
    announced_by: HashMap<u32, u64>,
    /// Name and position of each message, by sender and sequence number.
    stamped: HashMap<(u32, u64), (Name, u64)>,
    /// What a probe writes to `MPI_ERROR`, if it does, by communicator and source: it may depend on the transport.
    probed: HashMap<(u32, i32), Option<c_int>>,
}

impl EarlyMessages {
    /// A note has announced the next message of a sender.
    pub fn announce(&mut self, sender: u32, communicator: u32, from: Envelope) {
        let name = (communicator, from.source, from.tag);
        let sequence = self.announced_by.entry(sender).or_default();
        let nth = self.announced.entry(name).or_default();
        self.stamped.insert((sender, *sequence), (name, *nth));
        *sequence += 1;
        *nth += 1;
        self.due.push(name);
    }

    /// Receives all messages that have arrived.
    pub fn take(&mut self, comms: &Comms) {
        let mut due = std::mem::take(&mut self.due);
        due.retain(|name| comms.handle(name.0).is_none_or(|comm| !self.take_one(comm, *name)));
        self.due = due;
    }

    fn take_one(&mut self, comm: usize, name: Name) -> bool {
        let [source, tag] = [name.1, name.2].map(|word| word as u32 as usize);
        let (mut flag, mut message, mut status) = (0 as c_int, 0usize, Status::new());
        let [flag_at, message_at] = [&raw mut flag as usize, &raw mut message as usize];
        error_field::mark(&mut status);
        let address = status.address() as usize;
        let words = [source, tag, comm, flag_at, message_at, address];
        let mut count: i64 = 0;
        // SAFETY: a communicator of the program, and room for the outputs.
        unsafe {
            if let Entry::Vacant(unknown) = self.probed.entry((name.0, name.1)) {
                let words = [source, tag, comm, flag_at, address];
                if mpi::call(table::MPI_Iprobe, &words) != 0 || flag == 0 {
                    return false;
                }
                unknown.insert(error_field::written(&mut status));
                error_field::mark(&mut status);
            }
            if mpi::call(table::MPI_Improbe, &words) != 0 || flag == 0 {
                return false;
            }
            mpi::call(table::MPI_Get_elements_x, &[address, mpi::byte(), &raw mut count as usize]);
        }
        let count = usize::try_from(count).unwrap_or(0);
        let error = error_field::written(&mut status);
        let mut early = EarlyMessage { bytes: vec![0; count.max(1)], error, request: 0 };
        early.bytes.truncate(count);
        let large = i32::try_from(count).is_err();
        let function = if large { table::MPI_Imrecv_c } else { table::MPI_Imrecv };
        let at = early.bytes.as_mut_ptr() as usize;
        let mut request = 0usize;
        // SAFETY: room for the matched message, on the heap, where it stays.
        unsafe {
            mpi::call(function, &[at, count, mpi::packed(), message_at, &raw mut request as usize]);
        }
        early.request = request;
        let nth = self.taken.entry(name).or_default();
        self.waiting.insert((name, *nth), early);
        *nth += 1;
        true
    }

    fn find(&mut self, stamp: &Stamp) -> Option<(Envelope, (Name, u64))> {
        let key = *self.stamped.get(&(stamp.sender, stamp.sequence))?;
        let ((_, source, tag), _) = key;
        let early = self.waiting.get_mut(&key)?;
        if early.request != 0 {
            let mut flag: c_int = 0;
            let ignore = mpi::status_ignore() as usize;
            let request = &raw mut early.request as usize;
            // SAFETY: the agent's request, an int, and no status.
            let result =
                unsafe { mpi::call(table::MPI_Test, &[request, &raw mut flag as usize, ignore]) };
            if result == 0 && flag == 0 {
                return None;
            }
            early.request = 0;
        }
        Some((Envelope { source, tag }, key))
    }

    /// Describes a message that is not complete, for the report of a wait.
    pub fn describe(&self, stamp: &Stamp) -> String {
        let Some((name, nth)) = self.stamped.get(&(stamp.sender, stamp.sequence)) else {
            return " (not announced by its sender)".to_owned();
        };
        let (_, source, tag) = name;
        let taken = self.taken.get(name).copied().unwrap_or(0);
        let state = match self.waiting.get(&(*name, *nth)) {
            Some(_) => "is being received",
            None => "has not arrived",
        };
        format!(" (number {nth} from {source} with tag {tag}, {state}; {taken} have arrived)")
    }

    /// A message that has arrived: its envelope, its length, and what a probe writes to `MPI_ERROR`, if it does.
    pub fn look(&mut self, stamp: &Stamp) -> Option<(Envelope, usize, Option<c_int>)> {
        let (from, key) = self.find(stamp)?;
        let ((communicator, source, _), _) = key;
        let error = self.probed.get(&(communicator, source)).copied().flatten();
        Some((from, self.waiting.get(&key)?.bytes.len(), error))
    }

    /// Takes out a message that has arrived.
    pub fn fetch(&mut self, stamp: &Stamp) -> Option<(Envelope, EarlyMessage)> {
        let (from, key) = self.find(stamp)?;
        self.stamped.remove(&(stamp.sender, stamp.sequence));
        Some((from, self.waiting.remove(&key)?))
    }
}

/// Delivers early messages to the program's receives, as messages to the own process.
///
/// The program's receive is posted on the agent's communicator, with a unique tag. So the program has a request of
/// MPI, and MPI receives the message into the program's buffer with the program's datatype: counts and truncation are
/// as in the recorded run.
pub struct Redelivery {
    /// The communicator.
    pub comm: usize,
    free: Vec<c_int>,
    next: c_int,
    in_flight: Vec<(EarlyMessage, usize)>,
}

impl Redelivery {
    /// Makes the communicator.
    pub fn open() -> Option<Redelivery> {
        let comm_self = predefined("MPI_COMM_SELF")?;
        let mut comm = 0usize;
        let handler = predefined("MPI_ERRORS_RETURN").unwrap_or(0);
        // SAFETY: predefined handles, and room for one.
        unsafe {
            if mpi::call(table::MPI_Comm_dup, &[comm_self, &raw mut comm as usize]) != 0 {
                return None;
            }
            // Errors are raised on the program's communicators instead.
            mpi::call(table::MPI_Comm_set_errhandler, &[comm, handler]);
        }
        Some(Redelivery {
            comm: mpi::handle(comm),
            free: Vec::new(),
            next: 0,
            in_flight: Vec::new(),
        })
    }

    /// An unused tag.
    pub fn tag(&mut self) -> c_int {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next
        })
    }

    /// Makes a tag available again.
    pub fn release(&mut self, tag: c_int) {
        self.free.push(tag);
    }

    /// Sends a message to the receive with this tag.
    pub fn send(&mut self, early: EarlyMessage, tag: c_int) {
        let (at, count) = (early.bytes.as_ptr() as usize, early.bytes.len());
        let large = i32::try_from(count).is_err();
        let mut request = 0;
        let words = [at, count, mpi::packed(), 0, tag as usize, self.comm];
        split::isend(&words, large, Mode::Standard, &mut request);
        self.in_flight.push((early, request));
        self.reap();
    }

    /// Drops messages whose sends are complete.
    pub fn reap(&mut self) {
        let ignore = mpi::status_ignore() as usize;
        self.in_flight.retain_mut(|(_, request)| {
            let mut flag: c_int = 0;
            let words = [&raw mut *request as usize, &raw mut flag as usize, ignore];
            // SAFETY: the agent's request, an int, and no status.
            unsafe { mpi::call(table::MPI_Test, &words) == 0 && flag == 0 }
        });
    }

    /// Frees the communicator; nothing is delivered after this.
    pub fn close(mut self) {
        self.reap();
        for (early, _) in std::mem::take(&mut self.in_flight) {
            // MPI may still read the message.
            std::mem::forget(early);
        }
        // SAFETY: the agent's communicator.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut self.comm as usize]) };
    }
}
