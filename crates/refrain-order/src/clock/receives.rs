//! Open receives: those that the program has not observed complete.
//!
//! Recorder and replayer track them in the same way, from the program's calls alone, so they always agree about
//! which receives have a choice.

use std::collections::BTreeMap;

use crate::{Envelope, Post, Ticket};
use refrain_bytes::table::Map;

/// An open receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Its arguments.
    pub post: Post,
    /// Its position in posting order.
    pub order: u64,
    /// The program has tried to cancel it.
    cancelling: bool,
}

impl Open {
    /// Whether it accepts a message.
    pub fn accepts(&self, communicator: u32, from: Envelope) -> bool {
        let Post { source, tag, .. } = self.post;
        self.post.communicator == communicator
            && source.is_none_or(|source| source == from.source)
            && tag.is_none_or(|tag| tag == from.tag)
    }
}

/// All open receives.
#[derive(Clone, Debug, Default)]
pub struct Receives {
    open: Map<Ticket, Open>,
    posted: u64,
    /// Receives with a choice (wildcards, and those being cancelled), by communicator and position.
    doubtful: BTreeMap<(u32, u64), (Ticket, Post)>,
    /// Positions of receives without wildcards, by communicator, source and tag.
    named: Map<(u32, i32, i32), Vec<u64>>,
}

fn overlap(one: &Post, other: &Post) -> bool {
    let fits = |one: Option<i32>, other: Option<i32>| {
        one.zip(other).is_none_or(|(one, other)| one == other)
    };
    fits(one.source, other.source) && fits(one.tag, other.tag)
}

fn name(post: &Post) -> Option<(u32, i32, i32)> {
    Some((post.communicator, post.source?, post.tag?))
}

impl Receives {
    /// A receive is posted.
    pub fn post(&mut self, ticket: Ticket, post: &Post) {
        let order = self.posted;
        self.posted += 1;
        self.open.insert(ticket, Open { post: *post, order, cancelling: false });
        match name(post) {
            Some(name) => self.named.entry(name).or_default().push(order),
            None => {
                self.doubtful.insert((post.communicator, order), (ticket, *post));
            }
        }
    }

    /// The program has observed it complete, or it is no receive.
    pub fn close(&mut self, ticket: Ticket) -> Option<Open> {
        let open = self.open.remove(&ticket)?;
        self.doubtful.remove(&(open.post.communicator, open.order));
        if let Some(name) = name(&open.post)
            && let Some(orders) = self.named.get_mut(&name)
        {
            if let Ok(at) = orders.binary_search(&open.order) {
                orders.remove(at);
            }
            if orders.is_empty() {
                self.named.remove(&name);
            }
        }
        Some(open)
    }

    /// The program tries to cancel it.
    pub fn cancel(&mut self, ticket: Ticket) {
        let Some(open) = self.open.get_mut(&ticket) else { return };
        open.cancelling = true;
        self.doubtful.insert((open.post.communicator, open.order), (ticket, open.post));
    }

    /// The open receive with this ticket.
    pub fn get(&self, ticket: Ticket) -> Option<&Open> {
        self.open.get(&ticket)
    }

    /// Whether the program alone determines which message a receive gets. If so, it gets the n-th (from 0) of the
    /// unreceived messages with its source and tag, and this returns n.
    pub fn certain(&self, open: &Open) -> Option<usize> {
        let name = name(&open.post).filter(|_| !open.cancelling)?;
        let communicator = open.post.communicator;
        let earlier = (communicator, 0)..(communicator, open.order);
        if self.doubtful.range(earlier).any(|(_, (_, other))| overlap(other, &open.post)) {
            return None;
        }
        self.named.get(&name)?.binary_search(&open.order).ok()
    }

    /// A receive at position `order` has got a message with this envelope. Returns how many receives posted before
    /// it have certainly got such a message, and those of which MPI has to be asked.
    pub fn before(&self, order: u64, communicator: u32, from: Envelope) -> (usize, Vec<Ticket>) {
        let named = self.named.get(&(communicator, from.source, from.tag));
        let named = named.map_or(&[][..], |orders| &orders[..]);
        let sure =
            |other: &&u64| **other < order && !self.doubtful.contains_key(&(communicator, **other));
        let asked = self.doubtful.range((communicator, 0)..(communicator, order));
        let asked = asked.filter(|(_, (_, post))| {
            post.source.is_none_or(|source| source == from.source)
                && post.tag.is_none_or(|tag| tag == from.tag)
        });
        (named.iter().filter(sure).count(), asked.map(|(_, (ticket, _))| *ticket).collect())
    }

    /// The indices of a call's requests that accept a message, in posting order.
    pub fn accepting(
        &self,
        tickets: &[Option<Ticket>],
        communicator: u32,
        from: Envelope,
    ) -> Vec<u32> {
        let accepts = |(index, ticket): (u32, &Option<Ticket>)| {
            let open = self.open.get(ticket.as_ref()?)?;
            open.accepts(communicator, from).then_some((open.order, index))
        };
        let mut accepting: Vec<(u64, u32)> = (0..).zip(tickets).filter_map(accepts).collect();
        accepting.sort_unstable();
        accepting.into_iter().map(|(_, index)| index).collect()
    }
}
