//! What a record holds, decoded: plain lists, one block at a time.

use crate::vocabulary::{Choice, Envelope, Kind, MatchResult};

/// What calls have in common: their kind and call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallShape {
    /// Their kind.
    pub kind: Kind,
    /// Their call site.
    pub site: u64,
}

/// What wildcard receives have in common.
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

/// A matching call that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEvent {
    /// Which shape, by its number in the stream.
    pub shape: u32,
    /// How many requests it was given.
    pub count: u32,
    /// How many polls of that shape failed before it.
    pub polls: u64,
    /// What it completed.
    pub picked: Picked,
}

/// What a call completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Picked {
    /// Everything.
    #[default]
    All,
    /// Nothing was active.
    Undefined,
    /// This many indices, in [`Block::picks`] after those of the call before.
    These(u32),
}

/// A wildcard receive or probe, in posting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveEvent {
    /// Which shape, by its number in the stream.
    pub shape: u32,
    /// Its match result; `None` if that was not known when the block was sealed.
    pub match_result: Option<MatchResult>,
}

/// What became of an operation that was posted in an earlier block, or of one that is no
/// wildcard and was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateResult {
    /// Whether `number` counts wildcard receives, or the other operations.
    pub wild: bool,
    /// Its index in the stream.
    pub number: u64,
    /// What became of it.
    pub match_result: MatchResult,
}

/// Failed polls after the last successful call of their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailing {
    /// Which shape.
    pub shape: u32,
    /// How many.
    pub polls: u64,
}

/// A stretch of one thread's stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Shapes that are new in this block; they are numbered through the stream.
    pub call_shapes: Vec<CallShape>,
    /// Shapes that are new in this block.
    pub post_shapes: Vec<PostShape>,
    /// Matching calls that did not fail, in the order they returned.
    pub calls: Vec<CallEvent>,
    /// The indices they completed, one call's after the other's.
    pub picks: Vec<u32>,
    /// Wildcard receives, in posting order.
    pub receives: Vec<ReceiveEvent>,
    /// Calls that failed at the end.
    pub trailing: Vec<Trailing>,
    /// Match results of earlier operations.
    pub late_results: Vec<LateResult>,
    /// Clock readings and random numbers: which of them, and its bits.
    pub values: Vec<(u8, u64)>,
    /// How many operations other than wildcard receives were posted.
    pub named: u64,
    /// How many of the receives had been posted, more than indices completed, when the last call that
    /// chose among its requests was made.
    pub behind: u32,
}

impl Block {
    /// Whether there is nothing in it.
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
        self.receives.clear();
        self.trailing.clear();
        self.late_results.clear();
        self.values.clear();
        self.named = 0;
        self.behind = 0;
    }

    /// How much is in it.
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
    /// Whether a receive of this shape, that matched `own`, could have had `other` instead.
    pub fn accepts(&self, own: Envelope, other: Envelope) -> bool {
        (self.any_source || own.source == other.source) && (self.any_tag || own.tag == other.tag)
    }
}
