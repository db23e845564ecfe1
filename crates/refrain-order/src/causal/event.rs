//! The decoded contents of a record: plain lists, one block at a time.

use crate::vocabulary::{Choice, Envelope, Kind, MatchResult};

/// The constant part of a call: kind and call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallShape {
    /// Their kind.
    pub kind: Kind,
    /// Their call site.
    pub site: u64,
}

/// The constant part of a wildcard receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostShape {
    /// Their call site.
    pub site: u64,
    /// Their communicator.
    pub communicator: u32,
    /// Whether the source is `MPI_ANY_SOURCE`.
    pub any_source: bool,
    /// Whether the tag is `MPI_ANY_TAG`.
    pub any_tag: bool,
}

/// A successful completing call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEvent {
    /// The number of its shape in the stream.
    pub shape: u32,
    /// The number of its requests.
    pub count: u32,
    /// How many polls of that shape failed before it.
    pub polls: u64,
    /// What it completed.
    pub picked: Picked,
}

/// What a call completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Picked {
    /// All of its requests.
    #[default]
    All,
    /// No request was active.
    Undefined,
    /// This many indices, in [`Block::picks`] after those of the previous call.
    These(u32),
}

/// A wildcard receive that a call completed by a request. Replays do not need it; readers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The index of the call in its block.
    pub call: u32,
    /// The index of the request in the call's array; 0 if the call has one request.
    pub index: u32,
    /// The thread that posted the receive.
    pub stream: u32,
    /// The number of the receive in that thread.
    pub receive: u64,
}

/// A wildcard receive or probe, in posting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveEvent {
    /// The number of its shape in the stream.
    pub shape: u32,
    /// Its match result; `None` if that was not known when the block was sealed.
    pub match_result: Option<MatchResult>,
}

/// The match result of an operation that was posted in an earlier block, or of a cancelled operation without a
/// wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateResult {
    /// Whether `number` counts wildcard receives, or the other operations.
    pub wild: bool,
    /// Its index in the stream.
    pub number: u64,
    /// The match result.
    pub match_result: MatchResult,
}

/// Failed polls after the last successful call of their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailing {
    /// The number of the shape.
    pub shape: u32,
    /// The number of failed polls.
    pub polls: u64,
}

/// A stretch of one thread's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// New shapes of calls; shapes are numbered throughout the stream.
    pub call_shapes: Vec<CallShape>,
    /// New shapes of wildcard receives.
    pub post_shapes: Vec<PostShape>,
    /// Successful completing calls, in the order they returned.
    pub calls: Vec<CallEvent>,
    /// The indices they completed, one call's after the other's.
    pub picks: Vec<u32>,
    /// Wildcard receives that the calls completed by requests, in the order of the calls; of one call in the
    /// order of its indices. Empty if they are not recorded.
    pub completions: Vec<Completion>,
    /// Wildcard receives, in posting order.
    pub receives: Vec<ReceiveEvent>,
    /// Failed polls at the end.
    pub trailing: Vec<Trailing>,
    /// Match results of earlier operations.
    pub late_results: Vec<LateResult>,
    /// Clock values and random numbers: source and bits.
    pub values: Vec<(u8, u64)>,
    /// How many operations other than wildcard receives were posted.
    pub named: u64,
    /// By how much the number of posted receives exceeded the number of completed indices, when the last call that
    /// chose among its requests was made.
    pub behind: u32,
}

impl Block {
    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.receives.is_empty()
            && self.trailing.is_empty()
            && self.late_results.is_empty()
            && self.values.is_empty()
            && self.named == 0
    }

    /// Empties it, and keeps its memory.
    pub fn clear(&mut self) {
        self.call_shapes.clear();
        self.post_shapes.clear();
        self.calls.clear();
        self.picks.clear();
        self.completions.clear();
        self.receives.clear();
        self.trailing.clear();
        self.late_results.clear();
        self.values.clear();
        self.named = 0;
        self.behind = 0;
    }

    /// The number of its events and indices.
    pub fn weight(&self) -> usize {
        self.calls.len()
            + self.picks.len()
            + self.receives.len()
            + self.values.len()
            + self.late_results.len()
    }
}

impl CallShape {
    /// What such a call may choose.
    pub fn choice(&self) -> Choice {
        self.kind.choice()
    }
}

impl PostShape {
    /// Whether a receive of this shape that matched `got` could have matched `other` instead.
    pub fn accepts(&self, got: Envelope, other: Envelope) -> bool {
        (self.any_source || got.source == other.source) && (self.any_tag || got.tag == other.tag)
    }
}
