//! A Monte-Carlo particle exchange, simulated: the workload of Sato et al., §2.1.
//!
//! Ranks own cells of a torus and work on particles, some of which cross over and are sent on.
//! After a few particles a rank calls Testsome for its neighbours' messages; now and then it calls
//! Testany, in another place, for control messages from anybody. Messages carry Lamport clocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use refrain_order::Stamp;

pub const PARTICLES: usize = 0;
pub const CONTROL: usize = 1;

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub ranks: usize,
    pub receives: u64,
    /// How long messages take on average, in times that a particle takes.
    pub latency: f64,
    pub seed: u64,
}

/// What a rank's matching calls found.
#[derive(Clone, Debug)]
pub enum Action {
    /// Nothing, in that place.
    Failed(usize),
    /// The receives in these slots, in that place.
    Found(usize, Vec<(u32, Stamp)>),
}

#[derive(Clone, Debug, Default)]
pub struct Script {
    /// The neighbours, one receive for each.
    pub sources: Vec<usize>,
    pub actions: Vec<Action>,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[derive(Clone, Copy)]
struct Message {
    stamp: Stamp,
    arrival: f64,
}

#[derive(Default)]
struct Rank {
    /// Particles on their way, by neighbour, and control messages by sender; each in order.
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
    latency: f64,
    received: u64,
}

fn neighbours(rank: usize, ranks: usize) -> Vec<usize> {
    let (rows, columns) = (ranks / 4, 4);
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
        let arrival = now + 0.5 * self.latency + self.random.exponential(self.latency);
        let own = &mut self.ranks[from];
        let stamp = Stamp { sender: from as u32, sequence: own.sent[to], clock: own.clock };
        own.clock += 1;
        own.sent[to] += 1;
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
        // Tells somebody how much was done.
        if self.ranks[at].steps.is_multiple_of(8) && at > 0 {
            self.send(at, (at - 1) / 2, *time, true);
        }
    }

    fn test(&mut self, at: usize, now: f64) {
        let own = &mut self.ranks[at];
        let ready = |queue: &mut VecDeque<Message>| {
            queue.front().filter(|message| message.arrival <= now)?;
            queue.pop_front()
        };
        let mut found = Vec::new();
        for (slot, queue) in (0..).zip(&mut own.particles_in) {
            found.extend(ready(queue).map(|message| (slot, message.stamp)));
        }
        own.particles += found.len() as u64;
        self.tell(at, PARTICLES, found);
        let own = &mut self.ranks[at];
        own.steps += 1;
        if own.steps.is_multiple_of(4) {
            let arrived = own
                .control_in
                .iter_mut()
                .filter(|queue| queue.front().is_some_and(|message| message.arrival <= now));
            let first = arrived.min_by(|a, b| a[0].arrival.total_cmp(&b[0].arrival));
            let found = first.and_then(VecDeque::pop_front).map(|message| (0, message.stamp));
            self.tell(at, CONTROL, found.into_iter().collect());
        }
    }

    fn tell(&mut self, at: usize, place: usize, found: Vec<(u32, Stamp)>) {
        let clock = &mut self.ranks[at].clock;
        found.iter().for_each(|(_, stamp)| *clock = stamp.clock.max(*clock) + 1);
        self.received += found.len() as u64;
        let action =
            if found.is_empty() { Action::Failed(place) } else { Action::Found(place, found) };
        self.scripts[at].actions.push(action);
    }
}

/// Runs the exchange until so many messages were received: what each rank found.
pub fn run(workload: &Workload) -> Vec<Script> {
    let ranks = workload.ranks;
    let script = |rank| Script { sources: neighbours(rank, ranks), actions: Vec::new() };
    let scripts: Vec<Script> = (0..ranks).map(script).collect();
    let rank = |script: &Script| Rank {
        particles_in: vec![VecDeque::new(); script.sources.len()],
        control_in: vec![VecDeque::new(); ranks],
        sent: vec![0; ranks],
        particles: 100,
        ..Rank::default()
    };
    let own = scripts.iter().map(rank).collect();
    let (random, latency) = (Random(workload.seed), workload.latency);
    let mut simulation = Simulation { ranks: own, scripts, random, latency, received: 0 };
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
