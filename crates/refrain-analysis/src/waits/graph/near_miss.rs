//! Messages that a stuck rank would receive if one thing in their envelope were different.
//!
//! Most hangs in point-to-point communication are caused by a wrong tag, rank or communicator. Such a message was sent,
//! but no receive matches it. The number of unmatched messages of a lane is the number of messages that were sent minus
//! the receives that were posted for the lane or have matched it.

use super::{
    Lane, Lanes, Need, Operation, RankWaitState, Receive, Scope, SendingCall, World, count,
};
use std::collections::BTreeSet;

/// Messages that a stuck rank would receive if one thing were different.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearMiss {
    /// The difference.
    pub mismatch: Mismatch,
    /// The rank that receives.
    pub receiver: i32,
    /// The rank that has sent, or is sending.
    pub sender: i32,
    /// The tag of the messages.
    pub tag: i64,
    /// The number of messages that no receive matches.
    pub messages: u64,
    /// Whether the receiver is blocked in that receive; otherwise it has only posted it.
    pub is_awaited: bool,
    /// The call that sent the first of them, if it is known.
    pub sent_in: Option<SendingCall>,
    /// The rank whose tag is likely to be wrong, if that is clear.
    pub odd: Option<Odd>,
}

/// A rank whose tag is used nowhere else, while the other rank's tag is common. Uses are the messages and the
/// receives on the same communicator, of all ranks and since the program began, without the mismatch itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Odd {
    /// The rank.
    pub rank: i32,
    /// Its tag.
    pub tag: i64,
    /// The tag of the other rank.
    pub usual: i64,
    /// How many other messages have that one.
    pub messages: u64,
}

/// A tag that fewer other messages have is not called common.
const COMMON: u64 = 3;

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

/// The call that sent the first of the last so many messages of a lane.
fn sent_in(sender: &RankWaitState, lane: Lane, messages: u64) -> Option<SendingCall> {
    let sends = sender.last_sent.get(&lane)?;
    sends.get(usize::try_from(messages).ok()?.checked_sub(1)?).cloned()
}

impl World<'_> {
    /// The near misses of these stuck ranks.
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
        // A near miss of a posted receive is redundant if there is the same one for a blocked receive.
        let awaited: BTreeSet<NearMiss> =
            all.iter().filter(|miss| miss.is_awaited).cloned().collect();
        all.retain(|miss| {
            let same = NearMiss { is_awaited: true, ..miss.clone() };
            miss.is_awaited || !awaited.contains(&same)
        });
        all.into_iter().collect()
    }

    /// The receiver of a lane, the scope's index there, and the number of messages that no receive matches.
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

    /// Messages that a receive would match if one thing were different.
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
                    all.push(NearMiss {
                        odd: self.odd(&mismatch, (sender, *lane), messages, receiver),
                        mismatch,
                        receiver: receiver.rank,
                        sender: sender.rank,
                        tag,
                        messages,
                        is_awaited: true,
                        sent_in: sent_in(sender, *lane, messages),
                    });
                }
            }
        }
        all
    }

    /// Receives that would match a message if one thing were different.
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
            all.push(NearMiss {
                odd: self.odd(&mismatch, (sender, lane), messages, receiver),
                mismatch,
                receiver: receiver.rank,
                sender: sender.rank,
                tag,
                messages,
                is_awaited: false,
                sent_in: sent_in(sender, lane, messages),
            });
        }
        all
    }

    /// Which side of a wrong tag is odd: of so many messages in a lane, or of the receive.
    fn odd(
        &self,
        mismatch: &Mismatch,
        (sender, lane): (&RankWaitState, Lane),
        messages: u64,
        receiver: &RankWaitState,
    ) -> Option<Odd> {
        let Mismatch::Tag { wanted } = mismatch else { return None };
        let (scope, _, tag) = lane;
        let here = &sender.scopes.get(scope)?.0;
        let (sent, named) = self.uses(here, tag);
        let sent = sent.saturating_sub(messages);
        let (sent_usually, named_usually) = self.uses(here, *wanted);
        // Receives that no message was sent for are part of the mismatch.
        let at_receiver = *self.scopes.get(here)?.get(&receiver.rank)?;
        let posted = count(&receiver.named, (at_receiver, sender.rank, *wanted));
        let served = count(&sender.sent, (scope, receiver.rank, *wanted));
        let named_usually = named_usually.saturating_sub(posted.saturating_sub(served));
        if sent + named == 0 && sent_usually >= COMMON {
            let (rank, usual) = (sender.rank, *wanted);
            return Some(Odd { rank, tag, usual, messages: sent_usually });
        }
        if sent_usually + named_usually == 0 && sent >= COMMON {
            let rank = receiver.rank;
            return Some(Odd { rank, tag: *wanted, usual: tag, messages: sent });
        }
        None
    }

    /// How many messages and how many receives on a communicator have a tag.
    fn uses(&self, scope: &Scope, tag: i64) -> (u64, u64) {
        let (mut sent, mut named) = (0, 0);
        for (rank, index) in self.scopes.get(scope).into_iter().flatten() {
            let Some(of) = self.by_rank.get(rank) else { continue };
            let sum = |lanes: &Lanes| -> u64 {
                let lanes = lanes.iter().filter(|((scope, _, t), _)| scope == index && *t == tag);
                lanes.map(|(_, count)| *count).sum()
            };
            sent += sum(&of.sent);
            named += sum(&of.named) + sum(&of.matched);
        }
        (sent, named)
    }
}
