//! Random programs.
//!
//! A thread's next operation depends on the seed, its position, and everything it has observed so far: a program that
//! gets another message, or the same messages in another order, does something else afterwards.

use crate::model::mpi::{Message, Wanted};
use refrain_order::Kind;
use refrain_testing::random::Random;

/// The size of a program, and the operations it may use.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub seed: u64,
    pub ranks: usize,
    pub threads: usize,
    pub steps: usize,
    /// One bit for each of [`Feature`].
    pub features: u32,
}

/// Operations that can be left out when a failing program is shrunk.
#[derive(Clone, Copy, Debug)]
pub enum Feature {
    AnyTag,
    Large,
    Blocking,
    Probes,
    MatchedProbes,
    Persistent,
    Cancel,
    Free,
    Clock,
    Status,
    Several,
    /// Only sends, wildcard receives and completions. Not chosen at random.
    Chatty,
}

impl Config {
    pub fn has(&self, feature: Feature) -> bool {
        self.features >> feature as u32 & 1 == 1
    }
}

/// The program's view of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub active: bool,
    pub receive: bool,
    /// The arguments of a persistent receive, and its call site.
    pub persistent: Option<(Wanted, u64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    Send { to: usize, communicator: u32, tag: i32, large: bool },
    Receive { wanted: Wanted, site: u64 },
    Blocking { wanted: Wanted, site: u64 },
    Sendrecv { wanted: Wanted, site: u64, to: usize, tag: i32 },
    Init { wanted: Wanted, site: u64 },
    Start { slots: Vec<usize> },
    Probe { kind: Kind, wanted: Wanted, site: u64 },
    ReceiveMatched { message: Message, site: u64 },
    Complete { kind: Kind, slots: Vec<Option<usize>>, site: u64 },
    Cancel { slot: usize },
    Free { slot: usize },
    Clock,
}

const TAGS: usize = 3;
const COMMUNICATORS: usize = 2;

fn wanted(config: &Config, random: &mut Random) -> Wanted {
    let source = random.below(config.ranks) as i32;
    let tag = random.below(TAGS) as i32;
    Wanted {
        communicator: u32::from(random.chance(1, 4)) % COMMUNICATORS as u32,
        source: (!random.chance(2, 3)).then_some(source),
        tag: (!random.chance(1, 2) || !config.has(Feature::AnyTag)).then_some(tag),
    }
}

fn completion(config: &Config, random: &mut Random, slots: &[Slot]) -> Operation {
    let known: Vec<usize> = (0..slots.len()).filter(|n| slots[*n].active).collect();
    let count = if config.has(Feature::Several) { 1 + random.below(6) } else { 1 };
    let mut chosen: Vec<Option<usize>> = Vec::new();
    for _ in 0..count {
        let at = random.below(known.len().max(1));
        match known.get(at) {
            Some(slot) if !chosen.contains(&Some(*slot)) => chosen.push(Some(*slot)),
            _ if random.chance(1, 4) => chosen.push(None),
            _ => {}
        }
    }
    use Kind::*;
    let mut kinds = vec![Test, Testall, Testany, Testsome, Testsome];
    if config.has(Feature::Blocking) {
        kinds.extend([Wait, Waitall, Waitany, Waitany, Waitsome, Waitsome]);
    }
    if config.has(Feature::Status) {
        kinds.extend([GetStatus, GetStatusAll, GetStatusAny, GetStatusSome]);
    }
    let kind = kinds[random.below(kinds.len())];
    if matches!(kind, Wait | Test | GetStatus) {
        chosen.truncate(1);
        chosen.resize(1, None);
    }
    Operation::Complete { kind, slots: chosen, site: 100 + kind as u64 * 4 + random.next() % 2 }
}

/// The next operation of a thread.
pub fn next(config: &Config, position: [usize; 3], digest: u64, slots: &[Slot]) -> Operation {
    let [rank, thread, step] = position.map(|part| part as u64);
    let mut random = Random::of(&[config.seed, rank, thread, step, digest]);
    let wanted = wanted(config, &mut random);
    let to = random.below(config.ranks);
    let tag = random.below(TAGS) as i32;
    let site = 1 + random.next() % 3;
    let large = config.has(Feature::Large) && random.chance(1, 4);
    let send = Operation::Send { to, communicator: u32::from(random.chance(1, 4)), tag, large };
    let pick = |random: &mut Random, wants: &dyn Fn(&Slot) -> bool| {
        let fit: Vec<usize> = (0..slots.len()).filter(|n| wants(&slots[*n])).collect();
        (!fit.is_empty()).then(|| fit[random.below(fit.len())])
    };
    if config.has(Feature::Chatty) {
        let active: Vec<usize> =
            (0..slots.len()).filter(|n| slots[*n].active && slots[*n].receive).collect();
        let wanted = Wanted { communicator: 0, source: None, ..wanted };
        let kind = [Kind::Testsome, Kind::Testany][random.below(2)];
        return match random.below(8) {
            0..=2 => Operation::Send { to, communicator: 0, tag, large },
            3..=5 if active.len() < 6 => Operation::Receive { wanted, site },
            _ => Operation::Complete { kind, slots: active.into_iter().map(Some).collect(), site },
        };
    }
    match random.below(24) {
        0..=6 => send,
        7..=10 => Operation::Receive { wanted, site },
        11 if config.has(Feature::Blocking) => Operation::Blocking { wanted, site: 10 + site },
        12 if config.has(Feature::Blocking) => {
            Operation::Sendrecv { wanted, site: 20 + site, to, tag }
        }
        13 if config.has(Feature::Persistent) => Operation::Init { wanted, site: 30 + site },
        14 | 15 if config.has(Feature::Persistent) => {
            let fits = |slot: &Slot| slot.persistent.is_some() && !slot.active;
            let first = pick(&mut random, &fits);
            let second = pick(&mut random, &fits).filter(|second| Some(*second) != first);
            let slots: Vec<usize> = first.into_iter().chain(second).collect();
            if slots.is_empty() { send } else { Operation::Start { slots } }
        }
        16 if config.has(Feature::Cancel) => {
            let slot = pick(&mut random, &|slot| slot.active && slot.receive);
            slot.map_or(send, |slot| Operation::Cancel { slot })
        }
        17 if config.has(Feature::Free) && random.chance(1, 2) => {
            let slot = pick(&mut random, &|slot| slot.active);
            slot.map_or(send, |slot| Operation::Free { slot })
        }
        18 if config.has(Feature::Probes) => {
            let blocking = config.has(Feature::Blocking) && random.chance(1, 4);
            let kind = if blocking { Kind::Probe } else { Kind::Iprobe };
            Operation::Probe { kind, wanted, site: 40 + site }
        }
        19 if config.has(Feature::MatchedProbes) => {
            let blocking = config.has(Feature::Blocking) && random.chance(1, 4);
            let kind = if blocking { Kind::Mprobe } else { Kind::Improbe };
            Operation::Probe { kind, wanted, site: 50 + site }
        }
        20 if config.has(Feature::Clock) => Operation::Clock,
        _ => completion(config, &mut random, slots),
    }
}
