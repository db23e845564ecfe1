//! The recording agent: lets MPI decide, carries stamps beside messages, and tells the recorder.

use std::collections::BTreeMap;

use super::notes::{Fault, Notes};
use crate::model::agent::{Agent, Step, consumes, look, message_of, probed, receive_key, send_key};
use crate::model::mpi::{Message, Wanted};
use crate::model::program::{Operation, Slot};
use crate::model::world::{World, describe};
use refrain_order::clock::Note;
use refrain_order::clock::Recorder;
use refrain_order::{
    Call, Completed, Envelope, Finished, Kind, MatchResult, Post, Recording as _, Stamp, Ticket,
};

pub struct Recording {
    ranks: Vec<Recorder>,
    bytes: Vec<Vec<u8>>,
    /// One chunk is sealed in so many steps.
    seal_every: u64,
    fault: Fault,
    notes: Notes,
    /// The true stamps of messages, by serial.
    stamps: BTreeMap<u64, Stamp>,
    /// Stamps by source, target, communicator and tag, as far as nothing was reported with them.
    reported: BTreeMap<(usize, usize, u32, i32), Vec<Stamp>>,
    /// By thread and slot.
    requests: Vec<Vec<Option<Held>>>,
    /// Requests by ticket, also those the program let go of.
    by_ticket: Vec<BTreeMap<(u32, bool, u64), usize>>,
    /// By thread: requests of the operation under way.
    under_way: Vec<Vec<Held>>,
}

/// A request, and what the recorder knows it by.
#[derive(Clone, Copy)]
struct Held {
    request: usize,
    ticket: Ticket,
    receive: bool,
}

pub fn post(wanted: &Wanted, site: u64) -> Post {
    let Wanted { communicator, source, tag } = *wanted;
    Post { site, communicator, source, tag }
}

pub fn envelope(message: &Message) -> Envelope {
    Envelope { source: message.source as i32, tag: message.tag }
}

fn key(ticket: Ticket) -> (u32, bool, u64) {
    (ticket.stream, ticket.wild, ticket.number)
}

impl Recording {
    pub fn new(world: &World, seal_every: u64, fault: Fault) -> Self {
        let ranks = world.config.ranks;
        let threads = world.threads.len();
        Self {
            ranks: (0..ranks as u32).map(Recorder::new).collect(),
            bytes: vec![Vec::new(); ranks],
            seal_every,
            fault,
            notes: Notes::default(),
            stamps: BTreeMap::new(),
            reported: BTreeMap::new(),
            requests: vec![Vec::new(); threads],
            by_ticket: vec![BTreeMap::new(); ranks],
            under_way: vec![Vec::new(); threads],
        }
    }

    pub fn finish(mut self) -> Vec<Vec<u8>> {
        for (recorder, bytes) in self.ranks.into_iter().zip(&mut self.bytes) {
            recorder.finish(bytes);
        }
        self.bytes
    }

    /// The job was killed: what was sealed is all there is.
    pub fn killed(self) -> Vec<Vec<u8>> {
        self.bytes
    }

    fn turn(&mut self, world: &World, thread: usize, key: u64) {
        let own = &world.threads[thread];
        if world.config.threads > 1 {
            self.ranks[own.rank].turn(own.number as u32, key);
        }
    }

    /// The stamp of a message that a receive got, or that a probe found.
    fn stamp(
        &mut self,
        world: &World,
        rank: usize,
        ticket: Option<Ticket>,
        message: &Message,
    ) -> Stamp {
        let (communicator, from) = (message.communicator, envelope(message));
        if self.fault == Fault::PairAsReported && ticket.is_none() {
            return self.stamps[&message.serial];
        }
        if self.fault == Fault::PairAsReported {
            let name = (message.source, rank, communicator, message.tag);
            return self.reported.get_mut(&name).expect("it was sent").remove(0);
        }
        for asked in self.ranks[rank].unknown(ticket, communicator, from) {
            // In a real MPI this may have to wait for the data; that they come is certain.
            let request = self.by_ticket[rank][&key(asked)];
            match message_of(&world.mpi, rank, request) {
                Some(other) => {
                    self.ranks[rank].learn(asked, MatchResult::Matched(envelope(&other)));
                }
                None => {
                    assert!(world.mpi.is_done(rank, request), "it has to have taken a message");
                    self.ranks[rank].learn(asked, MatchResult::Cancelled);
                }
            }
        }
        loop {
            if let Some(stamp) = self.ranks[rank].stamp_of(ticket, communicator, from) {
                assert_eq!(stamp, self.stamps[&message.serial], "stamps are mixed up");
                return stamp;
            }
            let note = self.notes.take(message.source, rank).expect("the stamp was sent");
            self.ranks[rank].hear(message.source as u32, &note);
        }
    }

    fn finished(&mut self, world: &World, rank: usize, held: &Held) -> Option<Finished> {
        let Held { request, ticket, receive } = *held;
        if !self.ranks[rank].is_open(ticket) {
            return None;
        }
        match message_of(&world.mpi, rank, request) {
            Some(message) => {
                let stamp = Some(self.stamp(world, rank, Some(ticket), &message));
                Some(Finished {
                    ticket,
                    match_result: MatchResult::Matched(envelope(&message)),
                    stamp,
                })
            }
            None if receive => {
                Some(Finished { ticket, match_result: MatchResult::Cancelled, stamp: None })
            }
            None => None,
        }
    }

    fn receive(&mut self, world: &mut World, thread: usize, wanted: &Wanted, site: u64) -> Held {
        self.turn(world, thread, receive_key(wanted));
        let own = &world.threads[thread];
        let (rank, stream) = (own.rank, own.number as u32);
        let ticket = self.ranks[rank].post(stream, &post(wanted, site));
        let request = world.mpi.receive(rank, *wanted);
        self.by_ticket[rank].insert(key(ticket), request);
        Held { request, ticket, receive: true }
    }

    fn send(
        &mut self,
        world: &mut World,
        thread: usize,
        to: usize,
        communicator: u32,
        tag: i32,
        large: bool,
    ) -> Held {
        self.turn(world, thread, send_key(to, communicator, tag));
        let own = &world.threads[thread];
        let (rank, stream) = (own.rank, own.number as u32);
        let named = Wanted { communicator, source: Some(0), tag: Some(tag) };
        let ticket = self.ranks[rank].post(stream, &post(&named, 99));
        let stamp = self.ranks[rank].stamp(ticket, to as u32).expect("messages are stamped");
        let note = Note::Sent { clock: stamp.clock, communicator, source: rank as i32, tag };
        self.notes.send(rank, to, note, Fault::None);
        self.stamps.insert(self.stamps.len() as u64, stamp);
        self.reported.entry((rank, to, communicator, tag)).or_default().push(stamp);
        let request = world.mpi.send(rank, to, communicator, tag, own.digest, large);
        Held { request, ticket, receive: false }
    }

    fn keep(&mut self, world: &mut World, thread: usize, kept: Held) {
        let receive = kept.receive;
        self.requests[thread].push(Some(kept));
        world.threads[thread].slots.push(Slot { active: true, receive, persistent: None });
    }

    /// A blocking receive, with or without a send.
    fn blocking(&mut self, world: &mut World, thread: usize, kind: Kind, site: u64) -> Step {
        let own = &world.threads[thread];
        let (rank, stream) = (own.rank, own.number as u32);
        let pending = self.under_way[thread].clone();
        if !pending.iter().all(|held| world.mpi.is_done(rank, held.request)) {
            return Step::Blocked;
        }
        let Some(held) = pending.first() else { return Step::Blocked };
        let message = message_of(&world.mpi, rank, held.request);
        let finished = self.finished(world, rank, held);
        let call = Call { kind, site, count: 0 };
        let finished: Vec<Finished> = finished.into_iter().collect();
        self.ranks[rank].completed(stream, &call, &[Some(held.ticket)], Completed::All, &finished);
        self.under_way[thread].clear();
        world.threads[thread].tell_message(1, message.as_ref());
        Step::Done
    }

    fn probe(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        wanted: &Wanted,
        site: u64,
    ) -> Step {
        let own = &world.threads[thread];
        let (rank, stream) = (own.rank, own.number as u32);
        let takes = matches!(kind, Kind::Mprobe | Kind::Improbe);
        let found = if takes {
            world.mpi.matched_probe(rank, *wanted)
        } else {
            world.mpi.probe(rank, *wanted)
        };
        let Some(message) = found else {
            if !kind.polls() {
                return Step::Blocked;
            }
            self.ranks[rank].failed(stream, kind, site);
            world.threads[thread].tell(vec![2, 0]);
            return Step::Done;
        };
        self.turn(world, thread, receive_key(wanted));
        let name = (message.source, rank, message.communicator, message.tag);
        if let Some(stamps) = self.reported.get_mut(&name).filter(|_| takes) {
            stamps.retain(|stamp| *stamp != self.stamps[&message.serial]);
        }
        let stamp = Some(self.stamp(world, rank, None, &message));
        let ticket = self.ranks[rank].post(stream, &post(wanted, site));
        let finished =
            [Finished { ticket, match_result: MatchResult::Matched(envelope(&message)), stamp }];
        let call = Call { kind, site, count: 0 };
        self.ranks[rank].completed(stream, &call, &[], Completed::All, &finished);
        probed(world, thread, message, takes);
        Step::Done
    }

    fn complete(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        slots: &[Option<usize>],
        site: u64,
    ) -> Step {
        let own = &world.threads[thread];
        let (rank, stream) = (own.rank, own.number as u32);
        let held = |slot: &Option<usize>| {
            let slot = (*slot).filter(|slot| own.slots[*slot].active)?;
            self.requests[thread][slot]
        };
        let held: Vec<Option<Held>> = slots.iter().map(held).collect();
        let done = |held: &Option<Held>| held.map(|held| world.mpi.is_done(rank, held.request));
        let active: Vec<Option<bool>> = held.iter().map(done).collect();
        let Some((any, indices)) = look(world, kind, &active) else {
            if !kind.polls() {
                return Step::Blocked;
            }
            self.ranks[rank].failed(stream, kind, site);
            world.threads[thread].tell(vec![3, 0]);
            return Step::Done;
        };
        let count = if kind.has_array() { slots.len() as u32 } else { 0 };
        let call = Call { kind, site, count };
        let completed = match kind.choice() {
            refrain_order::Choice::All => Completed::All,
            _ if !any => Completed::Undefined,
            _ => Completed::These(&indices),
        };
        let own = indices.iter().filter_map(|index| held[*index as usize]);
        let mut finished = Vec::new();
        for held in own.collect::<Vec<Held>>() {
            finished.extend(self.finished(world, rank, &held));
        }
        let ticket = |held: &Option<Held>| held.filter(|held| held.receive).map(|held| held.ticket);
        let tickets: Vec<Option<Ticket>> = held.iter().map(ticket).collect();
        self.ranks[rank].completed(stream, &call, &tickets, completed, &finished);
        let mut entry = vec![3, 1, any.into()];
        for index in indices {
            let (Some(slot), Some(held)) = (slots[index as usize], held[index as usize]) else {
                continue;
            };
            let message = message_of(&world.mpi, rank, held.request);
            entry.push(index.into());
            entry.extend(describe(message.as_ref()));
            if consumes(kind) {
                world.threads[thread].slots[slot].active = false;
                self.requests[thread][slot] = None;
            }
        }
        world.threads[thread].tell(entry);
        Step::Done
    }

    fn start(&mut self, world: &mut World, thread: usize, slots: Vec<usize>) {
        for slot in slots {
            let Some((wanted, site)) = world.threads[thread].slots[slot].persistent else {
                continue;
            };
            let posted = self.receive(world, thread, &wanted, site);
            self.requests[thread][slot] = Some(posted);
            world.threads[thread].slots[slot].active = true;
        }
    }

    /// Time passes: notes come, chunks are sealed.
    fn meanwhile(&mut self, world: &mut World, rank: usize) {
        if world.schedule.chance(1, 3)
            && let Some((from, note)) = self.notes.any(rank, &mut world.schedule)
        {
            self.ranks[rank].hear(from as u32, &note);
        }
        if world.schedule.chance(1, self.seal_every) {
            self.ranks[rank].seal(&mut self.bytes[rank]);
        }
    }
}

impl Agent for Recording {
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step {
        let Some(operation) = world.threads[thread].operation.clone() else { return Step::Blocked };
        let rank = world.threads[thread].rank;
        let stream = world.threads[thread].number as u32;
        self.meanwhile(world, rank);
        match operation {
            Operation::Send { to, communicator, tag, large } => {
                let sent = self.send(world, thread, to, communicator, tag, large);
                self.keep(world, thread, sent);
            }
            Operation::Receive { wanted, site } => {
                let posted = self.receive(world, thread, &wanted, site);
                self.keep(world, thread, posted);
            }
            Operation::Blocking { wanted, site } => {
                if self.under_way[thread].is_empty() {
                    let posted = self.receive(world, thread, &wanted, site);
                    self.under_way[thread].push(posted);
                    return Step::Went;
                }
                return self.blocking(world, thread, Kind::Recv, site);
            }
            Operation::Sendrecv { wanted, site, to, tag } => {
                if self.under_way[thread].is_empty() {
                    let posted = self.receive(world, thread, &wanted, site);
                    let sent = self.send(world, thread, to, wanted.communicator, tag, true);
                    self.under_way[thread].extend([posted, sent]);
                    return Step::Went;
                }
                return self.blocking(world, thread, Kind::Sendrecv, site);
            }
            Operation::Init { wanted, site } => {
                self.requests[thread].push(None);
                let persistent = Some((wanted, site));
                let slot = Slot { active: false, receive: true, persistent };
                world.threads[thread].slots.push(slot);
            }
            Operation::Start { slots } => self.start(world, thread, slots),
            Operation::Probe { kind, wanted, site } => {
                return self.probe(world, thread, kind, &wanted, site);
            }
            Operation::ReceiveMatched { message, site } => {
                // The message was received, as far as the order goes, when it was found.
                if self.under_way[thread].is_empty() {
                    let request = world.mpi.receive_matched(rank, message);
                    let ticket = Ticket { stream, wild: true, number: u64::MAX };
                    self.under_way[thread].push(Held { request, ticket, receive: false });
                    return Step::Went;
                }
                let request = self.under_way[thread][0].request;
                if !world.mpi.is_done(rank, request) {
                    return Step::Blocked;
                }
                self.under_way[thread].clear();
                let call = Call { kind: Kind::Mrecv, site, count: 0 };
                self.ranks[rank].completed(stream, &call, &[], Completed::All, &[]);
                world.threads[thread].tell_message(1, Some(&message));
            }
            Operation::Complete { kind, slots, site } => {
                return self.complete(world, thread, kind, &slots, site);
            }
            Operation::Cancel { slot } => {
                if let Some(held) = self.requests[thread][slot] {
                    world.mpi.cancel(rank, held.request);
                    self.ranks[rank].cancels(held.ticket);
                }
            }
            Operation::Free { slot } => {
                self.requests[thread][slot] = None;
                world.threads[thread].slots[slot] = Slot::default();
            }
            Operation::Clock => {
                self.ranks[rank].value(stream, 0, world.clock);
                let now = world.clock as i64;
                world.threads[thread].tell(vec![4, now]);
            }
        }
        Step::Done
    }
}
