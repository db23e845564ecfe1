//! Pairs the stamps of messages with the receives that got them.
//!
//! Stamps travel beside messages, not in them. Messages with the same source, tag and communicator do not overtake
//! each other, and MPI matches them with receives in posting order. So the stamps of one source, tag and
//! communicator belong to the receives that matched such messages, in posting order. That may differ from the
//! order in which the program observed the completions.
//!
//! A receive that was posted earlier and accepts the message has matched an earlier message, or was cancelled. If
//! it is a wildcard receive, the agent has to ask MPI for its match.

use std::collections::VecDeque;

use crate::clock::receives::Receives;
use crate::{Envelope, MatchResult, Stamp, Ticket};
use refrain_bytes::table::Map;

/// Stamps that are not paired yet. See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// How many stamps have arrived from each sender.
    arrived: Map<u32, u64>,
    /// Unpaired stamps by communicator, source and tag, in sending order.
    stamps: Map<(u32, i32, i32), VecDeque<Stamp>>,
    /// Communicator, source and tag of each of them, by sender and sequence number.
    names: Map<(u32, u64), (u32, i32, i32)>,
    /// Match results of receives that the program has not observed complete.
    known: Map<Ticket, MatchResult>,
}

impl Pairing {
    /// The stamp of a sender's next message has arrived.
    pub fn arrive(&mut self, sender: u32, clock: u64, communicator: u32, from: Envelope) {
        let arrived = self.arrived.entry(sender).or_default();
        let stamp = Stamp { sender, sequence: *arrived, clock };
        *arrived += 1;
        let name = (communicator, from.source, from.tag);
        self.names.insert((sender, stamp.sequence), name);
        self.stamps.entry(name).or_default().push_back(stamp);
    }

    /// The match result of a receive.
    pub fn observe(&mut self, ticket: Ticket, match_result: MatchResult) {
        self.known.insert(ticket, match_result);
    }

    fn order(receives: &Receives, ticket: Option<Ticket>) -> u64 {
        let open = ticket.and_then(|ticket| receives.get(ticket));
        open.map_or(u64::MAX, |open| open.order)
    }

    /// Receives whose match results are needed and not known.
    pub fn unresolved(
        &self,
        receives: &Receives,
        ticket: Option<Ticket>,
        communicator: u32,
        from: Envelope,
    ) -> Vec<Ticket> {
        let order = Self::order(receives, ticket);
        let (_, mut doubtful) = receives.before(order, communicator, from);
        doubtful.retain(|ticket| !self.known.contains_key(ticket));
        doubtful
    }

    /// The stamp of the message with this envelope that a receive has got.
    pub fn stamp(
        &self,
        receives: &Receives,
        ticket: Option<Ticket>,
        communicator: u32,
        from: Envelope,
    ) -> Option<Stamp> {
        let order = Self::order(receives, ticket);
        let (sure, doubtful) = receives.before(order, communicator, from);
        let same = |one: &&Ticket| self.known.get(one) == Some(&MatchResult::Matched(from));
        let before = sure + doubtful.iter().filter(same).count();
        self.stamps.get(&(communicator, from.source, from.tag))?.get(before).copied()
    }

    /// The program has observed that a receive got the message with this stamp.
    pub fn receive(&mut self, ticket: Ticket, stamp: &Stamp) {
        self.known.remove(&ticket);
        let Some(name) = self.names.remove(&(stamp.sender, stamp.sequence)) else { return };
        if let Some(queue) = self.stamps.get_mut(&name) {
            if let Some(at) = queue.iter().position(|one| one == stamp) {
                queue.remove(at);
            }
            if queue.is_empty() {
                self.stamps.remove(&name);
            }
        }
    }
}
