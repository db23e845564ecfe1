//! Where a program left the record, told so that a person can find the place.

use std::fmt;

use crate::causal::event::{CallEvent, CallShape, Picked, PostShape};
use crate::error::OrderError;
use crate::vocabulary::{Call, Fate, Kind, Post};

/// Why a replay cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The program did something else.
    Diverged(Box<Divergence>),
    /// The record ends here: that of a program that was killed, or recorded only so far.
    RecordEnds,
    /// The record cannot be read any further.
    Unreadable(OrderError),
}

/// Something that a record holds, or that a program asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A matching call.
    Call {
        /// The how manieth successful one of the thread.
        position: u64,
        /// What it is.
        kind: Kind,
        /// Where in the program.
        site: u64,
        /// How many requests it had.
        count: u32,
        /// How often it failed before.
        polls: u64,
        /// What it completed; nothing for a call that has no choice, or that is only asked.
        picks: Vec<u32>,
    },
    /// A wildcard receive or probe.
    Receive {
        /// The how manieth one of the thread.
        position: u64,
        /// Where in the program.
        site: u64,
        /// On which communicator.
        communicator: u32,
        /// Whether any source, and any tag, would do.
        any: [bool; 2],
        /// What became of it; nothing for one that is only asked.
        fate: Option<Fate>,
    },
    /// A clock reading or a random number.
    Value {
        /// The how manieth one of the thread.
        position: u64,
        /// Which source of values.
        which: u8,
    },
    /// The end of the program, or of the record.
    End,
}

impl Moment {
    pub(crate) fn called(position: u64, shape: CallShape, event: CallEvent, picks: &[u32]) -> Self {
        let CallShape { kind, site } = shape;
        let picks = match event.picked {
            Picked::These(several) => picks.iter().take(several as usize).copied().collect(),
            Picked::All | Picked::Undefined => Vec::new(),
        };
        Self::Call { position, kind, site, count: event.count, polls: event.polls, picks }
    }

    pub(crate) fn asked(position: u64, call: &Call) -> Self {
        let Call { kind, site, count } = *call;
        Self::Call { position, kind, site, count, polls: 0, picks: Vec::new() }
    }

    pub(crate) fn received(position: u64, shape: PostShape, fate: Option<Fate>) -> Self {
        let PostShape { site, communicator, any_source, any_tag } = shape;
        let any = [any_source, any_tag];
        Self::Receive { position, site, communicator, any, fate }
    }

    pub(crate) fn posted(position: u64, post: &Post) -> Self {
        let any = [post.source.is_none(), post.tag.is_none()];
        let Post { site, communicator, .. } = *post;
        Self::Receive { position, site, communicator, any, fate: None }
    }
}

impl Moment {
    /// In words, with a name for the place in the program.
    pub fn text(&self, name: impl Fn(u64) -> String) -> String {
        match self {
            Self::Call { position, kind, site, count, polls, picks } => {
                let mut text = format!("call {position}: {kind} at {}", name(*site));
                if *count > 0 {
                    text += &format!(" of {count} requests");
                }
                if *polls > 0 {
                    text += &format!(", after {polls} failed polls");
                }
                if !picks.is_empty() {
                    text += &format!(", completing {picks:?}");
                }
                text
            }
            Self::Receive { position, site, communicator, any, fate } => {
                let what = match any {
                    [true, true] => "any source, any tag",
                    [true, false] => "any source",
                    [false, true] => "any tag",
                    [false, false] => "no wildcard",
                };
                let fate = match fate {
                    Some(Fate::Matched(from)) => format!(", from {} tag {}", from.source, from.tag),
                    Some(Fate::Cancelled) => ", cancelled".to_owned(),
                    Some(Fate::Never) => ", never matched".to_owned(),
                    None => String::new(),
                };
                let site = name(*site);
                format!("receive {position}: {what} on communicator {communicator} at {site}{fate}")
            }
            Self::Value { position, which } => format!("value {position} of source {which}"),
            Self::End => "the end".to_owned(),
        }
    }
}

fn number(site: u64) -> String {
    format!("{site:#x}")
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(number))
    }
}

/// The program asked for something else than when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Which thread.
    pub stream: u32,
    /// What the record has here.
    pub expected: Moment,
    /// What the program did.
    pub got: Moment,
    /// What the record has before and behind.
    pub neighbours: Vec<Moment>,
}

impl Divergence {
    /// Whether the program did what was expected, but for the place where it did it.
    fn is_elsewhere(&self) -> bool {
        match (&self.expected, &self.got) {
            (
                Moment::Call { kind, site, count, .. },
                Moment::Call { kind: other, site: place, count: requests, .. },
            ) => kind == other && count == requests && site != place,
            (
                Moment::Receive { site, communicator, any, .. },
                Moment::Receive { site: place, communicator: other, any: wildcards, .. },
            ) => communicator == other && any == wildcards && site != place,
            _ => false,
        }
    }

    /// In words, with names for places in the program.
    pub fn text(&self, name: impl Fn(u64) -> String) -> String {
        let mut text = format!("thread {} does not do what was recorded", self.stream);
        text += &format!("\n  expected  {}", self.expected.text(&name));
        text += &format!("\n  got       {}", self.got.text(&name));
        if self.is_elsewhere() {
            text += "\n            the same from another place: if the program was built anew, record it again";
        }
        for moment in &self.neighbours {
            text += &format!("\n  recorded  {}", moment.text(&name));
        }
        text
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(number))
    }
}
