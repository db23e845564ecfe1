//! Programs recorded under one schedule and replayed under others, in a model of MPI's matching rules.
//!
//! Both methods run the same programs: [`driver`] holds what they share, [`causal`] and [`clock`] the
//! agents and the rules that each method must keep.

mod agent;
mod causal;
mod clock;
mod driver;
mod mpi;
mod program;
mod world;

use std::collections::BTreeMap;

use driver::{Method, config};
use world::World;

#[test]
fn the_programs_exercise_every_operation() {
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    let (mut ended, mut threads) = (0, 0);
    for seed in 0..1000 {
        let mut world = World::new(config(seed), seed);
        let mut recording = causal::Causal::recording(&world, 100, causal::Fault::None);
        world.run(&mut recording);
        world
            .outcomes
            .iter()
            .for_each(|(name, count)| *done.entry(name.clone()).or_default() += count);
        ended += world.threads.iter().filter(|thread| thread.operation.is_none()).count();
        threads += world.threads.len();
    }
    println!("{ended} of {threads} threads came to their end\n{done:#?}");
    assert!(done.len() > 50, "only {} sorts of outcomes", done.len());
    let rare: Vec<_> = done.iter().filter(|(_, count)| **count < 20).collect();
    assert!(rare.is_empty(), "hardly ever: {rare:?}");
    assert!(ended * 3 > threads, "only {ended} of {threads} threads come to their end");
}
