//! Where a replayed program diverged from the record, with what a person needs to find the call.

use std::fmt;

use crate::causal::event::{CallEvent, CallShape, Picked, PostShape};
use crate::error::OrderError;
use crate::vocabulary::{Call, Kind, MatchResult, Post};

/// Why a replay cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The program did something that the record does not have.
    Diverged(Box<Divergence>),
    /// The record is truncated here: the program was killed, or was recorded only so far.
    RecordEnds,
    /// The record cannot be read any further.
    Unreadable(OrderError),
}

/// An entry of a record, or what a program asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A completing call.
    Call {
        /// Its index among the thread's successful completing calls.
        position: u64,
        /// Its kind.
        kind: Kind,
        /// Its call site.
        site: u64,
        /// The number of its requests.
        count: u32,
        /// How often it failed before.
        polls: u64,
        /// The indices it completed; none for a call without a choice, and for a call of the replayed program.
        picks: Vec<u32>,
    },
    /// A wildcard receive or probe.
    Receive {
        /// Its index among those of the thread.
        position: u64,
        /// Its call site.
        site: u64,
        /// Its communicator.
        communicator: u32,
        /// Whether it has `MPI_ANY_SOURCE`, and `MPI_ANY_TAG`.
        any: [bool; 2],
        /// Its match result; `None` for a receive of the replayed program.
        match_result: Option<MatchResult>,
    },
    /// A clock value or a random number.
    Value {
        /// Its index among those of the thread.
        position: u64,
        /// The source of the value.
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

    pub(crate) fn received(
        position: u64,
        shape: PostShape,
        match_result: Option<MatchResult>,
    ) -> Self {
        let PostShape { site, communicator, any_source, any_tag } = shape;
        let any = [any_source, any_tag];
        Self::Receive { position, site, communicator, any, match_result }
    }

    pub(crate) fn posted(position: u64, post: &Post) -> Self {
        let any = [post.source.is_none(), post.tag.is_none()];
        let Post { site, communicator, .. } = *post;
        Self::Receive { position, site, communicator, any, match_result: None }
    }
}

impl Moment {
    /// As text, with a name for the call site.
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
            Self::Receive { position, site, communicator, any, match_result } => {
                let what = match any {
                    [true, true] => "any source, any tag",
                    [true, false] => "any source",
                    [false, true] => "any tag",
                    [false, false] => "no wildcard",
                };
                let match_result = match match_result {
                    Some(MatchResult::Matched(from)) => {
                        format!(", from {} tag {}", from.source, from.tag)
                    }
                    Some(MatchResult::Cancelled) => ", cancelled".to_owned(),
                    Some(MatchResult::Never) => ", never matched".to_owned(),
                    None => String::new(),
                };
                let site = name(*site);
                format!(
                    "receive {position}: {what} on communicator {communicator} at {site}{match_result}"
                )
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

/// The program did something else than when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The thread.
    pub stream: u32,
    /// What the record has here.
    pub expected: Moment,
    /// What the program did.
    pub got: Moment,
    /// The entries of the record before and after it.
    pub neighbours: Vec<Moment>,
}

impl Divergence {
    /// Whether the program did what was expected, at another call site.
    fn is_elsewhere(&self) -> bool {
        match (&self.expected, &self.got) {
            (
                Moment::Call { kind, site, count, .. },
                Moment::Call { kind: other, site: other_site, count: requests, .. },
            ) => kind == other && count == requests && site != other_site,
            (
                Moment::Receive { site, communicator, any, .. },
                Moment::Receive { site: other_site, communicator: other, any: wildcards, .. },
            ) => communicator == other && any == wildcards && site != other_site,
            _ => false,
        }
    }

    /// As text, with names for call sites.
    pub fn text(&self, name: impl Fn(u64) -> String) -> String {
        let mut text = format!("thread {} does not do what was recorded", self.stream);
        text += &format!("\n  expected  {}", self.expected.text(&name));
        text += &format!("\n  got       {}", self.got.text(&name));
        if self.is_elsewhere() {
            text += "\n            the same from another call site: if the program was rebuilt, record it again";
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
