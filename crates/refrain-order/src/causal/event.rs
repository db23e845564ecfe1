//! What a record holds, decoded: plain lists, one block at a time.

use crate::vocabulary::{Choice, Envelope, Fate, Kind};

/// What calls have in common: their place in the program, and their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallShape {
    /// What it is.
    pub kind: Kind,
    /// Where in the program.
    pub site: u64,
}

/// What wildcard receives have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostShape {
    /// Where in the program.
    pub site: u64,
    /// On which communicator.
    pub communicator: u32,
    /// Whether any source would do.
    pub any_source: bool,
    /// Whether any tag would do.
    pub any_tag: bool,
}

/// A matching call that did not fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEvent {
    /// Which shape, by its number in the stream.
    pub shape: u32,
    /// How many requests it was given.
    pub count: u32,
    /// How many calls of that shape failed since the last one that did not.
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
    /// So many indices, in [`Block::picks`] from the place where the call before left off.
    These(u32),
}

/// A wildcard receive or probe, in posting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveEvent {
    /// Which shape, by its number in the stream.
    pub shape: u32,
    /// What became of it; nothing if that was not known when the block was sealed.
    pub fate: Option<Fate>,
}

/// What became of an operation that was posted in an earlier block, or of one that is no
/// wildcard and was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixup {
    /// Whether `number` counts wildcard receives, or the other operations.
    pub wild: bool,
    /// The how manieth in the stream.
    pub number: u64,
    /// What became of it.
    pub fate: Fate,
}

/// Calls that failed behind the last one of their shape that did not.
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
    /// Fates of earlier operations.
    pub fixups: Vec<Fixup>,
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
            && self.fixups.is_empty()
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
        self.fixups.clear();
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
            + self.fixups.len()
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
