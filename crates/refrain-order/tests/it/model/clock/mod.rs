//! The clock method.

mod notes;
mod recording;
mod replaying;

use crate::model::driver::{self, Method, check, config, crowd, programs};
use crate::model::world::World;
use notes::Fault;
use recording::Recording;
use refrain_order::Stop;
use replaying::Replaying;

struct Clock;

impl Method for Clock {
    type Fault = Fault;
    const SOUND: Fault = Fault::None;
    const PROGRAMS: u64 = 2000;
    type Recording = Recording;
    type Replaying = Replaying;

    fn recording(world: &World, seal_every: u64, fault: Fault) -> Recording {
        Recording::new(world, seal_every, fault)
    }

    fn finish(recording: Recording, _: &World) -> Vec<Vec<u8>> {
        recording.finish()
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

    fn notes(replaying: &Replaying) -> u64 {
        replaying.queries()
    }

    fn end(replaying: Replaying) -> Vec<Stop> {
        replaying.finish()
    }
}

#[test]
fn a_run_recorded_under_one_schedule_replays_under_any_other() {
    driver::replays_under_any_schedule::<Clock>();
}

#[test]
fn a_truncated_record_replays_up_to_its_end() {
    driver::truncated_records_replay_up_to_their_end::<Clock>();
}

#[test]
fn queries_of_many_ranks_find_out_that_no_earlier_message_can_arrive() {
    let (mut entries, mut notes) = (0, 0);
    for seed in 0..programs::<Clock>() / 10 {
        match check::<Clock>(crowd(seed), Fault::None) {
            Ok((count, sent)) => (entries, notes) = (entries + count, notes + sent),
            Err(why) => panic!("seed {seed}: {why}\n{:?}", crowd(seed)),
        }
    }
    println!("{entries} outcomes, {:.2} notes each", notes as f64 / entries as f64 / 3.0);
    assert!(notes > entries as u64, "hardly any queries: {notes} notes");
}

#[test]
fn every_rule_is_needed() {
    use Fault::*;
    for fault in
        [DecideEarly, NoAnswers, PairInReportedOrder, IgnoreCancel, AnswersOvertake, NoRetry]
    {
        let program = if matches!(fault, AnswersOvertake | NoRetry) { crowd } else { config };
        driver::rule_is_needed::<Clock>(fault, program);
    }
}
