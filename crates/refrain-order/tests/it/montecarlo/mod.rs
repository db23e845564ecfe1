//! A simulated Monte-Carlo particle exchange: the workload of Sato et al., §2.1 and §6.
//!
//! Ranks own cells of a torus. Each works on its particles, some of which cross into a neighbour's
//! cell and are sent there. After a few particles a rank calls Testsome, which completes what has
//! arrived by then, and posts the completed receives anew. A rank without particles polls until some
//! arrive. Some workloads also call Testany, at another call site, for control messages from any
//! source. Work and latency are random; messages carry Lamport clocks.

#![allow(dead_code)] // Each test that includes it uses a part of it.

pub mod base_table;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use refrain_order::{Call, Completed, Envelope, Kind, MatchResult, Post, Recorder, Stamp, Ticket};
use refrain_testing::random::Random;

/// The call site of Testsome.
pub const PARTICLES: usize = 0;
/// The call site of Testany.
pub const CONTROL: usize = 1;

/// How receives are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One for each neighbour, as in the paper.
    Named,
    /// As many, but from any source.
    AnySource,
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub ranks: usize,
    pub receives: u64,
    pub style: Style,
    /// Whether particles go to every rank instead of the four neighbours on a torus.
    pub everywhere: bool,
    /// Whether there are control messages.
    pub control: bool,
    /// The least and the mean additional time a message takes; a particle takes 1 on average.
    pub latency: [f64; 2],
    pub seed: u64,
}

/// What a completing call of a rank found.
#[derive(Clone, Debug)]
pub enum Action {
    /// Nothing, at that call site.
    Failed(usize),
    /// The receives in these slots, at that call site. Each is posted again afterwards.
    Found(usize, Vec<(u32, Stamp)>),
}

#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The neighbours, with one receive slot for each.
    pub sources: Vec<usize>,
    pub actions: Vec<Action>,
}

#[derive(Clone, Copy)]
struct Message {
    stamp: Stamp,
    arrival: f64,
}

#[derive(Default)]
struct Rank {
    /// Slots of pending receives in posting order.
    posted: Vec<usize>,
    /// Particles in flight, by neighbour, and control messages by sender; each in order.
    particles_in: Vec<VecDeque<Message>>,
    control_in: Vec<VecDeque<Message>>,
    sent: Vec<u64>,
    particles: u64,
    clock: u64,
    steps: u64,
}

struct Simulation {
    ranks: Vec<Rank>,
    scripts: Vec<Script>,
    random: Random,
    workload: Workload,
    received: u64,
}

fn neighbours(rank: usize, workload: &Workload) -> Vec<usize> {
    if workload.everywhere {
        return (0..workload.ranks).filter(|other| *other != rank).collect();
    }
    let (rows, columns) = (workload.ranks / 4, 4);
    let (row, column) = (rank / columns, rank % columns);
    let mut list = vec![
        (row + 1) % rows * columns + column,
        (row + rows - 1) % rows * columns + column,
        row * columns + (column + 1) % columns,
        row * columns + (column + columns - 1) % columns,
    ];
    list.sort_unstable();
    list.dedup();
    list
}

impl Simulation {
    fn send(&mut self, from: usize, to: usize, now: f64, control: bool) {
        let [least, mean] = self.workload.latency;
        let arrival = now + least + self.random.exponential(mean);
        let rank = &mut self.ranks[from];
        let stamp = Stamp { sender: from as u32, sequence: rank.sent[to], clock: rank.clock };
        rank.clock += 1;
        rank.sent[to] += 1;
        let target = &mut self.ranks[to];
        let queue = if control {
            &mut target.control_in[from]
        } else {
            let slot = self.scripts[to].sources.iter().position(|source| *source == from);
            let Some(slot) = slot else { return };
            &mut target.particles_in[slot]
        };
        // A message does not overtake one from the same sender.
        let earliest = queue.back().map_or(0.0, |last| last.arrival);
        queue.push_back(Message { stamp, arrival: arrival.max(earliest) });
    }

    /// Works on a few particles; some cross over.
    fn work(&mut self, at: usize, time: &mut f64) {
        if self.ranks[at].particles == 0 {
            *time += 0.4 + self.random.exponential(0.1);
            return;
        }
        for _ in 0..(1 + self.random.next() % 4).min(self.ranks[at].particles) {
            *time += self.random.exponential(1.0);
            if self.random.unit() < 0.4 {
                self.ranks[at].particles -= 1;
                let sources = &self.scripts[at].sources;
                let to = sources[self.random.next() as usize % sources.len()];
                self.send(at, to, *time, false);
            }
        }
        // Reports how much was done.
        if self.workload.control && self.ranks[at].steps.is_multiple_of(8) && at > 0 {
            self.send(at, (at - 1) / 2, *time, true);
        }
    }

    /// The particles that Testsome finds: the slot and the message of each.
    fn arrived(&mut self, at: usize, now: f64) -> Vec<(u32, Stamp)> {
        let rank = &mut self.ranks[at];
        let mut ready = |slot: usize| {
            rank.particles_in[slot].front().filter(|message| message.arrival <= now)?;
            rank.particles_in[slot].pop_front()
        };
        let slots = 0..self.scripts[at].sources.len();
        if self.workload.style == Style::Named {
            return slots.filter_map(|slot| Some((slot as u32, ready(slot)?.stamp))).collect();
        }
        let mut arrived: Vec<(usize, Message)> = Vec::new();
        for slot in slots {
            arrived.extend(std::iter::from_fn(|| ready(slot)).map(|message| (slot, message)));
        }
        arrived.sort_by(|a, b| a.1.arrival.total_cmp(&b.1.arrival));
        // Receives match in posting order; a message that finds none waits.
        while arrived.len() > rank.posted.len() {
            let Some((slot, late)) = arrived.pop() else { break };
            rank.particles_in[slot].push_front(late);
        }
        let pairs = rank.posted.iter().zip(&arrived);
        let mut found: Vec<(u32, Stamp)> =
            pairs.map(|(slot, (_, message))| (*slot as u32, message.stamp)).collect();
        found.sort_by_key(|(slot, _)| *slot);
        found
    }

    fn test(&mut self, at: usize, now: f64) {
        let found = self.arrived(at, now);
        let rank = &mut self.ranks[at];
        for (slot, _) in &found {
            rank.posted.retain(|posted| *posted != *slot as usize);
            rank.posted.push(*slot as usize);
        }
        rank.particles += found.len() as u64;
        self.observe(at, PARTICLES, found);
        let rank = &mut self.ranks[at];
        rank.steps += 1;
        if self.workload.control && rank.steps.is_multiple_of(4) {
            let arrived = rank
                .control_in
                .iter_mut()
                .filter(|queue| queue.front().is_some_and(|message| message.arrival <= now));
            let first = arrived.min_by(|a, b| a[0].arrival.total_cmp(&b[0].arrival));
            let found = first.and_then(VecDeque::pop_front).map(|message| (0, message.stamp));
            self.observe(at, CONTROL, found.into_iter().collect());
        }
    }

    fn observe(&mut self, at: usize, site: usize, found: Vec<(u32, Stamp)>) {
        let clock = &mut self.ranks[at].clock;
        found.iter().for_each(|(_, stamp)| *clock = stamp.clock.max(*clock) + 1);
        self.received += found.len() as u64;
        let action =
            if found.is_empty() { Action::Failed(site) } else { Action::Found(site, found) };
        self.scripts[at].actions.push(action);
    }
}

/// Runs the exchange until enough messages were received. Returns what each rank found.
pub fn run(workload: &Workload) -> Vec<Script> {
    let ranks = workload.ranks;
    let script = |rank| Script { sources: neighbours(rank, workload), actions: Vec::new() };
    let scripts: Vec<Script> = (0..ranks).map(script).collect();
    let rank = |script: &Script| Rank {
        posted: (0..script.sources.len()).collect(),
        particles_in: vec![VecDeque::new(); script.sources.len()],
        control_in: vec![VecDeque::new(); ranks],
        sent: vec![0; ranks],
        particles: 100,
        ..Rank::default()
    };
    let states = scripts.iter().map(rank).collect();
    let random = Random::new(workload.seed);
    let mut simulation =
        Simulation { ranks: states, scripts, random, workload: *workload, received: 0 };
    let mut agenda: BinaryHeap<Reverse<(u64, usize)>> =
        (0..ranks).map(|rank| Reverse((0, rank))).collect();
    while simulation.received < workload.receives {
        let Some(Reverse((now, at))) = agenda.pop() else { break };
        let mut time = now as f64 / 1000.0;
        simulation.work(at, &mut time);
        simulation.test(at, time);
        agenda.push(Reverse(((time * 1000.0) as u64 + 1, at)));
    }
    simulation.scripts
}

const SITE: u64 = 0x4000_1234;

/// Records a rank's particles with the causal method; sealed blocks go to `bytes`. Returns the time that
/// sealing took.
pub fn record_causally(script: &Script, style: Style, bytes: &mut Vec<u8>) -> Duration {
    let mut sealing = Duration::ZERO;
    let mut recorder = Recorder::new();
    let count = script.sources.len() as u32;
    let call = Call { kind: Kind::Testsome, site: SITE, count };
    let post = |slot: usize| {
        let source = (style == Style::Named).then_some(script.sources[slot] as i32);
        Post { site: SITE + 1, communicator: 0, source, tag: Some(7) }
    };
    let mut tickets: Vec<Ticket> =
        (0..count as usize).map(|slot| recorder.post(0, &post(slot))).collect();
    let mut indices = Vec::new();
    for action in &script.actions {
        let Action::Found(_, found) = action else {
            recorder.failed(0, Kind::Testsome, SITE);
            continue;
        };
        indices.clear();
        indices.extend(found.iter().map(|(slot, _)| *slot));
        recorder.matched(0, &call, Completed::These(&indices));
        if recorder.is_full(0) {
            let start = Instant::now();
            recorder.seal(bytes);
            sealing += start.elapsed();
        }
        for (slot, stamp) in found {
            let slot = *slot as usize;
            let from = Envelope { source: stamp.sender as i32, tag: 7 };
            recorder.resolve(tickets[slot], MatchResult::Matched(from));
            tickets[slot] = recorder.post(0, &post(slot));
        }
    }
    let start = Instant::now();
    recorder.finish(bytes);
    sealing + start.elapsed()
}
