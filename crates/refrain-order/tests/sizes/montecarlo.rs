//! A Monte-Carlo particle exchange, simulated: the workload of Sato et al., §2.1 and §6.
//!
//! Ranks own cells of a torus. Each works on its particles, some of which cross into a
//! neighbour's cell and are sent there; after a few particles it calls Testsome, which completes
//! what has arrived by then, and posts the completed receives anew. A rank without particles
//! polls until some come. Work and latency are random.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use refrain_order::{Call, Completed, Envelope, Fate, Kind, Post, Recorder, Ticket};

use crate::base_table::BaseTable;

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
    pub style: Style,
    /// Whether particles go to every rank instead of the four next on a torus.
    pub everywhere: bool,
    pub receives: u64,
    pub seed: u64,
}

pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
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
    source: usize,
    clock: u64,
    arrival: f64,
}

struct Rank {
    neighbours: Vec<usize>,
    /// Messages on their way, by neighbour, in order.
    arriving: Vec<VecDeque<Message>>,
    particles: u64,
    clock: u64,
    /// Slots of pending receives in posting order.
    posted: Vec<usize>,
}

/// All that the recorder of a rank is told.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// How many receives are posted at a time.
    pub slots: usize,
    pub actions: Vec<Action>,
    /// Indices that calls completed, one call's after the other's.
    pub picks: Vec<u32>,
}

/// What the recorder of a rank is told.
#[derive(Clone, Debug)]
pub enum Action {
    /// The receive in that slot is posted.
    Post(usize, Option<i32>),
    Failed,
    /// So many of the picks.
    Matched(usize),
    /// The receive in that slot was from there.
    Resolve(usize, i32),
}

/// Tells a recorder all of it; sealed blocks go to `bytes`. Returns the time it took to seal them.
pub fn tell(script: &Script, bytes: &mut Vec<u8>) -> Duration {
    let mut sealing = Duration::ZERO;
    let mut recorder = Recorder::new();
    let mut tickets: Vec<Option<Ticket>> = vec![None; script.slots];
    let call = Call { kind: Kind::Testsome, site: SITE, count: script.slots as u32 };
    let mut picks = &script.picks[..];
    for action in &script.actions {
        match action {
            Action::Post(slot, source) => {
                let post = Post { site: SITE + 1, communicator: 0, source: *source, tag: Some(7) };
                tickets[*slot] = Some(recorder.post(0, &post));
            }
            Action::Failed => recorder.failed(0, Kind::Testsome, SITE),
            Action::Matched(several) => {
                let (indices, rest) = picks.split_at(*several);
                picks = rest;
                recorder.matched(0, &call, Completed::These(indices));
                if recorder.is_full(0) {
                    let start = Instant::now();
                    recorder.seal(bytes);
                    sealing += start.elapsed();
                }
            }
            Action::Resolve(slot, source) => {
                let from = Envelope { source: *source, tag: 7 };
                if let Some(ticket) = tickets[*slot] {
                    recorder.resolve(ticket, Fate::Matched(from));
                }
            }
        }
    }
    let start = Instant::now();
    recorder.finish(bytes);
    sealing + start.elapsed()
}

fn neighbours(rank: usize, workload: &Workload) -> Vec<usize> {
    let mut list: Vec<usize> = if workload.everywhere {
        (0..workload.ranks).filter(|other| *other != rank).collect()
    } else {
        let (rows, columns) = (workload.ranks / 4, 4);
        let (row, column) = (rank / columns, rank % columns);
        vec![
            (row + 1) % rows * columns + column,
            (row + rows - 1) % rows * columns + column,
            row * columns + (column + 1) % columns,
            row * columns + (column + columns - 1) % columns,
        ]
    };
    list.sort_unstable();
    list.dedup();
    list
}

const SITE: u64 = 0x4000_1234;

pub struct Outcome {
    pub receives: u64,
    pub polls: u64,
    /// For each rank what its recorder is told.
    pub scripts: Vec<Script>,
    pub table: BaseTable,
}

impl Outcome {
    /// The bytes of all records.
    pub fn coded(&self) -> u64 {
        let size = |script: &Script| {
            let mut bytes = Vec::new();
            tell(script, &mut bytes);
            bytes.len() as u64
        };
        self.scripts.iter().map(size).sum()
    }
}

/// Runs the exchange until so many messages were received.
pub fn run(workload: &Workload) -> Outcome {
    let mut random = Random(workload.seed);
    let mut ranks: Vec<Rank> = (0..workload.ranks)
        .map(|rank| {
            let neighbours = neighbours(rank, workload);
            let arriving = vec![VecDeque::new(); neighbours.len()];
            let posted = (0..neighbours.len()).collect();
            Rank { neighbours, arriving, particles: 100, clock: 0, posted }
        })
        .collect();
    let mut outcome = Outcome {
        receives: 0,
        polls: 0,
        scripts: Vec::new(),
        table: BaseTable::new(workload.ranks),
    };
    for rank in &ranks {
        let posts = rank.neighbours.iter().enumerate();
        let actions = posts.map(|(slot, source)| post(workload, slot, *source)).collect();
        let slots = rank.neighbours.len();
        outcome.scripts.push(Script { slots, actions, picks: Vec::new() });
    }
    let mut agenda: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    (0..workload.ranks).for_each(|rank| agenda.push(Reverse((0, rank))));
    while outcome.receives < workload.receives {
        let Some(Reverse((now, at))) = agenda.pop() else { break };
        let mut time = now as f64 / 1000.0;
        work(&mut ranks, at, &mut time, &mut random);
        test_some(&mut ranks[at], at, time, workload, &mut outcome);
        agenda.push(Reverse(((time * 1000.0) as u64 + 1, at)));
    }
    outcome
}

fn post(workload: &Workload, slot: usize, source: usize) -> Action {
    Action::Post(slot, (workload.style == Style::Named).then_some(source as i32))
}

/// Works on a few particles; some cross over.
fn work(ranks: &mut [Rank], at: usize, time: &mut f64, random: &mut Random) {
    if ranks[at].particles == 0 {
        // Nothing to do but to look again soon.
        *time += 0.4 + random.exponential(0.1);
        return;
    }
    for _ in 0..(1 + random.next() % 4).min(ranks[at].particles) {
        *time += random.exponential(1.0);
        if random.unit() < 0.4 {
            let own = &mut ranks[at];
            own.particles -= 1;
            own.clock += 1;
            let to = own.neighbours[random.next() as usize % own.neighbours.len()];
            let clock = own.clock;
            let arrival = *time + 3.0 + random.exponential(4.0);
            let target = &mut ranks[to];
            let Some(slot) = target.neighbours.iter().position(|n| *n == at) else { continue };
            // A message does not overtake one from the same sender.
            let earliest = target.arriving[slot].back().map_or(0.0, |m| m.arrival);
            let arrival = arrival.max(earliest);
            target.arriving[slot].push_back(Message { source: at, clock, arrival });
        }
    }
}

fn test_some(own: &mut Rank, at: usize, now: f64, workload: &Workload, outcome: &mut Outcome) {
    let mut found: Vec<(u32, Message)> = match workload.style {
        Style::Named => {
            let arrived = own.arriving.iter_mut().enumerate().filter_map(|(slot, queue)| {
                let first = *queue.front().filter(|message| message.arrival <= now)?;
                queue.pop_front();
                Some((slot as u32, first))
            });
            arrived.collect()
        }
        Style::AnySource => {
            let mut arrived: Vec<Message> = Vec::new();
            for queue in &mut own.arriving {
                while let Some(first) = queue.front().copied().filter(|m| m.arrival <= now) {
                    queue.pop_front();
                    arrived.push(first);
                }
            }
            arrived.sort_by(|a, b| a.arrival.total_cmp(&b.arrival));
            // Receives match in posting order; what finds none waits.
            while arrived.len() > own.posted.len() {
                let Some(late) = arrived.pop() else { break };
                let slot = own.neighbours.iter().position(|n| *n == late.source).unwrap_or(0);
                own.arriving[slot].push_front(late);
            }
            own.posted.iter().map(|slot| *slot as u32).zip(arrived).collect()
        }
    };
    let Script { actions, picks, .. } = &mut outcome.scripts[at];
    if found.is_empty() {
        outcome.polls += 1;
        outcome.table.failed(at);
        actions.push(Action::Failed);
        return;
    }
    found.sort_by_key(|(index, _)| *index);
    actions.push(Action::Matched(found.len()));
    picks.extend(found.iter().map(|(index, _)| *index));
    let several = found.len();
    for (n, (index, message)) in found.into_iter().enumerate() {
        own.clock = own.clock.max(message.clock) + 1;
        own.particles += 1;
        outcome.receives += 1;
        outcome.table.matched(at, n + 1 < several, message.source, message.clock);
        let slot = index as usize;
        own.posted.retain(|posted| *posted != slot);
        own.posted.push(slot);
        if workload.style == Style::AnySource {
            actions.push(Action::Resolve(slot, message.source as i32));
        }
        actions.push(post(workload, slot, own.neighbours[slot]));
    }
}
