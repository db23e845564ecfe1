//! Programs recorded under one schedule and replayed under others, in a model of MPI's matching.

mod agent;
mod mpi;
mod program;
mod random;
mod recording;
mod replaying;
mod world;

use std::collections::BTreeMap;

use agent::Fault;
use program::Config;
use random::Random;
use recording::Recording;
use replaying::Replaying;
use world::{Entry, World};

type Logs = Vec<Vec<Entry>>;

fn logs(world: &World) -> Logs {
    world.threads.iter().map(|thread| thread.log.clone()).collect()
}

fn record(config: Config, schedule: u64, fault: Fault) -> (Logs, Vec<Vec<u8>>) {
    let mut world = World::new(config, schedule);
    let seal_every = [3, 20, 100, 1_000_000][schedule as usize % 4];
    let mut recording = Recording::new(&world, seal_every, fault);
    world.run(&mut recording);
    let records = recording.finish(&world);
    (logs(&world), records)
}

fn replay(
    config: Config,
    schedule: u64,
    fault: Fault,
    records: &[Vec<u8>],
    recorded: &Logs,
) -> Result<(), String> {
    let mut world = World::new(config, schedule);
    let mut replaying = Replaying::new(&world, records, fault);
    world.run(&mut replaying);
    for (thread, (got, expected)) in logs(&world).iter().zip(recorded).enumerate() {
        if got != expected {
            let at = got.iter().zip(expected).take_while(|(a, b)| a == b).count();
            let text = format!(
                "thread {thread}, entry {at} of {}: {:?} is {:?} in replay, doing {:?}; {:?}",
                expected.len(),
                expected.get(at),
                got.get(at),
                world.threads[thread].operation,
                replaying.stops
            );
            return Err(text);
        }
    }
    match replaying.finish().first() {
        Some(stop) => Err(format!("{stop:?}")),
        None => Ok(()),
    }
}

/// One program: recorded once, replayed under other schedules.
fn check(config: Config, fault: Fault) -> Result<usize, String> {
    let mut random = Random::of(&[config.seed, 77]);
    let (recorded, records) = record(config, random.next(), fault);
    for _ in 0..3 {
        replay(config, random.next(), fault, &records, &recorded)?;
    }
    Ok(recorded.iter().map(Vec::len).sum())
}

fn config(seed: u64) -> Config {
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

/// Makes a failing program smaller while it fails.
fn shrink(mut config: Config, fault: Fault) -> (Config, String) {
    let mut why = check(config, fault).err().unwrap_or_default();
    loop {
        let mut smaller = vec![
            Config { ranks: config.ranks - 1, ..config },
            Config { threads: config.threads - 1, ..config },
            Config { steps: config.steps / 2, ..config },
            Config { steps: config.steps - 1, ..config },
        ];
        let without = (0..11).map(|n| Config { features: config.features & !(1 << n), ..config });
        smaller.extend(without.filter(|c| c.features != config.features));
        // A smaller program is another program: a few seeds give it a chance to fail as well.
        let tries = smaller.into_iter().filter(|c| c.ranks > 0 && c.threads > 0 && c.steps > 0);
        let tries =
            tries.flat_map(|c| (0..60).map(move |n| Config { seed: n * 977 + c.seed % 977, ..c }));
        match tries.map(|c| (c, check(c, fault).err())).find(|(_, error)| error.is_some()) {
            Some((found, error)) => (config, why) = (found, error.unwrap_or_default()),
            None => return (config, why),
        }
    }
}

fn programs() -> u64 {
    std::env::var("REFRAIN_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(3000)
}

#[test]
fn what_was_recorded_under_one_schedule_replays_under_any_other() {
    let mut entries = 0;
    for seed in 0..programs() {
        match check(config(seed), Fault::None) {
            Ok(count) => entries += count,
            Err(why) => {
                let (smallest, smaller) = shrink(config(seed), Fault::None);
                panic!("seed {seed}: {why}\n{:?}\nsmaller: {smaller}\n{smallest:?}", config(seed));
            }
        }
    }
    assert!(entries as u64 > 20 * programs(), "programs do too little: {entries} outcomes");
}

#[test]
fn a_record_cut_short_replays_up_to_there() {
    for seed in 0..programs() {
        let config = config(seed);
        let mut random = Random::of(&[seed, 78]);
        let mut world = World::new(config, random.next());
        let mut recording = Recording::new(&world, 15, Fault::None);
        world.run(&mut recording);
        let (recorded, records) = (logs(&world), recording.killed());
        let mut world = World::new(config, random.next());
        let mut replaying = Replaying::new(&world, &records, Fault::None);
        world.run(&mut replaying);
        assert_eq!(replaying.stops, [], "seed {seed}");
        for (got, expected) in logs(&world).iter().zip(&recorded) {
            assert!(expected.starts_with(got), "seed {seed}: {got:?} is no part of {expected:?}");
        }
    }
}

#[test]
fn receives_that_never_matched_may_be_posted() {
    for seed in 0..programs() / 3 {
        assert_eq!(check(config(seed), Fault::PostNever).err(), None, "seed {seed}");
    }
}

#[test]
fn programs_do_everything() {
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    let (mut ended, mut threads) = (0, 0);
    for seed in 0..1000 {
        let mut world = World::new(config(seed), seed);
        let mut recording = Recording::new(&world, 100, Fault::None);
        world.run(&mut recording);
        world.done.iter().for_each(|(name, count)| *done.entry(name.clone()).or_default() += count);
        ended += world.threads.iter().filter(|thread| thread.operation.is_none()).count();
        threads += world.threads.len();
    }
    println!("{ended} of {threads} threads came to their end\n{done:#?}");
    assert!(done.len() > 50, "only {} sorts of outcomes", done.len());
    let rare: Vec<_> = done.iter().filter(|(_, count)| **count < 20).collect();
    assert!(rare.is_empty(), "hardly ever: {rare:?}");
    assert!(ended * 3 > threads, "only {ended} of {threads} threads come to their end");
}

#[test]
fn every_rule_is_needed() {
    use Fault::*;
    let faults = [
        PostWide,
        PostAnyTag,
        PostCancelled,
        CancelForReal,
        PollForReal,
        PollOnce,
        CompleteAnything,
        CompleteSorted,
        StartTogether,
        IgnoreTurns,
        ProbeLetsGo,
        ForgetOrphans,
        LoseFixups,
        ReadClock,
    ];
    for fault in faults {
        let caught = (0..programs()).find(|seed| check(config(*seed), fault).is_err());
        assert!(caught.is_some(), "{fault:?} goes unnoticed");
    }
}
