//! The replaying agent: asks the replayer, and makes MPI do the same.

use super::Fault;
use crate::model::agent::{
    Agent, Step, Unfinished, consumes, look, message_of, probed, receive_key, send_key,
};
use crate::model::mpi::{Message, Wanted};
use crate::model::program::{Operation, Slot};
use crate::model::world::{World, describe};
use refrain_order::{
    Call, Choice, Decision, Frames, Kind, Moment, Post, Posting, Replayer, Stop, Turn,
};

pub struct Replaying {
    ranks: Vec<Replayer>,
    fault: Fault,
    requests: Vec<Vec<Option<Held>>>,
    in_progress: Vec<InProgress>,
    /// Why threads could not continue, except for ends of records.
    pub stops: Vec<Stop>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Real(usize),
    Cancelled,
    Never,
}

#[derive(Clone, Debug, Default)]
struct InProgress {
    held: Vec<Held>,
    decided: Option<Decided>,
    /// How many of several steps were made.
    made: usize,
    wanted: Option<Wanted>,
}

#[derive(Clone, Debug)]
enum Decided {
    All,
    Undefined,
    These(Vec<u32>),
}

impl Replaying {
    pub fn new(world: &World, records: &[Vec<u8>], fault: Fault) -> Self {
        let threads = world.threads.len();
        let replayer = |bytes: &Vec<u8>| {
            let mut frames = Frames::read(bytes.clone());
            assert_eq!(frames.truncated(), None);
            if fault == Fault::LoseLateResults {
                frames.forget_late_results();
            }
            Replayer::new(frames).expect("a record that was just made")
        };
        Self {
            ranks: records.iter().map(replayer).collect(),
            fault,
            requests: vec![Vec::new(); threads],
            in_progress: vec![InProgress::default(); threads],
            stops: Vec::new(),
        }
    }

    /// The end of the job.
    pub fn finish(self) -> Vec<Stop> {
        let mut stops = self.stops;
        stops.extend(self.ranks.into_iter().filter_map(|rank| rank.finish().err()));
        stops
    }

    fn turn(&mut self, world: &World, thread: usize, key: u64) -> Result<(), Unfinished> {
        let caller = &world.threads[thread];
        if world.config.threads == 1 || self.fault == Fault::IgnoreTurns {
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

    fn post(
        &mut self,
        world: &World,
        thread: usize,
        wanted: &Wanted,
        site: u64,
    ) -> Result<Posting, Unfinished> {
        let caller = &world.threads[thread];
        let Wanted { communicator, source, tag } = *wanted;
        let post = Post { site, communicator, source, tag };
        Ok(self.ranks[caller.rank].post(caller.number as u32, &post)?)
    }

    fn narrowed(&self, wanted: &Wanted, posting: Posting) -> Wanted {
        match posting {
            Posting::Narrowed(_) if self.fault == Fault::PostWildcards => *wanted,
            Posting::Narrowed(from) if self.fault == Fault::PostAnyTag => {
                Wanted { source: Some(from.source), ..*wanted }
            }
            Posting::Narrowed(from) => {
                Wanted { source: Some(from.source), tag: Some(from.tag), ..*wanted }
            }
            _ => *wanted,
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
        let posting = self.post(world, thread, wanted, site)?;
        self.took_turn(world, thread, receive_key(wanted));
        match posting {
            Posting::WithheldCancelled if self.fault != Fault::PostCancelled => {
                return Ok(Held::Cancelled);
            }
            Posting::WithheldNever if self.fault != Fault::PostNever => return Ok(Held::Never),
            _ => {}
        }
        let wanted = self.narrowed(wanted, posting);
        Ok(Held::Real(world.mpi.receive(world.threads[thread].rank, wanted)))
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
        let named = Wanted { communicator, source: Some(0), tag: Some(tag) };
        self.post(world, thread, &named, 99)?;
        self.took_turn(world, thread, send_key(to, communicator, tag));
        let caller = &world.threads[thread];
        Ok(Held::Real(world.mpi.send(caller.rank, to, communicator, tag, caller.digest, large)))
    }

    fn call(
        &mut self,
        world: &World,
        thread: usize,
        call: &Call,
    ) -> Result<Option<Decided>, Unfinished> {
        let caller = &world.threads[thread];
        Ok(match self.ranks[caller.rank].call(caller.number as u32, call)? {
            Decision::Fail => None,
            Decision::All => Some(Decided::All),
            Decision::Undefined => Some(Decided::Undefined),
            Decision::These(indices) => Some(Decided::These(indices.to_vec())),
        })
    }

    fn is_done(&self, world: &World, thread: usize, held: Held) -> bool {
        match held {
            Held::Real(request) => world.mpi.is_done(world.threads[thread].rank, request),
            Held::Cancelled => true,
            Held::Never => false,
        }
    }

    fn message(&self, world: &World, thread: usize, held: Held) -> Option<Message> {
        match held {
            Held::Real(request) => message_of(&world.mpi, world.threads[thread].rank, request),
            Held::Cancelled | Held::Never => None,
        }
    }

    fn keep(&mut self, world: &mut World, thread: usize, kept: Held, receive: bool) {
        self.requests[thread].push(Some(kept));
        world.threads[thread].slots.push(Slot { active: true, receive, persistent: None });
    }

    /// A blocking receive that was posted.
    fn blocking(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        site: u64,
    ) -> Result<Step, Unfinished> {
        if self.in_progress[thread].decided.is_none() {
            let decided = self.call(world, thread, &Call { kind, site, count: 0 })?;
            self.in_progress[thread].decided = decided;
            return Ok(Step::Went);
        }
        let held = self.in_progress[thread].held.clone();
        if !held.iter().all(|held| self.is_done(world, thread, *held)) {
            return Ok(Step::Blocked);
        }
        let message = self.message(world, thread, held[0]);
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
            let Some(decided) = self.call(world, thread, &Call { kind, site, count: 0 })? else {
                if self.fault == Fault::PollForReal && takes {
                    // Takes a message if there is one, but reports a failed poll.
                    world.mpi.matched_probe(rank, *wanted);
                }
                world.threads[thread].observe(vec![2, 0]);
                return Ok(Step::Done);
            };
            self.in_progress[thread].decided = Some(decided);
            return Ok(Step::Went);
        }
        let Some(narrowed) = self.in_progress[thread].wanted else {
            self.turn(world, thread, receive_key(wanted))?;
            let posting = self.post(world, thread, wanted, site)?;
            self.in_progress[thread].wanted = Some(self.narrowed(wanted, posting));
            if self.fault == Fault::ProbeReleasesTurn {
                self.took_turn(world, thread, receive_key(wanted));
            }
            return Ok(Step::Went);
        };
        let found = if takes {
            world.mpi.matched_probe(rank, narrowed)
        } else {
            world.mpi.probe(rank, narrowed)
        };
        match found {
            Some(message) => {
                if self.fault != Fault::ProbeReleasesTurn {
                    self.took_turn(world, thread, receive_key(wanted));
                }
                self.in_progress[thread] = InProgress::default();
                probed(world, thread, message, takes);
                Ok(Step::Done)
            }
            None if self.fault == Fault::PollOnce && kind.polls() => {
                self.in_progress[thread] = InProgress::default();
                world.threads[thread].observe(vec![2, 0]);
                Ok(Step::Done)
            }
            None => Ok(Step::Blocked),
        }
    }

    fn complete(
        &mut self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        slots: &[Option<usize>],
        site: u64,
    ) -> Result<Step, Unfinished> {
        let held = |slot: &Option<usize>| {
            let slot = (*slot).filter(|slot| world.threads[thread].slots[*slot].active)?;
            self.requests[thread][slot]
        };
        let held: Vec<Option<Held>> = slots.iter().map(held).collect();
        let count = if kind.has_array() { slots.len() as u32 } else { 0 };
        let decided = match self.in_progress[thread].decided.take() {
            Some(decided) => decided,
            None => match self.call(world, thread, &Call { kind, site, count })? {
                Some(decided) => decided,
                None => {
                    world.threads[thread].observe(vec![3, 0]);
                    return Ok(Step::Done);
                }
            },
        };
        let done =
            |index: u32| held[index as usize].is_none_or(|held| self.is_done(world, thread, held));
        let indices: Vec<u32> = match &decided {
            Decided::All => {
                (0..slots.len() as u32).filter(|n| held[*n as usize].is_some()).collect()
            }
            Decided::Undefined => Vec::new(),
            Decided::These(indices) => indices.clone(),
        };
        if !indices.iter().all(|index| done(*index)) {
            self.in_progress[thread].decided = Some(decided);
            return Ok(Step::Blocked);
        }
        let indices = self.spoiled(world, thread, kind, &held, indices);
        let any = kind.choice() == Choice::All || !matches!(decided, Decided::Undefined);
        let mut entry = vec![3, 1, any.into()];
        for index in indices {
            let (Some(slot), Some(held)) = (slots[index as usize], held[index as usize]) else {
                continue;
            };
            let message = self.message(world, thread, held);
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

    /// The reported indices, changed by a fault.
    fn spoiled(
        &self,
        world: &mut World,
        thread: usize,
        kind: Kind,
        held: &[Option<Held>],
        mut indices: Vec<u32>,
    ) -> Vec<u32> {
        if self.fault == Fault::CompleteAnything && kind.choice() != Choice::All {
            let done = |held: &Option<Held>| held.map(|held| self.is_done(world, thread, held));
            let active: Vec<Option<bool>> = held.iter().map(done).collect();
            indices = look(world, kind, &active).map_or(indices, |(_, found)| found);
        }
        if self.fault == Fault::CompleteSorted {
            indices.sort_unstable();
        }
        indices
    }

    fn sendrecv(
        &mut self,
        world: &mut World,
        thread: usize,
        (wanted, site): (&Wanted, u64),
        (to, tag): (usize, i32),
    ) -> Result<Step, Unfinished> {
        let held = match self.in_progress[thread].held.len() {
            0 => self.receive(world, thread, wanted, site)?,
            1 => self.send(world, thread, to, wanted.communicator, tag, true)?,
            _ => return self.blocking(world, thread, Kind::Sendrecv, site),
        };
        self.in_progress[thread].held.push(held);
        Ok(Step::Went)
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
                self.keep(world, thread, sent, false);
            }
            Operation::Receive { wanted, site } => {
                let posted = self.receive(world, thread, &wanted, site)?;
                self.keep(world, thread, posted, true);
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
                return self.sendrecv(world, thread, (&wanted, site), (to, tag));
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
                if self.in_progress[thread].held.is_empty() {
                    let named = Wanted { communicator: 0, source: Some(0), tag: Some(0) };
                    self.post(world, thread, &named, site)?;
                    let request = world.mpi.receive_matched(rank, message);
                    self.in_progress[thread].held.push(Held::Real(request));
                    return Ok(Step::Went);
                }
                return self.blocking(world, thread, Kind::Mrecv, site);
            }
            Operation::Complete { kind, slots, site } => {
                return self.complete(world, thread, kind, &slots, site);
            }
            Operation::Cancel { slot } => {
                if let (Fault::CancelForReal, Some(Held::Real(request))) =
                    (self.fault, self.requests[thread][slot])
                {
                    world.mpi.cancel(rank, request);
                }
            }
            Operation::Free { slot } => {
                self.requests[thread][slot] = None;
                world.threads[thread].slots[slot] = Slot::default();
            }
            Operation::Clock => {
                let recorded = self.ranks[rank].value(stream, 0)?;
                let real = self.fault == Fault::ReadRealClock;
                let now = if real { world.clock } else { recorded };
                world.threads[thread].observe(vec![4, now as i64]);
            }
        }
        Ok(Step::Done)
    }
}

impl Agent for Replaying {
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step {
        let Some(operation) = world.threads[thread].operation.clone() else { return Step::Blocked };
        match self.go(world, thread, operation) {
            Ok(step) => step,
            Err(Unfinished::NotYet) => Step::Blocked,
            Err(Unfinished::Stop(Stop::RecordEnds)) => Step::Stopped,
            // A call that never returned in the recorded run is after the end of the record. A thread that gets there
            // for another reason has a different log, and fails the comparison.
            Err(Unfinished::Stop(Stop::Diverged(divergence)))
                if divergence.expected == Moment::End =>
            {
                Step::Stopped
            }
            Err(Unfinished::Stop(stop)) => {
                self.stops.push(stop);
                Step::Stopped
            }
        }
    }
}
