//! How an MPI function affects message matching, and a call of such a function.

use crate::inside::entry::Entry;
use crate::inside::memory::{self, Handles, Statuses};
use crate::inside::next;
use refrain_mpi::abi::narrow_handle;
use refrain_mpilib::Abi;
use refrain_order::{Kind, Post};
use std::ffi::c_int;

use super::mpi;

/// How an MPI function affects message matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Initializes MPI.
    Begin,
    /// Finalizes MPI.
    End,
    /// Posts a receive and completes it.
    Receive(Kind),
    /// Posts a receive that completes later.
    Post,
    /// Makes a persistent receive.
    Init,
    /// Starts persistent requests.
    Start,
    /// Looks for a message.
    Probe(Kind),
    /// Completes requests, or inspects whether they are complete.
    Complete(Kind),
    /// Tests whether a partition of a partitioned receive has arrived.
    Arrive,
    /// Cancels an operation.
    Cancel,
    /// Frees a request.
    Free,
    /// Makes a generalized request, which the program completes.
    Generalized,
    /// Sends.
    Send(Mode),
    /// Makes a persistent send.
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
    /// The result depends on an order that is not recorded.
    Unsupported,
    /// Any other function; it may wait for other ranks.
    Other,
}

/// Which ranks depend on which after a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronization {
    /// No rank completes it before all have begun it.
    All,
    /// Some ranks may complete it early. Other ranks may still depend on them: they may forward data.
    Partial,
}

/// The mode of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `MPI_Send`: MPI decides whether it buffers.
    Standard,
    /// `MPI_Bsend`: uses the program's buffer.
    Buffered,
    /// `MPI_Ssend`: completes after the receive has started.
    Synchronous,
    /// `MPI_Rsend`: the receive is already posted.
    Ready,
}

/// A hooked function, and the positions of the arguments that matter ([`Role::ABSENT`] if it lacks one).
#[derive(Debug)]
pub struct Role {
    /// How it affects matching.
    pub act: Act,
    /// The number of the function.
    pub function: usize,
    /// Whether counts are large (`MPI_Count`).
    pub large: bool,
    /// The source of a receive.
    pub source: usize,
    /// The tag of a receive.
    pub tag: usize,
    /// The communicator.
    pub comm: usize,
    /// The new communicator.
    pub newcomm: usize,
    /// The matched message (`MPI_Message`).
    pub message: usize,
    /// The destination of a send.
    pub dest: usize,
    /// The tag of a send.
    pub sendtag: usize,
    /// The request, or the array of requests.
    pub request: usize,
    /// The number of requests; for a collective operation, the number of elements that each rank contributes.
    pub count: usize,
    /// The status, or the array of statuses.
    pub status: usize,
    /// The flag of a test or probe.
    pub flag: usize,
    /// The completed index, or the array of indices.
    pub index: usize,
    /// The number of completed indices.
    pub outcount: usize,
}

impl Role {
    /// The position of an argument that the function does not have.
    pub const ABSENT: usize = usize::MAX;
}

/// Where a call was made.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The thread's stream.
    pub stream: u32,
    /// The call site.
    pub site: u64,
}

/// A call of a hooked function.
pub struct Hooked<'a> {
    /// The function's role.
    pub role: &'static Role,
    /// The caller, and the name that was called (`MPI_…` or `PMPI_…`).
    pub entry: Entry,
    /// The arguments.
    pub words: &'a mut [usize],
    /// The ABI of the MPI library.
    pub abi: &'static Abi,
}

impl Hooked<'_> {
    /// Forwards the call.
    #[inline(always)]
    pub fn forward(&self) -> c_int {
        // SAFETY: the function that was called, with its arguments.
        unsafe { mpi::invoke(next::unhooked(self.entry.slot), self.words) }
    }

    /// Forwards the call with another status.
    #[inline(always)]
    pub fn forward_with_status(&mut self, status: Statuses) -> c_int {
        let given = self.replace(self.role.status, status as usize);
        let result = self.forward();
        self.replace(self.role.status, given);
        result
    }

    /// A copy of this call with the arguments reborrowed, for functions that are not inlined: the address of
    /// `self` does not escape to them, so the compiler can keep its fields in registers.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Hooked<'_> {
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

    /// The receive that this call posts. A function without source and tag receives a message that is already
    /// matched; both are 0 then.
    #[inline(always)]
    pub fn post(&self, site: u64, communicator: u32) -> Post {
        let given = |index: usize, any: c_int| {
            let word = self.words.get(index).map(|word| *word as c_int);
            word.map_or(Some(0), |word| (word != any).then_some(word))
        };
        let abi = self.abi;
        let source = given(self.role.source, abi.any_source);
        if source == Some(abi.proc_null) {
            // MPI has no choice, whatever the tag.
            return Post { site, communicator, source, tag: Some(0) };
        }
        Post { site, communicator, source, tag: given(self.role.tag, abi.any_tag) }
    }

    /// Whether it receives a message that a probe has matched.
    #[inline(always)]
    pub fn receives_matched(&self) -> bool {
        self.role.source == Role::ABSENT
    }

    /// The address and the number of the requests.
    #[inline(always)]
    pub fn requests(&self) -> (*mut u8, usize) {
        let at = self.word(self.role.request) as *mut u8;
        let n = match self.role.count {
            Role::ABSENT => 1,
            index => memory::count(self.word(index) as c_int),
        };
        if at.is_null() { (at, 0) } else { (at, n) }
    }

    /// The current request handle of a call with one request.
    #[inline(always)]
    pub fn request(&self) -> usize {
        let at = self.word(self.role.request) as Handles;
        // SAFETY: by the interface table, the argument is the address of a request.
        unsafe { memory::handle(at, 0, self.abi.handle_bytes) }.unwrap_or(0)
    }

    /// An `int` output.
    #[inline(always)]
    pub fn output(&self, index: usize) -> Option<c_int> {
        // SAFETY: by the interface table, that argument is the address of an int.
        unsafe { memory::int(self.word(index) as *mut c_int) }
    }

    /// Sets an `int` output.
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
