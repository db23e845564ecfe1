//! The causal method.

mod recording;
mod replaying;

use crate::model::driver::{self, Method, check, config, programs};
use crate::model::world::World;
use recording::Recording;
use refrain_order::Stop;
use replaying::Replaying;

/// Rules of the agents that can be broken, to check that a test notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: this is how it has to be.
    None,
    /// Wildcards stay wildcards.
    PostWide,
    /// The source is forced, the tag is not.
    PostAnyTag,
    /// What was cancelled is posted.
    PostCancelled,
    /// What never matched is posted, as a wildcard. Harmless: it was posted before everything
    /// that could have taken its message.
    PostNever,
    /// Cancelling is left to MPI.
    CancelForReal,
    /// A poll that failed in the record looks for itself.
    PollForReal,
    /// A poll that succeeded does not wait.
    PollOnce,
    /// Whatever is complete is reported, not what was recorded.
    CompleteAnything,
    /// The order within a call is not kept.
    CompleteSorted,
    /// Startall starts in an order of its own.
    StartTogether,
    /// Threads do not wait for their turn.
    IgnoreTurns,
    /// A probe gives up its turn before it has found its message.
    ProbeLetsGo,
    /// Nobody asks what became of freed and abandoned receives.
    ForgetOrphans,
    /// Match results that were learnt late are lost.
    LoseFixups,
    /// Clocks are read anew.
    ReadClock,
}

pub struct Causal;

impl Method for Causal {
    type Fault = Fault;
    const SOUND: Fault = Fault::None;
    const PROGRAMS: u64 = 3000;
    type Recording = Recording;
    type Replaying = Replaying;

    fn recording(world: &World, seal_every: u64, fault: Fault) -> Recording {
        Recording::new(world, seal_every, fault)
    }

    fn finish(recording: Recording, world: &World) -> Vec<Vec<u8>> {
        recording.finish(world)
    }

    fn killed(recording: Recording) -> Vec<Vec<u8>> {
        recording.killed()
    }

    fn replaying(world: &World, records: &[Vec<u8>], fault: Fault) -> Replaying {
        Replaying::new(world, records, fault)
    }

    fn stops(replaying: &Replaying) -> &[Stop] {
        &replaying.stops
    }

    fn end(replaying: Replaying) -> Vec<Stop> {
        replaying.finish()
    }
}

#[test]
fn what_was_recorded_under_one_schedule_replays_under_any_other() {
    driver::replays_under_any_schedule::<Causal>();
}

#[test]
fn a_truncated_record_replays_up_to_its_end() {
    driver::truncated_records_replay_up_to_their_end::<Causal>();
}

#[test]
fn receives_that_never_matched_may_be_posted() {
    for seed in 0..programs::<Causal>() / 3 {
        assert_eq!(check::<Causal>(config(seed), Fault::PostNever).err(), None, "seed {seed}");
    }
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
        driver::is_needed::<Causal>(fault, config);
    }
}
