//! Messages: which send a receive gets, and whether both fit.
//!
//! Messages of one [`Lane`] are received in the order in which they are sent, by receives in the order in which these are
//! posted. The lane of a receive with a wildcard is known when it is complete; receives that were posted after it wait
//! until then.

use crate::clock::Clock;
use crate::finding::{Class, Findings, Place};
use crate::races::{Received, Spec};
use crate::typemap::{Elements, Fit};
use refrain_bytes::table::{Map, Set};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Messages with the same envelope: the identity of the communicator, sender, receiver, tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// The communicator's identity.
    pub scope: u64,
    /// The sender in `MPI_COMM_WORLD`.
    pub from: i32,
    /// The receiver.
    pub to: i32,
    /// The tag.
    pub tag: i64,
}

/// A message that was sent.
#[derive(Debug)]
pub struct Sent {
    /// What is sent.
    pub elements: Option<Elements>,
    /// The call.
    pub place: Arc<Place>,
    /// What the sender knew.
    pub clock: Clock,
}

/// A receive that was posted.
#[derive(Debug)]
struct Posted {
    /// The number of the operation on its process.
    id: u64,
    elements: Option<Elements>,
    place: Arc<Place>,
    spec: Spec,
    /// The lane, once it is known.
    lane: Option<Lane>,
}

#[derive(Debug, Default)]
struct Ends {
    sent: VecDeque<Sent>,
    posted: VecDeque<Posted>,
}

/// The communicator's identity and the receiver.
type Inbox = (u64, i32);

/// What the sender of a message knew, and where the receive is kept for races.
#[derive(Debug)]
struct Arrived {
    clock: Clock,
    kept: Option<(Inbox, usize)>,
}

/// The messages of a job.
#[derive(Debug, Default)]
pub struct Messages {
    lanes: Map<Lane, Ends>,
    /// Receives in the order in which they were posted, the first of an unknown lane.
    queues: Map<Inbox, VecDeque<Posted>>,
    /// Inboxes with receives whose outcome is not known.
    unknown: Set<Inbox>,
    /// What the senders of messages knew that receives have got and not completed, by receiver and operation.
    arrived: Map<(i32, u64), Arrived>,
    /// Receives of inboxes with wildcards, for races.
    pub received: Map<Inbox, Vec<Received>>,
}

/// So many receives of an inbox are compared for races.
const COMPARED: usize = 50_000;

impl Messages {
    /// A message is sent.
    pub fn send(&mut self, lane: Lane, sent: Sent, findings: &mut Findings) {
        self.lanes.entry(lane).or_default().sent.push_back(sent);
        self.pair(lane, findings);
    }

    /// A receive is posted.
    pub fn post(
        &mut self,
        (scope, to): Inbox,
        id: u64,
        (spec, elements): (Spec, Option<Elements>),
        place: Arc<Place>,
        findings: &mut Findings,
    ) {
        let lane = match spec {
            (Some(from), Some(tag)) => Some(Lane { scope, from, to, tag }),
            _ => None,
        };
        let posted = Posted { id, elements, place, spec, lane };
        self.queues.entry((scope, to)).or_default().push_back(posted);
        self.settle((scope, to), findings);
    }

    /// The lane of a receive with a wildcard is known.
    pub fn resolve(&mut self, lane: Lane, id: u64, findings: &mut Findings) {
        let inbox = (lane.scope, lane.to);
        let queue = self.queues.entry(inbox).or_default();
        // Numbers grow in the order in which receives are posted.
        if let Ok(at) = queue.binary_search_by_key(&id, |posted| posted.id)
            && let Some(posted) = queue.get_mut(at)
        {
            posted.lane = Some(lane);
        }
        self.settle(inbox, findings);
    }

    /// The outcome of a receive is not known: nothing is said about this inbox from here on.
    pub fn lose(&mut self, scope: u64, to: i32) {
        self.unknown.insert((scope, to));
    }

    /// A receive is complete at that step of the receiver. Returns what the sender knew, if the message is known.
    pub fn complete(&mut self, to: i32, id: u64, step: u32) -> Option<Clock> {
        let Arrived { clock, kept } = self.arrived.remove(&(to, id))?;
        if let Some((inbox, at)) = kept
            && let Some(received) = self.received.get_mut(&inbox).and_then(|all| all.get_mut(at))
        {
            received.done = Some(step);
        }
        Some(clock)
    }

    fn settle(&mut self, inbox: Inbox, findings: &mut Findings) {
        if self.unknown.contains(&inbox) {
            return;
        }
        let mut lanes = Vec::new();
        if let Some(queue) = self.queues.get_mut(&inbox) {
            while let Some(lane) = queue.front().and_then(|posted| posted.lane) {
                let Some(posted) = queue.pop_front() else { break };
                self.lanes.entry(lane).or_default().posted.push_back(posted);
                lanes.push(lane);
            }
        }
        lanes.into_iter().for_each(|lane| self.pair(lane, findings));
    }

    fn pair(&mut self, lane: Lane, findings: &mut Findings) {
        let inbox = (lane.scope, lane.to);
        let Some(ends) = self.lanes.get_mut(&lane) else { return };
        while !ends.sent.is_empty() && !ends.posted.is_empty() {
            let (Some(sent), Some(posted)) = (ends.sent.pop_front(), ends.posted.pop_front())
            else {
                break;
            };
            if !self.unknown.contains(&inbox) {
                compare(&sent, &posted, findings);
            }
            let all = self.received.entry(inbox).or_default();
            let is_wild = posted.spec.0.is_none() || posted.spec.1.is_none();
            // Only receives after a wildcard matter.
            let is_kept = (is_wild || !all.is_empty()) && all.len() < COMPARED;
            if is_kept {
                all.push(Received {
                    id: posted.id,
                    spec: posted.spec,
                    from: lane.from,
                    tag: lane.tag,
                    knew: sent.clock.of(usize::try_from(lane.to).unwrap_or(usize::MAX)),
                    done: None,
                    place: posted.place.clone(),
                    sender: sent.place.clone(),
                });
            }
            let kept = is_kept.then(|| (inbox, all.len() - 1));
            self.arrived.insert((lane.to, posted.id), Arrived { clock: sent.clock, kept });
        }
    }

    /// Messages that are never received, though their receivers have ended.
    pub fn finish(&self, has_ended: impl Fn(i32) -> bool, findings: &mut Findings) {
        let mut left: Vec<_> =
            self.lanes.iter().filter(|(_, ends)| !ends.sent.is_empty()).collect();
        left.sort_by_key(|(lane, _)| **lane);
        for (lane, ends) in left {
            let inbox = (lane.scope, lane.to);
            let waits = self.queues.get(&inbox).is_some_and(|queue| !queue.is_empty());
            if self.unknown.contains(&inbox) || waits || !has_ended(lane.to) {
                continue;
            }
            for sent in &ends.sent {
                let message = format!(
                    "The message that {} sends is never received: its receiver ends without a receive for it.",
                    sent.place.function
                );
                findings.add(Class::UnmatchedSend, message, vec![(*sent.place).clone()]);
            }
        }
    }

    /// A hash of what is pending: messages without receives, receives without messages.
    pub fn pending(&self) -> u64 {
        let mut hash = 0u64;
        let mut add = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            what(&mut hasher);
            hash = hash.wrapping_add(hasher.finish());
        };
        for (lane, ends) in &self.lanes {
            let (sent, posted) = (ends.sent.len(), ends.posted.len());
            if sent + posted > 0 {
                add(&|hasher| (lane, sent, posted).hash(hasher));
            }
        }
        for (inbox, queue) in self.queues.iter().filter(|(_, queue)| !queue.is_empty()) {
            add(&|hasher| (inbox, queue.len()).hash(hasher));
        }
        let kept: usize = self.received.values().map(Vec::len).sum();
        add(&|hasher| (self.arrived.len(), self.unknown.len(), kept).hash(hasher));
        hash
    }

    /// Whether the outcome of every receive of an inbox is known, and every message was received.
    pub fn is_settled(&self, inbox: (u64, i32)) -> bool {
        let mut of_inbox = self.lanes.iter().filter(|(lane, _)| (lane.scope, lane.to) == inbox);
        !self.unknown.contains(&inbox) && of_inbox.all(|(_, ends)| ends.sent.is_empty())
    }
}

/// Compares what is sent with what the receive allows.
fn compare(sent: &Sent, posted: &Posted, findings: &mut Findings) {
    let (Some(message), Some(room)) = (&sent.elements, &posted.elements) else { return };
    let places = || vec![(*posted.place).clone(), (*sent.place).clone()];
    let (receive, send) = (&posted.place.function, &sent.place.function);
    match message.fit(room) {
        Fit::Same | Fit::Shorter => {}
        Fit::Longer => {
            let text = format!("{receive} has room for {room}, and {send} sends {message}.");
            findings.add(Class::Truncation, text, places());
        }
        Fit::Different => {
            let text = format!("{receive} expects {room}, and {send} sends {message}.");
            findings.add(Class::DatatypeMismatch, text, places());
        }
    }
}
