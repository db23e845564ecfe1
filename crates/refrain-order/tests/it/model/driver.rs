//! What the tests of both methods share: record once, replay under other schedules, compare.

use std::fmt::Debug;

use crate::model::agent::Agent;
use crate::model::program::{Config, Feature};
use crate::model::world::{Entry, World};
use refrain_order::Stop;
use refrain_testing::random::Random;

/// A method's two agents.
pub trait Method {
    /// A rule of the agents that can be broken, to check that a test notices.
    type Fault: Copy + Debug;
    /// No rule is broken.
    const SOUND: Self::Fault;
    /// How many programs a test runs.
    const PROGRAMS: u64;
    type Recording: Agent;
    type Replaying: Agent;

    /// On average, a block is sealed every `seal_every` steps.
    fn recording(world: &World, seal_every: u64, fault: Self::Fault) -> Self::Recording;
    /// The records of ranks that ended.
    fn finish(recording: Self::Recording, world: &World) -> Vec<Vec<u8>>;
    /// The records of ranks that were killed.
    fn killed(recording: Self::Recording) -> Vec<Vec<u8>>;
    fn replaying(world: &World, records: &[Vec<u8>], fault: Self::Fault) -> Self::Replaying;
    /// Why threads could not continue.
    fn stops(replaying: &Self::Replaying) -> &[Stop];
    /// How many notes ranks exchanged, apart from the stamps of messages.
    fn notes(_replaying: &Self::Replaying) -> u64 {
        0
    }
    /// Ends the replay. Returns what is wrong with it.
    fn end(replaying: Self::Replaying) -> Vec<Stop>;
}

pub type Logs = Vec<Vec<Entry>>;

pub fn logs(world: &World) -> Logs {
    world.threads.iter().map(|thread| thread.log.clone()).collect()
}

fn record<M: Method>(config: Config, schedule: u64, fault: M::Fault) -> (Logs, Vec<Vec<u8>>) {
    let mut world = World::new(config, schedule);
    let seal_every = [3, 20, 100, 1_000_000][schedule as usize % 4];
    let mut recording = M::recording(&world, seal_every, fault);
    world.run(&mut recording);
    (logs(&world), M::finish(recording, &world))
}

fn replay<M: Method>(
    config: Config,
    schedule: u64,
    fault: M::Fault,
    records: &[Vec<u8>],
    recorded: &Logs,
) -> Result<u64, String> {
    let mut world = World::new(config, schedule);
    let mut replaying = M::replaying(&world, records, fault);
    world.run(&mut replaying);
    for (thread, (got, expected)) in logs(&world).iter().zip(recorded).enumerate() {
        if got != expected {
            let at = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
            return Err(format!(
                "thread {thread}, entry {at} of {}: {:?} is {:?} in replay, doing {:?}; {:?}",
                expected.len(),
                expected.get(at),
                got.get(at),
                world.threads[thread].operation,
                M::stops(&replaying)
            ));
        }
    }
    let notes = M::notes(&replaying);
    match M::end(replaying).first() {
        Some(stop) => Err(format!("{stop:?}")),
        None => Ok(notes),
    }
}

/// Records a program once, and replays it under other schedules. Returns the number of outcomes, and
/// of notes in the replays.
pub fn check<M: Method>(config: Config, fault: M::Fault) -> Result<(usize, u64), String> {
    let mut random = Random::of(&[config.seed, 77]);
    let (recorded, records) = record::<M>(config, random.next(), fault);
    let mut notes = 0;
    for _ in 0..3 {
        notes += replay::<M>(config, random.next(), fault, &records, &recorded)?;
    }
    Ok((recorded.iter().map(Vec::len).sum(), notes))
}

pub fn config(seed: u64) -> Config {
    let mut random = Random::of(&[seed]);
    let all = (1 << 11) - 1;
    Config {
        seed,
        ranks: 2 + random.below(3),
        threads: 1 + random.below(3) / 2 * (1 + random.below(2)),
        steps: [8, 30, 80][random.below(3)],
        features: if random.chance(1, 2) { all } else { random.next() as u32 & all },
    }
}

/// More ranks, which only send, post wildcard receives, and complete them.
pub fn crowd(seed: u64) -> Config {
    use Feature::*;
    let mut random = Random::of(&[seed, 5]);
    let features = [AnyTag, Large, Blocking, Several, Chatty].map(|feature| 1 << feature as u32);
    let features = features.iter().sum::<u32>() & !u32::from(random.chance(1, 2));
    Config { seed, ranks: 4 + random.below(5), threads: 1, steps: 300, features }
}

/// Makes a failing program smaller while it fails.
fn shrink<M: Method>(mut config: Config, fault: M::Fault) -> (Config, String) {
    let mut why = check::<M>(config, fault).err().unwrap_or_default();
    loop {
        let mut smaller = vec![
            Config { ranks: config.ranks - 1, ..config },
            Config { threads: config.threads - 1, ..config },
            Config { steps: config.steps / 2, ..config },
            Config { steps: config.steps - 1, ..config },
        ];
        let without = (0..11).map(|n| Config { features: config.features & !(1 << n), ..config });
        smaller.extend(without.filter(|c| c.features != config.features));
        // A smaller program is a different program: several seeds are tried, so that one of them fails too.
        let tries = smaller.into_iter().filter(|c| c.ranks > 0 && c.threads > 0 && c.steps > 0);
        let tries =
            tries.flat_map(|c| (0..60).map(move |n| Config { seed: n * 977 + c.seed % 977, ..c }));
        match tries.map(|c| (c, check::<M>(c, fault).err())).find(|(_, error)| error.is_some()) {
            Some((found, error)) => (config, why) = (found, error.unwrap_or_default()),
            None => return (config, why),
        }
    }
}

pub fn programs<M: Method>() -> u64 {
    let asked = std::env::var("REFRAIN_PROGRAMS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(M::PROGRAMS)
}

/// A run that was recorded under one schedule replays under any other.
pub fn replays_under_any_schedule<M: Method>() {
    let mut entries = 0;
    for seed in 0..programs::<M>() {
        match check::<M>(config(seed), M::SOUND) {
            Ok((count, _)) => entries += count,
            Err(why) => {
                let (smallest, smaller) = shrink::<M>(config(seed), M::SOUND);
                panic!("seed {seed}: {why}\n{:?}\nsmaller: {smaller}\n{smallest:?}", config(seed));
            }
        }
    }
    assert!(entries as u64 > 20 * programs::<M>(), "programs do too little: {entries} outcomes");
}

/// A truncated record replays up to its end, and no further.
pub fn truncated_records_replay_up_to_their_end<M: Method>() {
    for seed in 0..programs::<M>() {
        let config = config(seed);
        let mut random = Random::of(&[seed, 78]);
        let mut world = World::new(config, random.next());
        let mut recording = M::recording(&world, 15, M::SOUND);
        world.run(&mut recording);
        let (recorded, records) = (logs(&world), M::killed(recording));
        let mut world = World::new(config, random.next());
        let mut replaying = M::replaying(&world, &records, M::SOUND);
        world.run(&mut replaying);
        assert_eq!(M::stops(&replaying), [], "seed {seed}");
        for (got, expected) in logs(&world).iter().zip(&recorded) {
            assert!(expected.starts_with(got), "seed {seed}: {got:?} is no part of {expected:?}");
        }
    }
}

/// Checks that some program fails if a rule is broken.
pub fn rule_is_needed<M: Method>(fault: M::Fault, program: fn(u64) -> Config) {
    let caught = (0..programs::<M>()).find(|seed| check::<M>(program(*seed), fault).is_err());
    assert!(caught.is_some(), "{fault:?} goes unnoticed");
}
