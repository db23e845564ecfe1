//! Programs recorded under one schedule and replayed under others, in the model of MPI's matching
//! that the causal method is tested in.

#[allow(dead_code)]
#[path = "../../../refrain-order/tests/model/agent.rs"]
mod agent;
#[path = "../../../refrain-order/tests/model/mpi.rs"]
mod mpi;
mod notes;
#[path = "../../../refrain-order/tests/model/program.rs"]
mod program;
#[path = "../../../refrain-order/tests/model/random.rs"]
mod random;
mod recording;
mod replaying;
#[path = "../../../refrain-order/tests/model/world.rs"]
mod world;

use notes::Fault;
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
    (logs(&world), recording.finish())
}

fn replay(
    config: Config,
    schedule: u64,
    fault: Fault,
    records: &[Vec<u8>],
    recorded: &Logs,
) -> Result<u64, String> {
    let mut world = World::new(config, schedule);
    let mut replaying = Replaying::new(&world, records, fault);
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
                replaying.stops
            ));
        }
    }
    let notes = replaying.asked();
    match replaying.finish().first() {
        Some(stop) => Err(format!("{stop:?}")),
        None => Ok(notes),
    }
}

/// One program: recorded once, replayed under other schedules. Outcomes, and notes of replays.
fn check(config: Config, fault: Fault) -> Result<(usize, u64), String> {
    let mut random = Random::of(&[config.seed, 77]);
    let (recorded, records) = record(config, random.next(), fault);
    let mut notes = 0;
    for _ in 0..3 {
        notes += replay(config, random.next(), fault, &records, &recorded)?;
    }
    Ok((recorded.iter().map(Vec::len).sum(), notes))
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

/// More ranks that do little else than send, receive from anybody, and wait.
fn crowd(seed: u64) -> Config {
    use program::Feature::*;
    let mut random = Random::of(&[seed, 5]);
    let features = [AnyTag, Large, Blocking, Several, Chatty].map(|feature| 1 << feature as u32);
    let features = features.iter().sum::<u32>() & !u32::from(random.chance(1, 2));
    Config { seed, ranks: 4 + random.below(5), threads: 1, steps: 300, features }
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
    std::env::var("REFRAIN_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(2000)
}

#[test]
fn what_was_recorded_under_one_schedule_replays_under_any_other() {
    let mut entries = 0;
    for seed in 0..programs() {
        match check(config(seed), Fault::None) {
            Ok((count, _)) => entries += count,
            Err(why) => {
                let (smallest, smaller) = shrink(config(seed), Fault::None);
                panic!("seed {seed}: {why}\n{:?}\nsmaller: {smaller}\n{smallest:?}", config(seed));
            }
        }
    }
    assert!(entries as u64 > 20 * programs(), "programs do too little: {entries} outcomes");
}

#[test]
fn many_ranks_find_out_that_nothing_earlier_can_come() {
    let (mut entries, mut notes) = (0, 0);
    for seed in 0..programs() / 10 {
        match check(crowd(seed), Fault::None) {
            Ok((count, told)) => (entries, notes) = (entries + count, notes + told),
            Err(why) => panic!("seed {seed}: {why}\n{:?}", crowd(seed)),
        }
    }
    println!("{entries} outcomes, {:.2} notes each", notes as f64 / entries as f64 / 3.0);
    assert!(notes > entries as u64, "there is nothing to find out: {notes} notes");
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
fn every_rule_is_needed() {
    use Fault::*;
    for fault in [Hasty, Silent, PairAsReported, CancelUntold, Overtaking, Stubborn] {
        let program = if matches!(fault, Overtaking | Stubborn) { crowd } else { config };
        let caught = (0..programs()).find(|seed| check(program(*seed), fault).is_err());
        assert!(caught.is_some(), "{fault:?} goes unnoticed");
    }
}
