//! The recording agent: lets MPI decide, sends stamps beside messages, and passes the outcomes to the recorder.

use std::collections::BTreeMap;

use super::notes::{Fault, Notes};
use crate::model::agent::{
    Agent, PostedRequest, Step, consumes, envelope, look, message_of, post, probed, receive_key,
    send_key,
};
use crate::model::mpi::{Message, Wanted};
use crate::model::program::{Operation, Slot};
use crate::model::world::{World, describe};
use refrain_order::clock::Note;
use refrain_order::clock::Recorder;
use refrain_order::{Call, Completed, Finished, Kind, MatchResult, Recording as _, Stamp, Ticket};

pub struct Recording {
    ranks: Vec<Recorder>,
    bytes: Vec<Vec<u8>>,
    /// On average, a chunk is sealed every this many steps.
    seal_every: u64,
    fault: Fault,
    notes: Notes,
    /// The true stamps of messages, by serial.
    stamps: BTreeMap<u64, Stamp>,
    /// Stamps of messages that are not reported yet, by source, target, communicator and tag.
    reported: BTreeMap<(usize, usize, u32, i32), Vec<Stamp>>,
    /// By thread and slot.
    requests: Vec<Vec<Option<PostedRequest>>>,
    /// Requests by ticket, including those that the program freed.
    by_ticket: Vec<BTreeMap<(u32, bool, u64), usize>>,
    /// By thread: requests of the operation under way.
    in_progress: Vec<Vec<PostedRequest>>,
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
            in_progress: vec![Vec::new(); threads],
        }
    }

    pub fn finish(mut self) -> Vec<Vec<u8>> {
        for (recorder, bytes) in self.ranks.into_iter().zip(&mut self.bytes) {
            recorder.finish(bytes);
        }
        self.bytes
    }

    /// The job was killed: only sealed chunks exist.
    pub fn killed(self) -> Vec<Vec<u8>> {
        self.bytes
    }

    fn turn(&mut self, world: &World, thread: usize, key: u64) {
        let caller = &world.threads[thread];
        if world.config.threads > 1 {
            self.ranks[caller.rank].turn(caller.number as u32, key);
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
        if self.fault == Fault::PairInReportedOrder && ticket.is_none() {
            return self.stamps[&message.serial];
        }
        if self.fault == Fault::PairInReportedOrder {
            let name = (message.source, rank, communicator, message.tag);
            return self.reported.get_mut(&name).expect("it was sent").remove(0);
        }
        for asked in self.ranks[rank].unresolved(ticket, communicator, from) {
            // With a real MPI, this may have to wait for the data, which certainly arrive.
            let request = self.by_ticket[rank][&key(asked)];
            match message_of(&world.mpi, rank, request) {
                Some(other) => {
                    self.ranks[rank].observe(asked, MatchResult::Matched(envelope(&other)));
                }
                None => {
                    assert!(world.mpi.is_done(rank, request), "it has to have taken a message");
                    self.ranks[rank].observe(asked, MatchResult::Cancelled);
                }
            }
        }
        loop {
            if let Some(stamp) = self.ranks[rank].stamp_of(ticket, communicator, from) {
                assert_eq!(stamp, self.stamps[&message.serial], "stamps are mixed up");
                return stamp;
            }
            let note = self.notes.take(message.source, rank).expect("the stamp was sent");
            self.ranks[rank].receive_note(message.source as u32, &note);
        }
    }

    fn finished(&mut self, world: &World, rank: usize, held: &PostedRequest) -> Option<Finished> {
        let PostedRequest { request, ticket, receive } = *held;
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

    fn receive(
        &mut self,
        world: &mut World,
        thread: usize,
        wanted: &Wanted,
        site: u64,
    ) -> PostedRequest {
        self.turn(world, thread, receive_key(wanted));
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
        let ticket = self.ranks[rank].post(stream, &post(wanted, site));
        let request = world.mpi.receive(rank, *wanted);
        self.by_ticket[rank].insert(key(ticket), request);
        PostedRequest { request, ticket, receive: true }
    }

    fn send(
        &mut self,
        world: &mut World,
        thread: usize,
        to: usize,
        communicator: u32,
        tag: i32,
        large: bool,
    ) -> PostedRequest {
        self.turn(world, thread, send_key(to, communicator, tag));
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
        let named = Wanted { communicator, source: Some(0), tag: Some(tag) };
        let ticket = self.ranks[rank].post(stream, &post(&named, 99));
        let stamp = self.ranks[rank].stamp(ticket, to as u32).expect("messages are stamped");
        let note = Note::Sent { clock: stamp.clock, communicator, source: rank as i32, tag };
        self.notes.send(rank, to, note, Fault::None);
        self.stamps.insert(self.stamps.len() as u64, stamp);
        self.reported.entry((rank, to, communicator, tag)).or_default().push(stamp);
        let request = world.mpi.send(rank, to, communicator, tag, caller.digest, large);
        PostedRequest { request, ticket, receive: false }
    }

    fn keep(&mut self, world: &mut World, thread: usize, kept: PostedRequest) {
        let receive = kept.receive;
        self.requests[thread].push(Some(kept));
        world.threads[thread].slots.push(Slot { active: true, receive, persistent: None });
    }

    /// A blocking receive, with or without a send.
    fn blocking(&mut self, world: &mut World, thread: usize, kind: Kind, site: u64) -> Step {
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
        let pending = self.in_progress[thread].clone();
        if !pending.iter().all(|held| world.mpi.is_done(rank, held.request)) {
            return Step::Blocked;
        }
        let Some(held) = pending.first() else { return Step::Blocked };
        let message = message_of(&world.mpi, rank, held.request);
        let finished = self.finished(world, rank, held);
        let call = Call { kind, site, count: 0 };
        let finished: Vec<Finished> = finished.into_iter().collect();
        self.ranks[rank].completed(stream, &call, &[Some(held.ticket)], Completed::All, &finished);
        self.in_progress[thread].clear();
        world.threads[thread].observe_message(1, message.as_ref());
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
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
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
            world.threads[thread].observe(vec![2, 0]);
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
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
        let held = |slot: &Option<usize>| {
            let slot = (*slot).filter(|slot| caller.slots[*slot].active)?;
            self.requests[thread][slot]
        };
        let held: Vec<Option<PostedRequest>> = slots.iter().map(held).collect();
        let done =
            |held: &Option<PostedRequest>| held.map(|held| world.mpi.is_done(rank, held.request));
        let active: Vec<Option<bool>> = held.iter().map(done).collect();
        let Some((any, indices)) = look(world, kind, &active) else {
            if !kind.polls() {
                return Step::Blocked;
            }
            self.ranks[rank].failed(stream, kind, site);
            world.threads[thread].observe(vec![3, 0]);
            return Step::Done;
        };
        let count = if kind.has_array() { slots.len() as u32 } else { 0 };
        let call = Call { kind, site, count };
        let completed = match kind.choice() {
            refrain_order::Choice::All => Completed::All,
            _ if !any => Completed::Undefined,
            _ => Completed::These(&indices),
        };
        let done = indices.iter().filter_map(|index| held[*index as usize]);
        let mut finished = Vec::new();
        for held in done.collect::<Vec<PostedRequest>>() {
            finished.extend(self.finished(world, rank, &held));
        }
        let ticket =
            |held: &Option<PostedRequest>| held.filter(|held| held.receive).map(|held| held.ticket);
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
        world.threads[thread].observe(entry);
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

    /// Receives notes, and seals chunks at random.
    fn advance_time(&mut self, world: &mut World, rank: usize) {
        if world.schedule.chance(1, 3)
            && let Some((from, note)) = self.notes.any(rank, &mut world.schedule)
        {
            self.ranks[rank].receive_note(from as u32, &note);
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
        self.advance_time(world, rank);
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
                if self.in_progress[thread].is_empty() {
                    let posted = self.receive(world, thread, &wanted, site);
                    self.in_progress[thread].push(posted);
                    return Step::Went;
                }
                return self.blocking(world, thread, Kind::Recv, site);
            }
            Operation::Sendrecv { wanted, site, to, tag } => {
                if self.in_progress[thread].is_empty() {
                    let posted = self.receive(world, thread, &wanted, site);
                    let sent = self.send(world, thread, to, wanted.communicator, tag, true);
                    self.in_progress[thread].extend([posted, sent]);
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
                // For the order, the message was received when the probe found it.
                if self.in_progress[thread].is_empty() {
                    let request = world.mpi.receive_matched(rank, message);
                    let ticket = Ticket { stream, wild: true, number: u64::MAX };
                    self.in_progress[thread].push(PostedRequest {
                        request,
                        ticket,
                        receive: false,
                    });
                    return Step::Went;
                }
                let request = self.in_progress[thread][0].request;
                if !world.mpi.is_done(rank, request) {
                    return Step::Blocked;
                }
                self.in_progress[thread].clear();
                let call = Call { kind: Kind::Mrecv, site, count: 0 };
                self.ranks[rank].completed(stream, &call, &[], Completed::All, &[]);
                world.threads[thread].observe_message(1, Some(&message));
            }
            Operation::Complete { kind, slots, site } => {
                return self.complete(world, thread, kind, &slots, site);
            }
            Operation::Cancel { slot } => {
                if let Some(held) = self.requests[thread][slot] {
                    world.mpi.cancel(rank, held.request);
                    self.ranks[rank].cancel(held.ticket);
                }
            }
            Operation::Free { slot } => {
                self.requests[thread][slot] = None;
                world.threads[thread].slots[slot] = Slot::default();
            }
            Operation::Clock => {
                self.ranks[rank].value(stream, 0, world.clock);
                let now = world.clock as i64;
                world.threads[thread].observe(vec![4, now]);
            }
        }
        Step::Done
    }
}
