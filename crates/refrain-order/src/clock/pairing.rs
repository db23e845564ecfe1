//! Which stamp belongs to which message that was received.
//!
//! Stamps travel beside messages, not in them. MPI lets no message overtake another of the same
//! source, tag and communicator, and gives them to receives in the order these were posted. So
//! the stamps of one source, tag and communicator belong to the receives that took a message of
//! these, in the order they were posted; not in the order the program saw them complete.
//!
//! A receive posted earlier that would have taken the message has taken another one before it,
//! or was cancelled. If it is a wildcard, MPI has to be asked what it got.

use std::collections::VecDeque;

use crate::clock::receives::Receives;
use crate::{Envelope, MatchResult, Stamp, Ticket};
use refrain_bytes::table::Map;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// How many messages each sender has sent.
    heard: Map<u32, u64>,
    /// Stamps that belong to no receive yet, by communicator, source and tag, in the order sent.
    stamps: Map<(u32, i32, i32), VecDeque<Stamp>>,
    /// Where each of them is.
    names: Map<(u32, u64), (u32, i32, i32)>,
    /// What became of receives that the program has not seen complete.
    known: Map<Ticket, MatchResult>,
}

impl Pairing {
    /// The next message of a sender was sent.
    pub fn arrive(&mut self, sender: u32, clock: u64, communicator: u32, from: Envelope) {
        let heard = self.heard.entry(sender).or_default();
        let stamp = Stamp { sender, sequence: *heard, clock };
        *heard += 1;
        let name = (communicator, from.source, from.tag);
        self.names.insert((sender, stamp.sequence), name);
        self.stamps.entry(name).or_default().push_back(stamp);
    }

    /// What has become of a receive.
    pub fn learn(&mut self, ticket: Ticket, match_result: MatchResult) {
        self.known.insert(ticket, match_result);
    }

    fn order(receives: &Receives, ticket: Option<Ticket>) -> u64 {
        let open = ticket.and_then(|ticket| receives.get(ticket));
        open.map_or(u64::MAX, |open| open.order)
    }

    /// Receives of which has to be known what became of them.
    pub fn unknown(
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

    /// The stamp of the message that a receive has received from there.
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

    /// The program has seen that a receive received the message of that stamp.
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
