//! How an MPI function affects message matching, and a call of such a function.

use crate::inside::entry::Entry;
use crate::inside::memory::{self, Handles, Statuses};
use crate::inside::next;
use crate::inside::process::Abi;
use refrain_mpi::abi::narrow_handle;
use refrain_order::{Kind, Post};
use std::ffi::c_int;

use super::mpi;

/// How an MPI function affects message matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// MPI begins.
    Begin,
    /// MPI ends.
    End,
    /// Posts a receive and completes it.
    Receive(Kind),
    /// Posts a receive that completes later.
    Post,
    /// Describes a receive that is posted later, perhaps often.
    Init,
    /// Posts those.
    Start,
    /// Looks for a message.
    Probe(Kind),
    /// Completes operations, or learns of their completion.
    Complete(Kind),
    /// Learns whether a part of an operation is complete.
    Arrive,
    /// Cancels an operation.
    Cancel,
    /// Frees a request.
    Free,
    /// Makes a request that the program completes itself.
    Generalized,
    /// Sends.
    Send(Mode),
    /// Describes what is sent later, perhaps often.
    InitSend,
    /// Frees a communicator.
    FreeComm,
    /// Makes a communicator, collectively over the old one (`parent`), or over the new one (`new`).
    #[allow(missing_docs)]
    MakeComm { parent: bool, new: bool },
    /// A collective operation on a communicator, with which Lamport clocks are exchanged.
    Collective(Synchronization),
    /// Synchronizes with other ranks in a way that carries no Lamport clock.
    UntrackedSync,
    /// Its result depends on an order that is not recorded.
    Unsupported,
    /// Does something else, and may wait for other ranks.
    Other,
}

/// Which ranks depend on which after a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronization {
    /// No rank completes it before all have begun it.
    All,
    /// Some ranks may complete it early. Others may depend on them, if only because data is forwarded by
    /// them.
    Partial,
}

/// How something is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As MPI likes.
    Standard,
    /// From the program's buffer.
    Buffered,
    /// Complete when it is received.
    Synchronous,
    /// The receive is posted.
    Ready,
}

/// What a function is, and where among its arguments stand those that matter.
#[derive(Debug)]
pub struct Role {
    /// What it is.
    pub act: Act,
    /// Its number.
    pub function: usize,
    /// Whether counts are large.
    pub large: bool,
    /// Where the source of a receive is.
    pub source: usize,
    /// Its tag.
    pub tag: usize,
    /// The communicator.
    pub comm: usize,
    /// The communicator that is made.
    pub newcomm: usize,
    /// The message that was matched.
    pub message: usize,
    /// Where what is sent goes.
    pub dest: usize,
    /// Its tag.
    pub sendtag: usize,
    /// The request, or several.
    pub request: usize,
    /// How many; or of what everybody contributes to a collective operation.
    pub count: usize,
    /// The status, or several.
    pub status: usize,
    /// Whether something was found.
    pub flag: usize,
    /// Which, or an array of them.
    pub index: usize,
    /// How many of them.
    pub outcount: usize,
}

impl Role {
    /// No argument of that sort.
    pub const NOWHERE: usize = usize::MAX;
}

/// Where a call was made.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The thread's stream.
    pub stream: u32,
    /// The call site.
    pub site: u64,
}

/// A call of such a function.
pub struct Hooked<'a> {
    /// What the function is.
    pub role: &'static Role,
    /// Where it was called, and by which name.
    pub entry: Entry,
    /// Its arguments.
    pub words: &'a mut [usize],
    /// This MPI's values.
    pub abi: &'static Abi,
}

impl Hooked<'_> {
    /// Forwards the call.
    #[inline(always)]
    pub fn forward(&self) -> c_int {
        // SAFETY: the function that was called, with its arguments.
        unsafe { mpi::invoke(next::behind(self.entry.slot), self.words) }
    }

    /// Forwards the call with another status.
    #[inline(always)]
    pub fn forward_with_status(&mut self, status: Statuses) -> c_int {
        let given = self.replace(self.role.status, status as usize);
        let result = self.forward();
        self.replace(self.role.status, given);
        result
    }

    /// The same call for somebody else to look at. The compiler then knows that what is in this one
    /// stays.
    #[inline(always)]
    pub fn lent(&mut self) -> Hooked<'_> {
        Hooked { role: self.role, entry: self.entry, words: self.words, abi: self.abi }
    }

    /// An argument; 0 if the function has none at this index.
    #[inline(always)]
    pub fn word(&self, index: usize) -> usize {
        self.words.get(index).copied().unwrap_or(0)
    }

    /// Replaces an argument, and returns the old one.
    #[inline(always)]
    pub fn replace(&mut self, index: usize, word: usize) -> usize {
        self.words.get_mut(index).map_or(0, |at| std::mem::replace(at, word))
    }

    /// The communicator.
    #[inline(always)]
    pub fn comm(&self) -> usize {
        narrow_handle(self.abi.handle_bytes, self.word(self.role.comm))
    }

    /// The receive that is posted; without source and tag it is of a message known already.
    #[inline(always)]
    pub fn post(&self, site: u64, communicator: u32) -> Post {
        let given = |index: usize, any: c_int| {
            let word = self.words.get(index).map(|word| *word as c_int);
            word.map_or(Some(0), |word| (word != any).then_some(word))
        };
        let abi = self.abi;
        let source = given(self.role.source, abi.any_source);
        if source == Some(abi.proc_null) {
            // There is nothing to choose, whatever the tag.
            return Post { site, communicator, source, tag: Some(0) };
        }
        Post { site, communicator, source, tag: given(self.role.tag, abi.any_tag) }
    }

    /// Whether it receives a message that was matched before.
    #[inline(always)]
    pub fn takes_known(&self) -> bool {
        self.role.source == Role::NOWHERE
    }

    /// Where the requests are, and how many.
    #[inline(always)]
    pub fn requests(&self) -> (*mut u8, usize) {
        let at = self.word(self.role.request) as *mut u8;
        let n = match self.role.count {
            Role::NOWHERE => 1,
            index => memory::count(self.word(index) as c_int),
        };
        if at.is_null() { (at, 0) } else { (at, n) }
    }

    /// The request of a call that has one, as it is now.
    #[inline(always)]
    pub fn request(&self) -> usize {
        let at = self.word(self.role.request) as Handles;
        // SAFETY: the table says a request is there.
        unsafe { memory::handle(at, 0, self.abi.handle_bytes) }.unwrap_or(0)
    }

    /// An `int` that the call gave by address.
    #[inline(always)]
    pub fn output(&self, index: usize) -> Option<c_int> {
        // SAFETY: the table says that argument is the address of an int.
        unsafe { memory::int(self.word(index) as *mut c_int) }
    }

    /// Gives an `int` by address.
    #[inline(always)]
    pub fn set_output(&self, index: usize, value: c_int) {
        let at = self.word(index) as *mut c_int;
        if !at.is_null() {
            // SAFETY: as in `output`.
            unsafe { at.write_unaligned(value) };
        }
    }

    /// The status, or the first of several.
    #[inline(always)]
    pub fn status(&self) -> Statuses {
        self.word(self.role.status) as Statuses
    }

    /// Whether the program ignores statuses.
    #[inline(always)]
    pub fn ignores_status(&self, has_array: bool) -> bool {
        let abi = self.abi;
        let ignored = if has_array { abi.statuses_ignore } else { abi.status_ignore };
        self.word(self.role.status) == ignored
    }
}
