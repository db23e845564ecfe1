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
    /// No rule is broken.
    None,
    /// Wildcards stay wildcards.
    PostWildcards,
    /// The source is narrowed, the tag is not.
    PostAnyTag,
    /// Cancelled receives are posted.
    PostCancelled,
    /// Receives that never matched are posted, as wildcards. Harmless: every message that they accept is matched by a
    /// receive that was posted earlier.
    PostNever,
    /// Cancelling is left to MPI.
    CancelForReal,
    /// A poll that failed in the record asks MPI.
    PollForReal,
    /// A poll that succeeded does not wait.
    PollOnce,
    /// All complete requests are reported, not the recorded ones.
    CompleteAnything,
    /// The order within a call is not kept.
    CompleteSorted,
    /// Startall starts requests in another order.
    StartTogether,
    /// Threads do not wait for their turn.
    IgnoreTurns,
    /// A probe releases its turn before it has found its message.
    ProbeReleasesTurn,
    /// The match results of freed and abandoned receives are not recorded.
    ForgetOrphans,
    /// Match results that became known late are lost.
    LoseLateResults,
    /// Clocks are read instead of replayed.
    ReadRealClock,
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
fn a_run_recorded_under_one_schedule_replays_under_any_other() {
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
        PostWildcards,
        PostAnyTag,
        PostCancelled,
        CancelForReal,
        PollForReal,
        PollOnce,
        CompleteAnything,
        CompleteSorted,
        StartTogether,
        IgnoreTurns,
        ProbeReleasesTurn,
        ForgetOrphans,
        LoseLateResults,
        ReadRealClock,
    ];
    for fault in faults {
        driver::rule_is_needed::<Causal>(fault, config);
    }
}
