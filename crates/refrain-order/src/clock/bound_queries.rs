//! Lower bounds of future stamps: how a replay finds out that no earlier message can still arrive.
//!
//! A receive waits until every message that could precede its own in the reference order has arrived. A sender
//! that sends nothing for a while would block it forever. So senders are queried: *can you still send a message
//! whose stamp is not later than this clock?* These are the null messages of conservative simulation (Chandy and
//! Misra 1979), sent on demand.
//!
//! A process whose clock is later answers *no* at once. A process that waits for a message itself forwards the
//! query to the processes it waits for: if no message that early reaches it, it will not send one that early.
//! Processes that wait for each other forward the query in a circle; a process that gets the same query a second
//! time agrees provisionally. When all have agreed, the answer holds: the earliest message that violated it would
//! have to be sent by one of them, because of an even earlier message. A process that is running, or that may
//! continue because of an earlier message, answers later. If a process that has agreed continues because of a
//! message that arrived, the query is void and has to be repeated.
//!
//! This takes one or two notes between each pair of processes involved, whatever the clocks are. Raising lower
//! bounds step by step would take as many rounds as the clocks differ.
//!
//! Answers must not overtake messages: notes between two processes arrive in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::clock::Note;

/// What a process knows about the stamp of its next message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClockBound {
    /// It is at least this.
    AtLeast(u64),
    /// It is later than the queried clock, unless one of these processes sends a message that early.
    LaterUnless(Vec<u32>),
    /// Nothing is known yet.
    Unknown,
}

/// The queries of this process and of others, and the notes to be sent.
#[derive(Debug)]
pub struct BoundQueries {
    me: u32,
    serial: u64,
    /// The query of this process.
    own: Option<OwnQuery>,
    /// Queries that were forwarded, by their origin.
    forwarded: BTreeMap<u32, ForwardedQuery>,
    /// Queries that cannot be answered yet.
    deferred: Vec<ReceivedQuery>,
    out: VecDeque<(u32, Note)>,
}

#[derive(Debug)]
struct OwnQuery {
    clock: u64,
    /// Whether this process has agreed to its own query.
    agreed: bool,
    asked: Vec<u32>,
    /// Processes that have not answered.
    waiting: BTreeSet<u32>,
}

#[derive(Debug)]
struct ForwardedQuery {
    serial: u64,
    clock: u64,
    /// The process the query came from first, until it is answered.
    asker: Option<u32>,
    waiting: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReceivedQuery {
    from: u32,
    origin: u32,
    serial: u64,
    clock: u64,
}

impl BoundQueries {
    /// Without queries, for process `me`.
    pub fn new(me: u32) -> Self {
        let (own, out) = (None, VecDeque::new());
        Self { me, serial: 0, own, forwarded: BTreeMap::new(), deferred: Vec::new(), out }
    }

    /// The next note to send.
    pub fn next_note(&mut self) -> Option<(u32, Note)> {
        self.out.pop_front()
    }

    /// Adds another note to send, in order with the rest.
    pub fn push(&mut self, to: u32, note: Note) {
        self.out.push_back((to, note));
    }

    /// Whether there are no open queries.
    pub fn is_idle(&self) -> bool {
        self.own.is_none() && self.forwarded.is_empty() && self.deferred.is_empty()
    }

    /// The clock of this process's query.
    pub fn queried_clock(&self) -> Option<u64> {
        self.own.as_ref().map(|query| query.clock)
    }

    /// Begins a query to these processes. `agreed`: this process could send such a message too, and has agreed that
    /// it will not.
    pub fn query(&mut self, clock: u64, asked: Vec<u32>, agreed: bool) {
        self.serial += 1;
        let (origin, serial) = (self.me, self.serial);
        for to in &asked {
            self.out.push_back((*to, Note::Query { origin, serial, clock }));
        }
        let waiting = asked.iter().copied().collect();
        self.own = Some(OwnQuery { clock, agreed, asked, waiting });
    }

    /// Drops this process's query.
    pub fn drop_query(&mut self) {
        self.own = None;
    }

    /// Another process queries.
    pub fn receive_query(
        &mut self,
        from: u32,
        origin: u32,
        serial: u64,
        clock: u64,
        clock_bound: impl Fn(u64) -> ClockBound,
    ) {
        let asked = ReceivedQuery { from, origin, serial, clock };
        self.deferred.retain(|one| one.origin != origin || one.serial >= serial);
        self.consider(asked, &clock_bound);
    }

    fn answer(&mut self, to: u32, origin: u32, serial: u64, clock: u64, sure: bool) {
        self.out.push_back((to, Note::Bound { origin, serial, clock, sure }));
    }

    fn consider(&mut self, asked: ReceivedQuery, clock_bound: &impl Fn(u64) -> ClockBound) {
        let ReceivedQuery { from, origin, serial, clock } = asked;
        let forwarded = self.forwarded.get(&origin).map(|one| one.serial);
        let is_outdated = forwarded.is_some_and(|newest| newest > serial);
        if is_outdated || (origin == self.me && serial != self.serial) {
            // No process waits for the answer.
            return;
        }
        match clock_bound(clock) {
            ClockBound::AtLeast(bound) => self.answer(from, origin, serial, bound, true),
            ClockBound::Unknown => self.deferred.push(asked),
            ClockBound::LaterUnless(_) if origin == self.me => {
                if let Some(query) = &mut self.own {
                    query.agreed = true;
                    self.answer(from, origin, serial, clock.saturating_add(1), false);
                }
            }
            ClockBound::LaterUnless(_) if forwarded == Some(serial) => {
                self.answer(from, origin, serial, clock.saturating_add(1), false);
            }
            ClockBound::LaterUnless(laggards) if laggards.is_empty() => {
                self.answer(from, origin, serial, clock.saturating_add(1), true);
            }
            ClockBound::LaterUnless(laggards) => {
                for to in &laggards {
                    self.out.push_back((*to, Note::Query { origin, serial, clock }));
                }
                let waiting = laggards.into_iter().collect();
                let query = ForwardedQuery { serial, clock, asker: Some(from), waiting };
                self.forwarded.insert(origin, query);
            }
        }
    }

    /// Another process has answered. If that was the last answer to this process's query, returns its clock and the
    /// processes that were asked.
    pub fn receive_bound(
        &mut self,
        from: u32,
        origin: u32,
        serial: u64,
    ) -> Option<(u64, Vec<u32>)> {
        if origin == self.me {
            let query = self.own.as_mut().filter(|_| serial == self.serial)?;
            query.waiting.remove(&from);
            if !query.waiting.is_empty() {
                return None;
            }
            return self.own.take().map(|query| (query.clock, query.asked));
        }
        if let Some(forwarded) = self.forwarded.get_mut(&origin)
            && forwarded.serial == serial
        {
            forwarded.waiting.remove(&from);
        }
        None
    }

    /// Another process has withdrawn its answer.
    pub fn receive_retry(&mut self, origin: u32, serial: u64) {
        if origin == self.me {
            if serial == self.serial {
                self.own = None;
            }
        } else if self.forwarded.get(&origin).is_some_and(|one| one.serial == serial)
            && let Some(ForwardedQuery { asker: Some(asker), .. }) = self.forwarded.remove(&origin)
        {
            self.out.push_back((asker, Note::Retry { origin, serial }));
        }
    }

    /// Reconsiders all queries, after something has changed.
    pub fn reconsider(&mut self, clock_bound: impl Fn(u64) -> ClockBound) {
        for asked in std::mem::take(&mut self.deferred) {
            self.consider(asked, &clock_bound);
        }
        if let Some(query) = &self.own
            && query.agreed
            && clock_bound(query.clock) == ClockBound::Unknown
        {
            // Answers that rely on this process's agreement become void.
            self.own = None;
            self.serial += 1;
        }
        let origins: Vec<u32> = self.forwarded.keys().copied().collect();
        for origin in origins {
            let Some(forwarded) = self.forwarded.get_mut(&origin) else { continue };
            let (serial, clock) = (forwarded.serial, forwarded.clock);
            let (answer, over) = match clock_bound(clock) {
                ClockBound::Unknown => (Some(Note::Retry { origin, serial }), true),
                ClockBound::AtLeast(bound) => {
                    (Some(Note::Bound { origin, serial, clock: bound, sure: true }), true)
                }
                ClockBound::LaterUnless(laggards) => {
                    forwarded.waiting.retain(|one| laggards.contains(one));
                    let all = forwarded.waiting.is_empty();
                    let nothing =
                        Note::Bound { origin, serial, clock: clock.saturating_add(1), sure: false };
                    (all.then_some(nothing), false)
                }
            };
            if let Some(note) = answer
                && let Some(asker) = forwarded.asker.take()
            {
                self.out.push_back((asker, note));
            }
            if over {
                self.forwarded.remove(&origin);
            }
        }
    }
}
