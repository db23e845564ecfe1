//! The calls of a program and MPI's outcomes, as plain data.
//!
//! The agent, recorders and replayers share these types. They contain no MPI handles: communicators are numbers that
//! the agent assigns, and call sites are numbers that are the same in every run (a hash of module and offset, never
//! an address).

use std::fmt;

use crate::error::OrderError;

/// The kind of a completing call: a call that receives, probes, or completes or inspects requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // These are MPI's names.
pub enum Kind {
    Recv,
    Sendrecv,
    Mrecv,
    Probe,
    Mprobe,
    Iprobe,
    Improbe,
    Wait,
    Waitall,
    Waitany,
    Waitsome,
    Test,
    Testall,
    Testany,
    Testsome,
    GetStatus,
    GetStatusAll,
    GetStatusAny,
    GetStatusSome,
    Parrived,
}

/// Which of its requests a call may complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// There is no choice: all of them, or the only one.
    All,
    /// One of them.
    One,
    /// At least one of them.
    Some,
}

impl Kind {
    /// Every kind, by number.
    pub const ALL: [Kind; 20] = [
        Kind::Recv,
        Kind::Sendrecv,
        Kind::Mrecv,
        Kind::Probe,
        Kind::Mprobe,
        Kind::Iprobe,
        Kind::Improbe,
        Kind::Wait,
        Kind::Waitall,
        Kind::Waitany,
        Kind::Waitsome,
        Kind::Test,
        Kind::Testall,
        Kind::Testany,
        Kind::Testsome,
        Kind::GetStatus,
        Kind::GetStatusAll,
        Kind::GetStatusAny,
        Kind::GetStatusSome,
        Kind::Parrived,
    ];

    /// The kind of that number.
    pub fn from_number(number: u8) -> Result<Kind, OrderError> {
        Self::ALL.get(usize::from(number)).copied().ok_or(OrderError::Unknown("kind of call"))
    }

    /// Whether it may fail: return without having found anything.
    #[inline]
    pub fn polls(self) -> bool {
        use Kind::*;
        match self {
            Iprobe | Improbe | Test | Testall | Testany | Testsome | Parrived => true,
            GetStatus | GetStatusAll | GetStatusAny | GetStatusSome => true,
            Recv | Sendrecv | Mrecv | Probe | Mprobe => false,
            Wait | Waitall | Waitany | Waitsome => false,
        }
    }

    /// What it chooses from its requests.
    #[inline]
    pub fn choice(self) -> Choice {
        use Kind::*;
        match self {
            Waitany | Testany | GetStatusAny => Choice::One,
            Waitsome | Testsome | GetStatusSome => Choice::Some,
            _ => Choice::All,
        }
    }

    /// Whether it is given an array of requests.
    #[inline]
    pub fn has_array(self) -> bool {
        use Kind::*;
        self.choice() != Choice::All || matches!(self, Waitall | Testall | GetStatusAll)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Sources of values that are recorded, and replayed in the same order.
pub mod source {
    /// `MPI_Wtime`: the bits of a floating-point number of seconds.
    pub const WTIME: u8 = 0;
    /// `clock_gettime`, in nanoseconds.
    pub const CLOCK: u8 = 1;
    /// `gettimeofday`, in microseconds.
    pub const TIME_OF_DAY: u8 = 2;
    /// `time`, in seconds.
    pub const TIME: u8 = 3;
    /// `rand`.
    pub const RAND: u8 = 4;
    /// `random`.
    pub const RANDOM: u8 = 5;
    /// Random bytes, eight at a time.
    pub const BYTES: u8 = 6;
    /// Whether an attempt to get a lock succeeded.
    pub const TRIED: u8 = 7;

    /// Whether values of this source are times.
    pub fn is_clock(which: u8) -> bool {
        which <= TIME
    }
}

/// A completing call of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its kind.
    pub kind: Kind,
    /// Its call site.
    pub site: u64,
    /// The number of its requests; 0 if the kind has no array.
    pub count: u32,
}

/// What a successful completing call completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// All of its requests, or its only message.
    All,
    /// Nothing, because no request was active (`MPI_UNDEFINED`).
    Undefined,
    /// These indices of its array, in the order reported. For a call that completes all of its requests: only these,
    /// because of an error.
    These(&'a [u32]),
}

/// A receive or a probe, as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Post {
    /// Its call site.
    pub site: u64,
    /// The agent's number of the communicator, the same in every run.
    pub communicator: u32,
    /// The source in the communicator; `None` is `MPI_ANY_SOURCE`.
    pub source: Option<i32>,
    /// The tag; `None` is `MPI_ANY_TAG`.
    pub tag: Option<i32>,
}

impl Post {
    /// Whether MPI has a choice.
    #[inline]
    pub fn is_wild(&self) -> bool {
        self.source.is_none() || self.tag.is_none()
    }
}

/// The source and tag of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Envelope {
    /// The rank in the communicator.
    pub source: i32,
    /// The tag.
    pub tag: i32,
}

/// The match result of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchResult {
    /// It received this message.
    Matched(Envelope),
    /// It was cancelled.
    Cancelled,
    /// It matched no message, or the record ends before its match was observed.
    Never,
}

/// Identifies a posted operation until its match result is known. The agent keeps it with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The thread that posted it.
    pub stream: u32,
    /// Whether it was a wildcard receive.
    pub wild: bool,
    /// Its index among the wildcard receives, or among the other operations, of the stream.
    pub number: u64,
}

/// The stamp of a message, by the clock method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The sender: a number of the process that is the same in every run.
    pub sender: u32,
    /// Its index among the messages of that process to this one, over all communicators and tags.
    pub sequence: u64,
    /// The sender's Lamport clock.
    pub clock: u64,
}

/// A receive or a probe that a completing call has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its ticket.
    pub ticket: Ticket,
    /// Its match result.
    pub match_result: MatchResult,
    /// The stamp of the message, if it has one.
    pub stamp: Option<Stamp>,
}
