//! Messages that were taken out of MPI, and which one is meant by a clock.
//!
//! Every message is received aside as soon as it is there, so that senders of large ones do not
//! wait for receives that are held back. MPI keeps the order of messages of one source, tag and
//! communicator, and their clocks are told in that order too: the n-th of each belong together.
//!
//! Nothing is taken that was not told of: MPI has messages of its own on the program's
//! communicators, as Open MPI does when it makes intercommunicators.

use crate::inside::process;
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

/// A message.
pub struct EarlyMessage {
    /// Its content.
    pub bytes: Vec<u8>,
    /// What a matched probe writes into `MPI_ERROR`, if it does.
    pub error: Option<c_int>,
    request: usize,
}

/// All messages that nobody has received.
#[derive(Default)]
pub struct EarlyMessages {
    waiting: HashMap<(Name, u64), EarlyMessage>,
    /// How many messages of a name were taken, and how many told of.
    taken: HashMap<Name, u64>,
    told: HashMap<Name, u64>,
    /// Names of messages that were told of and not taken.
    due: Vec<Name>,
    /// How many messages a process has told of.
    heard: HashMap<u32, u64>,
    /// By sender and number.
    stamped: HashMap<(u32, u64), (Name, u64)>,
    /// What a probe writes into `MPI_ERROR`, if it does, by communicator and source: MPIs may treat ranks
    /// differently that are reached in different ways.
    probed: HashMap<(u32, i32), Option<c_int>>,
}

impl EarlyMessages {
    /// The next message of a sender has that name.
    pub fn hear(&mut self, sender: u32, communicator: u32, from: Envelope) {
        let name = (communicator, from.source, from.tag);
        let sequence = self.heard.entry(sender).or_default();
        let nth = self.told.entry(name).or_default();
        self.stamped.insert((sender, *sequence), (name, *nth));
        *sequence += 1;
        *nth += 1;
        self.due.push(name);
    }

    /// Takes all messages that have come.
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
        // SAFETY: a communicator of the program, and room for what is asked for.
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
        // SAFETY: room for the message that was matched, which stays where it is.
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
            // SAFETY: a request of our own, an int, and no status.
            let result =
                unsafe { mpi::call(table::MPI_Test, &[request, &raw mut flag as usize, ignore]) };
            if result == 0 && flag == 0 {
                return None;
            }
            early.request = 0;
        }
        Some((Envelope { source, tag }, key))
    }

    /// What is known of a message that has not come.
    pub fn describe(&self, stamp: &Stamp) -> String {
        let Some((name, nth)) = self.stamped.get(&(stamp.sender, stamp.sequence)) else {
            return " (nobody has told of it)".to_owned();
        };
        let (_, source, tag) = name;
        let taken = self.taken.get(name).copied().unwrap_or(0);
        let state = match self.waiting.get(&(*name, *nth)) {
            Some(_) => "is under way",
            None => "has not come",
        };
        format!(" (number {nth} from {source} with tag {tag}, {state}; {taken} have come)")
    }

    /// A message, if it has come: where from, how many bytes, and what a probe that finds it writes into
    /// `MPI_ERROR`, if it does.
    pub fn look(&mut self, stamp: &Stamp) -> Option<(Envelope, usize, Option<c_int>)> {
        let (from, key) = self.find(stamp)?;
        let ((communicator, source, _), _) = key;
        let error = self.probed.get(&(communicator, source)).copied().flatten();
        Some((from, self.waiting.get(&key)?.bytes.len(), error))
    }

    /// Takes a message out, if it has come.
    pub fn fetch(&mut self, stamp: &Stamp) -> Option<(Envelope, EarlyMessage)> {
        let (from, key) = self.find(stamp)?;
        self.stamped.remove(&(stamp.sender, stamp.sequence));
        Some((from, self.waiting.remove(&key)?))
    }
}

/// Messages to oneself: how receives that were held back get theirs.
///
/// The program's receive is posted on a communicator of our own, with a tag that no other has. So
/// its request is MPI's own, and what is sent to it there is received by MPI into the program's
/// buffer, with its datatype: counts and truncation come out as they should.
pub struct Redelivery {
    /// The communicator.
    pub comm: usize,
    free: Vec<c_int>,
    next: c_int,
    flying: Vec<(EarlyMessage, usize)>,
}

impl Redelivery {
    /// With a communicator of its own.
    pub fn open() -> Option<Redelivery> {
        let own = process::predefined("MPI_COMM_SELF")?;
        let mut comm = 0usize;
        let handler = process::predefined("MPI_ERRORS_RETURN").unwrap_or(0);
        // SAFETY: predefined handles, and room for one.
        unsafe {
            if mpi::call(table::MPI_Comm_dup, &[own, &raw mut comm as usize]) != 0 {
                return None;
            }
            // Errors are those of the program's communicators, and told there.
            mpi::call(table::MPI_Comm_set_errhandler, &[comm, handler]);
        }
        Some(Redelivery { comm: mpi::handle(comm), free: Vec::new(), next: 0, flying: Vec::new() })
    }

    /// A tag that nobody has.
    pub fn tag(&mut self) -> c_int {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next
        })
    }

    /// A tag is free again.
    pub fn release(&mut self, tag: c_int) {
        self.free.push(tag);
    }

    /// Sends a message to the receive of that tag.
    pub fn give(&mut self, early: EarlyMessage, tag: c_int) {
        let (at, count) = (early.bytes.as_ptr() as usize, early.bytes.len());
        let large = i32::try_from(count).is_err();
        let mut request = 0;
        let words = [at, count, mpi::packed(), 0, tag as usize, self.comm];
        split::isend(&words, large, Mode::Standard, &mut request);
        self.flying.push((early, request));
        self.land();
    }

    /// Forgets what was received.
    pub fn land(&mut self) {
        let ignore = mpi::status_ignore() as usize;
        self.flying.retain_mut(|(_, request)| {
            let mut flag: c_int = 0;
            let words = [&raw mut *request as usize, &raw mut flag as usize, ignore];
            // SAFETY: a request of our own, an int, and no status.
            unsafe { mpi::call(table::MPI_Test, &words) == 0 && flag == 0 }
        });
    }

    /// Nothing is given any more.
    pub fn close(mut self) {
        self.land();
        for (early, _) in std::mem::take(&mut self.flying) {
            // MPI may still read it.
            std::mem::forget(early);
        }
        // SAFETY: a communicator of our own.
        unsafe { mpi::call(table::MPI_Comm_free, &[&raw mut self.comm as usize]) };
    }
}
