//! The recording agent: lets MPI decide, and passes the outcomes to the recorder.

use super::Fault;
use crate::model::agent::{
    Agent, PostedRequest, Step, consumes, envelope, look, message_of, post, probed, receive_key,
    send_key,
};
use crate::model::mpi::{Message, Wanted};
use crate::model::program::{Operation, Slot};
use crate::model::world::{World, describe};
use refrain_order::causal::event::PostShape;
use refrain_order::causal::record::Pending;
use refrain_order::{Call, Completed, Frames, Kind, MatchResult, Post, Recorder, Ticket};

pub struct Recording {
    ranks: Vec<Recorder>,
    pub bytes: Vec<Vec<u8>>,
    /// On average, a block is sealed every this many steps.
    seal_every: u64,
    fault: Fault,
    /// By thread and slot.
    requests: Vec<Vec<Option<PostedRequest>>>,
    /// Active requests that the program freed, with their ranks.
    orphans: Vec<(usize, PostedRequest)>,
    /// By thread: requests of the operation under way.
    in_progress: Vec<Vec<PostedRequest>>,
}

impl Recording {
    pub fn new(world: &World, seal_every: u64, fault: Fault) -> Self {
        let ranks = world.config.ranks;
        let threads = world.threads.len();
        Self {
            ranks: (0..ranks).map(|_| Recorder::new()).collect(),
            bytes: vec![Vec::new(); ranks],
            seal_every,
            fault,
            requests: vec![Vec::new(); threads],
            orphans: Vec::new(),
            in_progress: vec![Vec::new(); threads],
        }
    }

    fn resolve(&mut self, rank: usize, ticket: Ticket, match_result: MatchResult) {
        self.ranks[rank].resolve(ticket, match_result);
    }

    /// The end of the job: asks for the match results of pending receives.
    pub fn finish(mut self, world: &World) -> Vec<Vec<u8>> {
        if self.fault != Fault::ForgetOrphans {
            self.ask(world);
        }
        for (recorder, bytes) in self.ranks.into_iter().zip(&mut self.bytes) {
            recorder.finish(bytes);
        }
        self.bytes
    }

    /// The job was killed: only sealed blocks exist.
    pub fn killed(self) -> Vec<Vec<u8>> {
        self.bytes
    }

    /// Asks MPI for the match results of pending receives.
    fn ask(&mut self, world: &World) {
        let mut pending = self.orphans.clone();
        for (thread, requests) in self.requests.iter().enumerate() {
            let rank = world.threads[thread].rank;
            let active = requests.iter().flatten().chain(&self.in_progress[thread]);
            pending.extend(active.map(|held| (rank, *held)));
        }
        for (rank, PostedRequest { request, ticket, receive }) in pending {
            if let Some(message) = message_of(&world.mpi, rank, request) {
                self.resolve(rank, ticket, MatchResult::Matched(envelope(&message)));
            } else if world.mpi.is_done(rank, request) && receive {
                self.resolve(rank, ticket, MatchResult::Cancelled);
            }
        }
    }

    fn turn(&mut self, world: &World, thread: usize, key: u64) {
        let caller = &world.threads[thread];
        if world.config.threads > 1 {
            self.ranks[caller.rank].turn(caller.number as u32, key);
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
        PostedRequest { request: world.mpi.receive(rank, *wanted), ticket, receive: true }
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
        let request = world.mpi.send(rank, to, communicator, tag, caller.digest, large);
        PostedRequest { request, ticket, receive: false }
    }

    fn keep(&mut self, world: &mut World, thread: usize, kept: PostedRequest) {
        let receive = kept.receive;
        self.requests[thread].push(Some(kept));
        world.threads[thread].slots.push(Slot { active: true, receive, persistent: None });
    }

    fn matched(&mut self, world: &World, thread: usize, kind: Kind, site: u64) {
        let caller = &world.threads[thread];
        let call = Call { kind, site, count: 0 };
        self.ranks[caller.rank].matched(caller.number as u32, &call, Completed::All);
    }

    /// A blocking receive, with or without a send.
    fn blocking(&mut self, world: &mut World, thread: usize, kind: Kind, site: u64) -> Step {
        let rank = world.threads[thread].rank;
        let pending = self.in_progress[thread].clone();
        if !pending.iter().all(|held| world.mpi.is_done(rank, held.request)) {
            return Step::Blocked;
        }
        let Some(&PostedRequest { request, ticket, .. }) = pending.first() else {
            return Step::Blocked;
        };
        let message = message_of(&world.mpi, rank, request);
        if let Some(message) = &message {
            self.resolve(rank, ticket, MatchResult::Matched(envelope(message)));
        }
        self.in_progress[thread].clear();
        self.matched(world, thread, kind, site);
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
        self.matched(world, thread, kind, site);
        self.turn(world, thread, receive_key(wanted));
        let ticket = self.ranks[rank].post(stream, &post(wanted, site));
        self.ranks[rank].resolve(ticket, MatchResult::Matched(envelope(&message)));
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
        let state = |slot: &Option<usize>| {
            let slot = (*slot).filter(|slot| caller.slots[*slot].active)?;
            let held = self.requests[thread][slot]?;
            Some(world.mpi.is_done(rank, held.request))
        };
        let active: Vec<Option<bool>> = slots.iter().map(state).collect();
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
        self.ranks[rank].matched(stream, &call, completed);
        let mut entry = vec![3, 1, any.into()];
        for index in indices {
            let Some(slot) = slots[index as usize] else { continue };
            let Some(PostedRequest { request, ticket, .. }) = self.requests[thread][slot] else {
                continue;
            };
            let message = message_of(&world.mpi, rank, request);
            let state = &mut world.threads[thread].slots[slot];
            match message {
                Some(message) => {
                    self.resolve(rank, ticket, MatchResult::Matched(envelope(&message)))
                }
                None if state.receive => self.resolve(rank, ticket, MatchResult::Cancelled),
                None => {}
            }
            entry.push(index.into());
            entry.extend(describe(message.as_ref()));
            if consumes(kind) {
                state.active = false;
                self.requests[thread][slot] = None;
            }
        }
        world.threads[thread].observe(entry);
        Step::Done
    }

    fn receive_matched(
        &mut self,
        world: &mut World,
        thread: usize,
        message: Message,
        site: u64,
    ) -> Step {
        let caller = &world.threads[thread];
        let (rank, stream) = (caller.rank, caller.number as u32);
        if !self.in_progress[thread].is_empty() {
            return self.blocking(world, thread, Kind::Mrecv, site);
        }
        let named = Wanted { communicator: 0, source: Some(0), tag: Some(0) };
        let ticket = self.ranks[rank].post(stream, &post(&named, site));
        let request = world.mpi.receive_matched(rank, message);
        self.in_progress[thread].push(PostedRequest { request, ticket, receive: true });
        Step::Went
    }

    fn start(&mut self, world: &mut World, thread: usize, mut slots: Vec<usize>) {
        if self.fault == Fault::StartTogether && world.schedule.chance(1, 2) {
            slots.reverse();
        }
        for slot in slots {
            let Some((wanted, site)) = world.threads[thread].slots[slot].persistent else {
                continue;
            };
            let posted = self.receive(world, thread, &wanted, site);
            self.requests[thread][slot] = Some(posted);
            world.threads[thread].slots[slot].active = true;
        }
    }

    fn seal_now_and_then(&mut self, world: &mut World, rank: usize) {
        if !world.schedule.chance(1, self.seal_every) {
            return;
        }
        if self.fault != Fault::ForgetOrphans {
            self.ask(world);
        }
        let pending = match world.schedule.chance(1, 2) {
            true => self.ranks[rank].seal_settled(&mut self.bytes[rank]),
            false => {
                self.ranks[rank].seal(&mut self.bytes[rank]);
                Vec::new()
            }
        };
        if world.schedule.chance(1, 3) {
            // As if the process had been killed, and another one read its log.
            self.ranks[rank] = Recorder::resume(&Frames::read(self.bytes[rank].clone()));
        }
        for Pending { ticket, shape, match_result } in pending {
            let PostShape { site, communicator, any_source, any_tag } = shape;
            let [source, tag] = [any_source, any_tag].map(|any| (!any).then_some(0));
            let post = Post { site, communicator, source, tag };
            assert_eq!(self.ranks[rank].post(ticket.stream, &post), ticket);
            if let Some(match_result) = match_result {
                self.ranks[rank].resolve(ticket, match_result);
            }
        }
    }
}

impl Agent for Recording {
    fn attempt(&mut self, world: &mut World, thread: usize) -> Step {
        let Some(operation) = world.threads[thread].operation.clone() else { return Step::Blocked };
        let rank = world.threads[thread].rank;
        let stream = world.threads[thread].number as u32;
        self.seal_now_and_then(world, rank);
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
                return self.receive_matched(world, thread, message, site);
            }
            Operation::Complete { kind, slots, site } => {
                return self.complete(world, thread, kind, &slots, site);
            }
            Operation::Cancel { slot } => {
                if let Some(held) = self.requests[thread][slot] {
                    world.mpi.cancel(rank, held.request);
                }
            }
            Operation::Free { slot } => {
                if let Some(held) = self.requests[thread][slot].take() {
                    self.orphans.push((rank, held));
                }
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
