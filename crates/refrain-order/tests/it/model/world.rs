//! A job: ranks, their threads, the network, and a random schedule of all their steps.

use std::collections::BTreeMap;

use crate::model::agent::{Agent, Step};
use crate::model::mpi::{Message, Mpi};
use crate::model::program::{self, Config, Operation, Slot};
use refrain_testing::random::Random;

/// What one operation returned to the program.
pub type Entry = Vec<i64>;

#[derive(Debug, Default)]
pub struct Thread {
    pub rank: usize,
    pub number: usize,
    pub step: usize,
    pub digest: u64,
    pub slots: Vec<Slot>,
    /// The next operation, if the previous one determines it.
    pub forced: Option<Operation>,
    pub operation: Option<Operation>,
    pub log: Vec<Entry>,
    stopped: bool,
}

impl Thread {
    pub fn observe(&mut self, entry: Entry) {
        let mut random = Random::of(&[self.digest]);
        for number in &entry {
            random = Random::of(&[random.next(), *number as u64]);
        }
        self.digest = random.next();
        self.log.push(entry);
    }

    pub fn observe_message(&mut self, what: i64, message: Option<&Message>) {
        let mut entry = vec![what];
        entry.extend(describe(message));
        self.observe(entry);
    }
}

/// A status and a buffer; `None` for a cancelled receive or a send.
pub fn describe(message: Option<&Message>) -> [i64; 3] {
    message.map_or([-1; 3], |m| [m.source as i64, m.tag.into(), (m.payload >> 1) as i64])
}

pub struct World {
    pub config: Config,
    pub mpi: Mpi,
    pub threads: Vec<Thread>,
    pub schedule: Random,
    pub clock: u64,
    /// Outcomes of operations, with counts.
    pub outcomes: BTreeMap<String, u64>,
    /// How slow each channel and thread is, relative to others.
    slowness: Vec<u64>,
}

impl World {
    pub fn new(config: Config, schedule: u64) -> Self {
        let mut threads = Vec::new();
        for rank in 0..config.ranks {
            for number in 0..config.threads {
                threads.push(Thread { rank, number, ..Thread::default() });
            }
        }
        let mut schedule = Random::new(schedule);
        let slowness = (0..64).map(|_| 1 + schedule.next() % 4 * (schedule.next() % 5)).collect();
        let (mpi, outcomes) = (Mpi::new(config.ranks), BTreeMap::new());
        Self { config, mpi, threads, schedule, clock: 0, outcomes, slowness }
    }

    /// Runs until no thread and no message can make progress.
    pub fn run(&mut self, agent: &mut impl Agent) {
        let mut idle = 0;
        loop {
            let motions = self.mpi.motions();
            let choice = self.schedule.below(motions.len() + self.threads.len());
            let slow = self.slowness[choice % self.slowness.len()];
            if !self.schedule.chance(1, slow) {
                continue;
            }
            self.clock += 1;
            match motions.get(choice) {
                Some(motion) => {
                    self.mpi.go(*motion);
                    idle = 0;
                }
                None if self.step(choice - motions.len(), agent) => idle = 0,
                None => idle += 1,
            }
            if idle > 20 && motions.is_empty() && self.is_stuck(agent) {
                return;
            }
        }
    }

    /// Tries every thread once. Returns whether none of them made progress.
    fn is_stuck(&mut self, agent: &mut impl Agent) -> bool {
        (0..self.threads.len()).all(|thread| !self.step(thread, agent))
    }

    /// Counts the outcome of the operation that a thread has just finished.
    fn count(&mut self, at: usize) {
        let thread = &self.threads[at];
        let entry = thread.log.last().map_or(&[][..], |entry| &entry[..]);
        let name = match &thread.operation {
            Some(Operation::Complete { kind, .. }) => {
                let how = match entry {
                    [_, 0, ..] => "failed",
                    [_, 1, 0, ..] => "nothing active",
                    [_, 1, _] => "nothing given",
                    [_, 1, _, _, -1, ..] => "of a send or cancelled",
                    [_, 1, _, _, _, _, _] => "of one",
                    _ => "of several",
                };
                format!("{kind} {how}")
            }
            Some(Operation::Probe { kind, .. }) => {
                format!("{kind} {}", if entry.len() > 2 { "found" } else { "failed" })
            }
            Some(operation) => {
                let text = format!("{operation:?}");
                text.split([' ', '{']).next().unwrap_or_default().to_string()
            }
            None => return,
        };
        *self.outcomes.entry(name).or_default() += 1;
    }

    /// Lets one thread continue. Returns whether anything happened.
    fn step(&mut self, at: usize, agent: &mut impl Agent) -> bool {
        let thread = &mut self.threads[at];
        let over = thread.step >= self.config.steps && thread.operation.is_none();
        if thread.stopped || (over && thread.forced.is_none()) {
            return false;
        }
        if thread.operation.is_none() {
            let position = [thread.rank, thread.number, thread.step];
            let next = || program::next(&self.config, position, thread.digest, &thread.slots);
            thread.operation = Some(thread.forced.take().unwrap_or_else(next));
            thread.step += 1;
        }
        match agent.attempt(self, at) {
            Step::Done => {
                self.count(at);
                self.threads[at].operation = None;
                true
            }
            Step::Went => true,
            Step::Blocked => false,
            Step::Stopped => {
                self.threads[at].stopped = true;
                true
            }
        }
    }
}
