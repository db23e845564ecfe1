//! Messages that a stuck rank would receive, if one thing in their envelope were different.
//!
//! Most hangs in point-to-point communication are a wrong tag, a wrong rank or a wrong communicator. Such a message
//! was sent, and no receive takes it: pending are the messages that were sent in a lane, less the receives that were
//! posted for it or have matched it.

use super::{Lane, Need, Operation, RankWaitState, Receive, Scope, World, count};
use std::collections::BTreeSet;

/// Messages that a stuck rank would receive, if one thing were different.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearMiss {
    /// What is different.
    pub mismatch: Mismatch,
    /// The rank that receives.
    pub receiver: i32,
    /// The rank that has sent, or is about to.
    pub sender: i32,
    /// The tag of the messages.
    pub tag: i64,
    /// How many of them no receive takes.
    pub messages: u64,
    /// Whether the receiver waits for the message; otherwise it has posted the receive and does something else.
    pub is_awaited: bool,
}

/// What differs between a message and a receive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// The tag.
    Tag {
        /// The tag that the receive names.
        wanted: i64,
    },
    /// The sender.
    Source {
        /// The rank that the receive names.
        wanted: i32,
    },
    /// The communicator.
    Communicator {
        /// The communicator of the message.
        sent_on: Scope,
        /// The communicator of the receive.
        wanted: Scope,
    },
}

impl World<'_> {
    /// The near misses of these ranks, which are stuck.
    pub(super) fn near_misses(&self, stuck: &BTreeSet<i32>) -> Vec<NearMiss> {
        let mut all = BTreeSet::new();
        for wait_state in stuck.iter().filter_map(|rank| self.by_rank.get(rank)) {
            for (need, words) in wait_state.waits.iter().flat_map(|wait| &wait.needs) {
                if self.demand(wait_state, need, words).is_none() {
                    continue;
                }
                match need {
                    Need::Operation(Operation::Receive(receive)) => {
                        all.extend(self.messages_like(wait_state, receive));
                    }
                    Need::Operation(Operation::Send { lane, .. }) => {
                        all.extend(self.receives_like(wait_state, *lane));
                    }
                    _ => {}
                }
            }
        }
        // A receive that is waited for says the same as one that is posted.
        let awaited: BTreeSet<NearMiss> =
            all.iter().filter(|miss| miss.is_awaited).cloned().collect();
        all.retain(|miss| {
            let same = NearMiss { is_awaited: true, ..miss.clone() };
            miss.is_awaited || !awaited.contains(&same)
        });
        all.into_iter().collect()
    }

    /// How many messages of a lane no receive of the receiver takes.
    fn pending(
        &self,
        sender: &RankWaitState,
        lane: Lane,
    ) -> Option<(&RankWaitState, Option<usize>, u64)> {
        let (scope, to, tag) = lane;
        let receiver = *self.by_rank.get(&to)?;
        let there = self.there(sender, scope, to).map(|(_, number)| number);
        let taken = there.map_or(0, |there| {
            let lane = (there, sender.rank, tag);
            count(&receiver.named, lane) + count(&receiver.matched, lane)
        });
        let takes = |open: &Receive| {
            Some(open.scope) == there
                && open.source.is_none_or(|source| source == sender.rank)
                && open.tag.is_none_or(|t| t == tag)
        };
        let open = receiver.open.iter().filter(|open| takes(open)).count() as u64;
        Some((receiver, there, count(&sender.sent, lane).saturating_sub(taken + open)))
    }

    /// Messages that a receive would take, if one thing were different.
    fn messages_like(&self, receiver: &RankWaitState, receive: &Receive) -> Vec<NearMiss> {
        let mut all = Vec::new();
        for sender in self.by_rank.values() {
            for lane in sender.sent.keys().filter(|(_, to, _)| *to == receiver.rank) {
                let Some((_, there, messages)) = self.pending(sender, *lane) else { continue };
                let (scope, _, tag) = *lane;
                let wrong_source = receive.source.filter(|source| *source != sender.rank);
                let wrong_tag = receive.tag.filter(|wanted| *wanted != tag);
                let wrong_comm = there != Some(receive.scope);
                let mismatch = match (wrong_source, wrong_tag, wrong_comm) {
                    (None, Some(wanted), false) => Mismatch::Tag { wanted },
                    (Some(wanted), None, false) => Mismatch::Source { wanted },
                    (None, None, true) => {
                        let sent_on = sender.scopes.get(scope).map(|(scope, _)| scope);
                        let wanted = receiver.scopes.get(receive.scope).map(|(scope, _)| scope);
                        let (Some(sent_on), Some(wanted)) = (sent_on, wanted) else { continue };
                        Mismatch::Communicator { sent_on: sent_on.clone(), wanted: wanted.clone() }
                    }
                    _ => continue,
                };
                if messages > 0 {
                    let (receiver, sender) = (receiver.rank, sender.rank);
                    all.push(NearMiss {
                        mismatch,
                        receiver,
                        sender,
                        tag,
                        messages,
                        is_awaited: true,
                    });
                }
            }
        }
        all
    }

    /// Receives that would take a message, if one thing were different.
    fn receives_like(&self, sender: &RankWaitState, lane: Lane) -> Vec<NearMiss> {
        let (_, _, tag) = lane;
        let mut all = Vec::new();
        let Some((receiver, Some(there), messages)) = self.pending(sender, lane) else {
            return all;
        };
        for (&(scope, source, wanted), &posted) in &receiver.named {
            let sent = self.there(receiver, scope, source);
            let sent =
                sent.map_or(0, |(from, here)| count(&from.sent, (here, receiver.rank, wanted)));
            if scope != there || posted <= sent || messages == 0 {
                continue;
            }
            let mismatch = match (source != sender.rank, wanted != tag) {
                (false, true) => Mismatch::Tag { wanted },
                (true, false) => Mismatch::Source { wanted: source },
                _ => continue,
            };
            let (receiver, sender) = (receiver.rank, sender.rank);
            all.push(NearMiss { mismatch, receiver, sender, tag, messages, is_awaited: false });
        }
        all
    }
}
