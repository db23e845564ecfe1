//! The replaying agent: holds receives back, and gives them the messages that the replayer chooses.

use std::collections::BTreeMap;

use super::notes::{Fault, Notes};
use crate::model::agent::{Agent, Step, Unfinished, consumes, post, probed, receive_key, send_key};
use crate::model::mpi::{Message, Wanted};
use crate::model::program::{Operation, Slot};
use crate::model::world::{World, describe};
use refrain_order::clock::Replayer;
use refrain_order::clock::{Answer, Delivery, Note, Sending};
use refrain_order::{Call, Choice, Kind, Stamp, Stop, Ticket, Turn};

/// Communicator, source and tag.
type Name = (u32, i32, i32);

pub struct Replaying {
    ranks: Vec<Replayer>,
    fault: Fault,
    notes: Notes,
    /// Messages that were received early, by rank and name, in order, so that senders of large messages do not wait.
    taken: Vec<BTreeMap<Name, Vec<(Message, usize)>>>,
    /// The message of each stamp, by rank.
    stamped: Vec<BTreeMap<(u32, u64), (Name, usize)>>,
    heard: Vec<BTreeMap<u32, u64>>,
    named: Vec<BTreeMap<Name, usize>>,
    requests: Vec<Vec<Option<Held>>>,
    in_progress: Vec<InProgress>,
    over: Vec<bool>,
    /// Why threads could not continue, except for ends of records.
    pub stops: Vec<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Send(usize),
    /// With its message, when that is known.
    Receive(Ticket, Option<Stamp>),
    Cancelled,
}

#[derive(Clone, Debug, Default)]
struct InProgress {
    held: Vec<Held>,
    decided: Option<Decided>,
    /// How many of several steps were made.
    made: usize,
}

#[derive(Clone, Debug)]
struct Decided {
    any: bool,
    all: bool,
    deliveries: Vec<Delivery>,
}

impl Replaying {
    pub fn new(world: &World, records: &[Vec<u8>], fault: Fault) -> Self {
        let (ranks, threads) = (records.len(), world.threads.len());
        let replayer = |(me, bytes): (u32, &Vec<u8>)| {
            let mut replayer =
                Replayer::new(bytes.clone(), me, ranks as u32).expect("a record just made");
            if fault == Fault::DecideEarly {
                let (clock, sure) = (u64::MAX, true);
                let note = Note::Bound { origin: u32::MAX, serial: 0, clock, sure };
                (0..ranks as u32).for_each(|from| replayer.receive_note(from, note));
            }
            replayer
        };
        Self {
            ranks: (0..).zip(records).map(replayer).collect(),
            fault,
            notes: Notes::default(),
            taken: vec![BTreeMap::new(); ranks],
            stamped: vec![BTreeMap::new(); ranks],
            heard: vec![BTreeMap::new(); ranks],
            named: vec![BTreeMap::new(); ranks],
            requests: vec![Vec::new(); threads],
            in_progress: vec![InProgress::default(); threads],
            over: vec![false; threads],
            stops: Vec::new(),
        }
    }

    /// The end of the job.
    pub fn finish(self) -> Vec<Stop> {
        let mut stops = self.stops;
        stops.extend(self.ranks.into_iter().filter_map(|rank| rank.finish().err()));
        stops
    }

    /// The number of queries and answers.
    pub fn queries(&self) -> u64 {
        self.notes.queries
    }

    fn turn(&mut self, world: &World, thread: usize, key: u64) -> Result<(), Unfinished> {
        let caller = &world.threads[thread];
        if world.config.threads == 1 {
            return Ok(());
        }
        match self.ranks[caller.rank].turn(caller.number as u32, key) {
            Turn::Go => Ok(()),
            Turn::After(_) => Err(Unfinished::NotYet),
        }
    }

    fn took_turn(&mut self, world: &World, thread: usize, key: u64) {
        if world.config.threads > 1 {
            self.ranks[world.threads[thread].rank].took_turn(key);
        }
    }

    fn receive(
        &mut self,
        world: &mut World,
        thread: usize,
        wanted: &Wanted,
        site: u64,
    ) -> Result<Held, Unfinished> {
        self.turn(world, thread, receive_key(wanted))?;
        let caller = &world.threads[thread];
        let ticket = self.ranks[caller.rank].receive(caller.number as u32, &post(wanted, site))?;
        self.took_turn(world, thread, receive_key(wanted));
        Ok(Held::Receive(ticket, None))
    }

    fn send(
        &mut self,
        world: &mut World,
        thread: usize,
        to: usize,
        communicator: u32,
        tag: i32,
        large: bool,
    ) -> Result<Held, Unfinished> {
        self.turn(world, thread, send_key(to, communicator, tag))?;
        let caller = &world.threads[thread];
        let rank = caller.rank;
        let sending = Sending { to: to as u32, communicator, source: rank as i32, tag };
        let sent = self.ranks[rank].send(caller.number as u32, &sending)?;
        sent.ok_or(Unfinished::NotYet)?;
        if to == rank {
            self.announced(rank, rank as u32, (communicator, rank as i32, tag));
        }
        let request = world.mpi.send(rank, to, communicator, tag, caller.digest, large);
        self.took_turn(world, thread, send_key(to, communicator, tag));
        Ok(Held::Send(request))
    }

    /// A note has announced the next message of a sender to a rank.
    fn announced(&mut self, rank: usize, sender: u32, name: Name) {
        let sequence = self.heard[rank].entry(sender).or_default();
        let nth = self.named[rank].entry(name).or_default();
        self.stamped[rank].insert((sender, *sequence), (name, *nth));
        *sequence += 1;
        *nth += 1;
    }

    /// The message of a stamp, if it has arrived.
    fn message(&self, rank: usize, stamp: Stamp) -> Option<(Message, usize)> {
        let (name, nth) = self.stamped[rank].get(&(stamp.sender, stamp.sequence))?;
        self.taken[rank].get(name)?.get(*nth).copied()
    }

    fn is_done(&self, world: &World, rank: usize, held: Held) -> bool {
        match held {
            Held::Send(request) => world.mpi.is_done(rank, request),
            Held::Cancelled => true,
            Held::Receive(_, None) => false,
            Held::Receive(_, Some(stamp)) => self
                .message(rank, stamp)
                .is_some_and(|(_, request)| world.mpi.is_done(rank, request)),
        }
    }

    fn delivered(&self, rank: usize, held: Held) -> Option<Message> {
        match held {
            Held::Receive(_, Some(stamp)) => self.message(rank, stamp).map(|(message, _)| message),
            _ => None,
        }
    }

    fn keep(&mut self, world: &mut World, thread: usize, kept: Held) {
        let receive = !matches!(kept, Held::Send(_));
        self.requests[thread].push(Some(kept));
        world.threads[thread].slots.push(Slot { active: true, receive, persistent: None });
    }

    /// Asks the replayer about a call; `None` if the call fails.
    fn call(
        &mut self,
        world: &World,
        thread: usize,
        call: &Call,
        tickets: &[Option<Ticket>],
    ) -> Result<Option<Decided>, Unfinished> {
        let caller = &world.threads[thread];
        let decided = |any, all, deliveries: &[Delivery]| {
            Ok(Some(Decided { any, all, deliveries: deliveries.to_vec() }))
        };
        match self.ranks[caller.rank].call(caller.number as u32, call, tickets)? {
            Answer::Later => Err(Unfinished::NotYet),
            Answer::Fail => Ok(None),
            Answer::Undefined => decided(false, false, &[]),
            Answer::All(deliveries) => decided(true, true, deliveries),
            Answer::These(deliveries) => decided(true, false, deliveries),
        }
    }

    /// A blocking receive that was posted.
    fn blocking(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        site: u64,
    ) -> Result<Step, Unfinished> {
        let rank = world.threads[thread].rank;
        if self.in_progress[thread].decided.is_none() {
            let held = self.in_progress[thread].held[0];
            let Held::Receive(ticket, _) = held else { return Ok(Step::Blocked) };
            let call = Call { kind, site, count: 0 };
            let decided = self.call(world, thread, &call, &[Some(ticket)])?;
            let message = decided.as_ref().and_then(|one| one.deliveries.first()?.message);
            self.in_progress[thread].held[0] = Held::Receive(ticket, message);
            self.in_progress[thread].decided = decided;
            return Ok(Step::Went);
        }
        let held = self.in_progress[thread].held.clone();
        if !held.iter().all(|held| self.is_done(world, rank, *held)) {
            return Ok(Step::Blocked);
        }
        let message = self.delivered(rank, held[0]);
        self.in_progress[thread] = InProgress::default();
        world.threads[thread].observe_message(1, message.as_ref());
        Ok(Step::Done)
    }

    fn probe(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        wanted: &Wanted,
        site: u64,
    ) -> Result<Step, Unfinished> {
        let rank = world.threads[thread].rank;
        let takes = matches!(kind, Kind::Mprobe | Kind::Improbe);
        if self.in_progress[thread].decided.is_none() {
            // A poll that fails needs no turn.
            let Some(decided) = self.call(world, thread, &Call { kind, site, count: 0 }, &[])?
            else {
                world.threads[thread].observe(vec![2, 0]);
                return Ok(Step::Done);
            };
            self.in_progress[thread].decided = Some(decided);
            return Ok(Step::Went);
        }
        self.turn(world, thread, receive_key(wanted))?;
        let stamp = self.in_progress[thread].decided.as_ref();
        let stamp = stamp.and_then(|one| one.deliveries.first()?.message);
        let Some((message, _)) = stamp.and_then(|stamp| self.message(rank, stamp)) else {
            return Ok(Step::Blocked);
        };
        self.took_turn(world, thread, receive_key(wanted));
        self.in_progress[thread] = InProgress::default();
        probed(world, thread, message, takes);
        Ok(Step::Done)
    }

    fn complete(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        slots: &[Option<usize>],
        site: u64,
    ) -> Result<Step, Unfinished> {
        let rank = world.threads[thread].rank;
        let held = |slot: &Option<usize>| {
            let slot = (*slot).filter(|slot| world.threads[thread].slots[*slot].active)?;
            self.requests[thread][slot]
        };
        let held: Vec<Option<Held>> = slots.iter().map(held).collect();
        if self.in_progress[thread].decided.is_none() {
            let count = if kind.has_array() { slots.len() as u32 } else { 0 };
            let ticket = |held: &Option<Held>| match held {
                Some(Held::Receive(ticket, _)) => Some(*ticket),
                _ => None,
            };
            let tickets: Vec<Option<Ticket>> = held.iter().map(ticket).collect();
            let Some(decided) = self.call(world, thread, &Call { kind, site, count }, &tickets)?
            else {
                world.threads[thread].observe(vec![3, 0]);
                return Ok(Step::Done);
            };
            for Delivery { index, message, cancelled } in &decided.deliveries {
                let Some(Some(slot)) = slots.get(*index as usize) else { continue };
                match (&mut self.requests[thread][*slot], message) {
                    (Some(held), _) if *cancelled => *held = Held::Cancelled,
                    (Some(Held::Receive(_, stamp)), Some(message)) => *stamp = Some(*message),
                    _ => {}
                }
            }
            self.in_progress[thread].decided = Some(decided);
            return Ok(Step::Went);
        }
        let Some(decided) = self.in_progress[thread].decided.clone() else {
            return Ok(Step::Blocked);
        };
        let indices: Vec<u32> = if decided.all {
            (0..slots.len() as u32).filter(|n| held[*n as usize].is_some()).collect()
        } else {
            decided.deliveries.iter().map(|one| one.index).collect()
        };
        let done = |index: &u32| held[*index as usize].is_none_or(|h| self.is_done(world, rank, h));
        if !indices.iter().all(done) {
            return Ok(Step::Blocked);
        }
        self.in_progress[thread] = InProgress::default();
        let any = kind.choice() == Choice::All || decided.any;
        let mut entry = vec![3, 1, any.into()];
        for index in indices {
            let (Some(slot), Some(held)) = (slots[index as usize], held[index as usize]) else {
                continue;
            };
            let message = self.delivered(rank, held);
            entry.push(index.into());
            entry.extend(describe(message.as_ref()));
            if consumes(kind) {
                world.threads[thread].slots[slot].active = false;
                self.requests[thread][slot] = None;
            }
        }
        world.threads[thread].observe(entry);
        Ok(Step::Done)
    }

    /// Starts one after the other, each when it is its turn.
    fn start(
        &mut self,
        world: &mut World,
        thread: usize,
        slots: &[usize],
    ) -> Result<Step, Unfinished> {
        let Some(&slot) = slots.get(self.in_progress[thread].made) else {
            self.in_progress[thread] = InProgress::default();
            return Ok(Step::Done);
        };
        if let Some((wanted, site)) = world.threads[thread].slots[slot].persistent {
            let posted = self.receive(world, thread, &wanted, site)?;
            self.requests[thread][slot] = Some(posted);
            world.threads[thread].slots[slot].active = true;
        }
        self.in_progress[thread].made += 1;
        Ok(Step::Went)
    }

    fn go(
        &mut self,
        world: &mut World,
        thread: usize,
        operation: Operation,
    ) -> Result<Step, Unfinished> {
        let rank = world.threads[thread].rank;
        let stream = world.threads[thread].number as u32;
        match operation {
            Operation::Send { to, communicator, tag, large } => {
                let sent = self.send(world, thread, to, communicator, tag, large)?;
                self.keep(world, thread, sent);
            }
            Operation::Receive { wanted, site } => {
                let posted = self.receive(world, thread, &wanted, site)?;
                self.keep(world, thread, posted);
            }
            Operation::Blocking { wanted, site } => {
                if self.in_progress[thread].held.is_empty() {
                    let posted = self.receive(world, thread, &wanted, site)?;
                    self.in_progress[thread].held.push(posted);
                    return Ok(Step::Went);
                }
                return self.blocking(world, thread, Kind::Recv, site);
            }
            Operation::Sendrecv { wanted, site, to, tag } => {
                let held = match self.in_progress[thread].held.len() {
                    0 => self.receive(world, thread, &wanted, site)?,
                    1 => self.send(world, thread, to, wanted.communicator, tag, true)?,
                    _ => return self.blocking(world, thread, Kind::Sendrecv, site),
                };
                self.in_progress[thread].held.push(held);
                return Ok(Step::Went);
            }
            Operation::Init { wanted, site } => {
                self.requests[thread].push(None);
                let persistent = Some((wanted, site));
                let slot = Slot { active: false, receive: true, persistent };
                world.threads[thread].slots.push(slot);
            }
            Operation::Start { slots } => return self.start(world, thread, &slots),
            Operation::Probe { kind, wanted, site } => {
                return self.probe(world, thread, kind, &wanted, site);
            }
            Operation::ReceiveMatched { message, site } => {
                let call = Call { kind: Kind::Mrecv, site, count: 0 };
                self.call(world, thread, &call, &[])?;
                world.threads[thread].observe_message(1, Some(&message));
            }
            Operation::Complete { kind, slots, site } => {
                return self.complete(world, thread, kind, &slots, site);
            }
            Operation::Cancel { slot } => {
                if let Some(Held::Receive(ticket, _)) = self.requests[thread][slot]
                    && self.fault != Fault::IgnoreCancel
                    && !self.ranks[rank].cancel(ticket)
                {
                    return Ok(Step::Blocked);
                }
            }
            Operation::Free { slot } => {
                self.requests[thread][slot] = None;
                world.threads[thread].slots[slot] = Slot::default();
            }
            Operation::Clock => {
                let now = self.ranks[rank].value(stream, 0)?;
                world.threads[thread].observe(vec![4, now as i64]);
            }
        }
        Ok(Step::Done)
    }

    /// Receives all messages that have arrived at any rank. Returns whether there were any.
    fn take(&mut self, world: &mut World) -> bool {
        let mut any_taken = false;
        for rank in 0..self.ranks.len() {
            for communicator in 0..2 {
                let any = Wanted { communicator, source: None, tag: None };
                while let Some(message) = world.mpi.matched_probe(rank, any) {
                    let request = world.mpi.receive_matched(rank, message);
                    let name = (communicator, message.source as i32, message.tag);
                    self.taken[rank].entry(name).or_default().push((message, request));
                    any_taken = true;
                }
            }
        }
        for (at, thread) in world.threads.iter().enumerate() {
            let idle = thread.operation.is_none() && thread.forced.is_none();
            if thread.step >= world.config.steps && idle && !self.over[at] {
                self.over[at] = true;
                self.ranks[thread.rank].ended(thread.number as u32);
            }
        }
        any_taken
    }

    /// Sends notes, and receives one. Returns whether there was one.
    fn exchange_notes(&mut self, world: &mut World) -> bool {
        for (from, replayer) in self.ranks.iter_mut().enumerate() {
            while let Some((to, note)) = replayer.next_note() {
                self.notes.send(from, to as usize, note, self.fault);
            }
        }
        let first = world.schedule.below(self.ranks.len());
        for rank in (first..self.ranks.len()).chain(0..first) {
            if let Some((from, note)) = self.notes.any(rank, &mut world.schedule) {
                if let Note::Sent { communicator, source, tag, .. } = note {
                    self.announced(rank, from as u32, (communicator, source, tag));
                }
                self.ranks[rank].receive_note(from as u32, note);
                return true;
            }
        }
        false
    }
}

impl Agent for Replaying {
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step {
        let Some(operation) = world.threads[thread].operation.clone() else { return Step::Blocked };
        let taken = self.take(world);
        if world.schedule.chance(1, 2) {
            self.exchange_notes(world);
        }
        let step = match self.go(world, thread, operation) {
            Ok(step) => step,
            Err(Unfinished::NotYet) => Step::Blocked,
            Err(Unfinished::Stop(Stop::RecordEnds)) => Step::Stopped,
            Err(Unfinished::Stop(stop)) => {
                self.stops.push(stop);
                Step::Stopped
            }
        };
        if step == Step::Blocked && (self.exchange_notes(world) || taken) {
            Step::Went
        } else {
            step
        }
    }
}
