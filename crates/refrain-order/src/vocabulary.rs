//! What a program asks of MPI, and what MPI answers, as plain data.
//!
//! These are the words that the agent, the recorder and the replayer share. They hold nothing of
//! MPI's handles: communicators are numbers of the agent's, sites are whatever names a place in
//! the program in the same way in every run (a hash of module and offset, never an address).

use std::fmt;

use crate::error::OrderError;

/// A call that receives, or learns whether something was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)] // They are MPI's own names.
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

/// What of its requests a call may complete.
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

    /// Whether it may return without having found anything.
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

/// A matching call, as the program makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// Its kind.
    pub kind: Kind,
    /// Its call site.
    pub site: u64,
    /// How many requests it was given; 0 where the kind has no array.
    pub count: u32,
}

/// What a matching call that did not fail completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed<'a> {
    /// Everything it was given, or the only thing it could.
    All,
    /// Nothing, as no request was active (`MPI_UNDEFINED`).
    Undefined,
    /// These indices of its array, in the order reported. Of a call that completes all it is given:
    /// these alone, because of an error.
    These(&'a [u32]),
}

/// A receive or a probe, as it is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Post {
    /// Its call site.
    pub site: u64,
    /// The agent's number of the communicator, the same in every run.
    pub communicator: u32,
    /// The source in the communicator, or nothing for `MPI_ANY_SOURCE`.
    pub source: Option<i32>,
    /// The tag, or nothing for `MPI_ANY_TAG`.
    pub tag: Option<i32>,
}

impl Post {
    /// Whether MPI has a choice.
    #[inline]
    pub fn is_wild(&self) -> bool {
        self.source.is_none() || self.tag.is_none()
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Envelope {
    /// The rank in the communicator.
    pub source: i32,
    /// The tag.
    pub tag: i32,
}

/// What became of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchResult {
    /// It received this message.
    Matched(Envelope),
    /// It was cancelled.
    Cancelled,
    /// No message came, or the record ends before one was seen.
    Never,
}

/// Identifies a posted operation until its match result is known. The agent keeps it with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The thread that posted it.
    pub stream: u32,
    /// Whether it was a wildcard receive.
    pub wild: bool,
    /// Its index among those of its sort in the stream.
    pub number: u64,
}

/// What a method that stamps messages has put on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The process that sent it, by a number that is the same in every run.
    pub sender: u32,
    /// Its index among the messages of that process to this one, over all communicators and tags.
    pub sequence: u64,
    /// The sender's logical clock.
    pub clock: u64,
}

/// A receive or a probe that a matching call has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// What it was posted as.
    pub ticket: Ticket,
    /// What became of it.
    pub match_result: MatchResult,
    /// The stamp of the message, if it has one.
    pub stamp: Option<Stamp>,
}
