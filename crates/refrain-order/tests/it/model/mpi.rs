//! A model of MPI's matching rules.
//!
//! Messages of one sender to one receiver on one communicator arrive in sending order; everything else is up to the
//! schedule. An arriving message is matched with the first posted receive that accepts it, or waits in the queue of
//! unexpected messages; a new receive takes the first message there that it accepts. After the match the data are
//! moved, which takes as long as the schedule decides, so receives complete out of order. The send of a large message
//! completes when its data were moved, that of a small message at once.

use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub source: usize,
    pub target: usize,
    pub communicator: u32,
    pub tag: i32,
    pub payload: u64,
    /// The number of the message among all messages.
    pub serial: u64,
    /// The sender's request, if it completes when the data are moved.
    send: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub communicator: u32,
    pub source: Option<i32>,
    pub tag: Option<i32>,
}

impl Wanted {
    fn accepts(&self, message: &Message) -> bool {
        self.communicator == message.communicator
            && self.source.is_none_or(|source| source == message.source as i32)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Posted,
    Moving(Message),
    /// Done; with the message, if it was a receive that was not cancelled.
    Done(Option<Message>),
}

#[derive(Clone, Debug, Default)]
struct Rank {
    /// In posting order.
    posted: Vec<(usize, Wanted)>,
    /// In order of arrival.
    unexpected: Vec<Message>,
    requests: Vec<Request>,
}

#[derive(Clone, Debug, Default)]
pub struct Mpi {
    ranks: Vec<Rank>,
    in_flight: BTreeMap<(usize, usize, u32), VecDeque<Message>>,
    /// Receivers and requests of matched messages whose data are not moved yet.
    moving: Vec<(usize, usize)>,
    sent: u64,
}

/// A step of the network.
#[derive(Clone, Copy, Debug)]
pub enum Motion {
    Arrive((usize, usize, u32)),
    Move(usize),
}

impl Mpi {
    pub fn new(ranks: usize) -> Self {
        Self { ranks: vec![Rank::default(); ranks], ..Self::default() }
    }

    pub fn send(
        &mut self,
        from: usize,
        to: usize,
        communicator: u32,
        tag: i32,
        payload: u64,
        large: bool,
    ) -> usize {
        let requests = &mut self.ranks[from].requests;
        let request = requests.len();
        requests.push(if large { Request::Posted } else { Request::Done(None) });
        let send = large.then_some(request);
        let serial = self.sent;
        self.sent += 1;
        let message =
            Message { source: from, target: to, communicator, tag, payload, serial, send };
        self.in_flight.entry((from, to, communicator)).or_default().push_back(message);
        request
    }

    pub fn receive(&mut self, rank: usize, wanted: Wanted) -> usize {
        let state = &mut self.ranks[rank];
        let request = state.requests.len();
        state.requests.push(Request::Posted);
        match state.unexpected.iter().position(|message| wanted.accepts(message)) {
            Some(at) => {
                let message = state.unexpected.remove(at);
                self.matched(rank, request, message);
            }
            None => state.posted.push((request, wanted)),
        }
        request
    }

    /// The first unexpected message that a receive would get.
    pub fn probe(&self, rank: usize, wanted: Wanted) -> Option<Message> {
        self.ranks[rank].unexpected.iter().find(|message| wanted.accepts(message)).copied()
    }

    /// Removes that message from the queue, so that no other receive gets it.
    pub fn matched_probe(&mut self, rank: usize, wanted: Wanted) -> Option<Message> {
        let queue = &mut self.ranks[rank].unexpected;
        let at = queue.iter().position(|message| wanted.accepts(message))?;
        Some(queue.remove(at))
    }

    pub fn receive_matched(&mut self, rank: usize, message: Message) -> usize {
        let request = self.ranks[rank].requests.len();
        self.ranks[rank].requests.push(Request::Posted);
        self.matched(rank, request, message);
        request
    }

    pub fn cancel(&mut self, rank: usize, request: usize) {
        let state = &mut self.ranks[rank];
        if let Some(at) = state.posted.iter().position(|(posted, _)| *posted == request) {
            state.posted.remove(at);
            state.requests[request] = Request::Done(None);
        }
    }

    pub fn state(&self, rank: usize, request: usize) -> Request {
        self.ranks[rank].requests[request]
    }

    pub fn is_done(&self, rank: usize, request: usize) -> bool {
        matches!(self.state(rank, request), Request::Done(_))
    }

    fn matched(&mut self, rank: usize, request: usize, message: Message) {
        self.ranks[rank].requests[request] = Request::Moving(message);
        self.moving.push((rank, request));
    }

    /// All possible steps of the network.
    pub fn motions(&self) -> Vec<Motion> {
        let in_flight = self.in_flight.iter().filter(|(_, queue)| !queue.is_empty());
        let arrivals = in_flight.map(|(channel, _)| Motion::Arrive(*channel));
        arrivals.chain((0..self.moving.len()).map(Motion::Move)).collect()
    }

    pub fn go(&mut self, motion: Motion) {
        match motion {
            Motion::Arrive(channel) => {
                let Some(message) = self.in_flight.get_mut(&channel).and_then(VecDeque::pop_front)
                else {
                    return;
                };
                let rank = message.target;
                let state = &mut self.ranks[rank];
                match state.posted.iter().position(|(_, wanted)| wanted.accepts(&message)) {
                    Some(at) => {
                        let (request, _) = state.posted.remove(at);
                        self.matched(rank, request, message);
                    }
                    None => state.unexpected.push(message),
                }
            }
            Motion::Move(at) => {
                let (rank, request) = self.moving.remove(at);
                if let Request::Moving(message) = self.state(rank, request) {
                    self.ranks[rank].requests[request] = Request::Done(Some(message));
                    if let Some(send) = message.send {
                        self.ranks[message.source].requests[send] = Request::Done(None);
                    }
                }
            }
        }
    }
}
